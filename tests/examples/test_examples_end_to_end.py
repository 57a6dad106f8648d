"""The examples, through the command line as a user runs them."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import preforked
import pytest
from bundles import bundle
from review_team import ANALYSERS

from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import Record, TurnFinished, TurnStarted

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).parents[2] / "examples"
REVIEW = EXAMPLES / "repo-review" / "review.at"
FILES = sorted(file.relative_to(EXAMPLES).as_posix() for file in EXAMPLES.rglob("*.at"))
LOOPS = sorted(file.parent.name for file in EXAMPLES.glob("*/topology.toml"))


class Here:
    """A working directory, and `coterie` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str | Path, status: int = 0) -> str:
        """Run `coterie` with *arguments*, which must end with *status*, and give its standard output."""
        environment = os.environ | {"XDG_STATE_HOME": str(self.folder / "state"), "COLUMNS": "100"}
        done = preforked.run(*map(str, arguments), cwd=self.folder, env=environment, timeout=120)
        assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
        self.said = done.stderr
        return done.stdout

    def document(self, *arguments: str | Path, status: int = 0) -> dict[str, Any]:
        """The one JSON document that a command prints."""
        return dict(json.loads(self(*arguments, "--json", status=status)))

    def records(self, run: str) -> list[Record]:
        """The journal of *run*."""
        return list(JsonlStore(self.folder / ".coterie").read(run))


@pytest.fixture
def coterie(tmp_path: Path) -> Here:
    """The command, in an empty working directory."""
    return Here(tmp_path)


def finished(records: list[Record]) -> list[str]:
    """The turns that have a result, in the order they got it."""
    return [record.turn for record in records if isinstance(record, TurnFinished)]


@bundle("file", [*FILES, *LOOPS])
def test_every_example_is_valid(coterie: Here, file: str) -> None:
    """`validate` finds no error and no warning in what we show."""
    found = coterie.document("topology", "validate", EXAMPLES / file)

    assert found["valid"]
    assert [one for one in found["diagnostics"] if one["severity"] != "note"] == []


@pytest.mark.slow
def test_the_review_team_reviews_a_repository(coterie: Here, seeded: Path) -> None:
    """One command, and the serious defects of the repository stand in `review.md`, each with its place."""
    done = coterie.document("run", REVIEW, "--input", f"repo={seeded}")

    assert (done["outcome"], done["exit"]) == ("completed", 0)
    page = (coterie.folder / "review.md").read_text(encoding="utf-8")
    for place in ("shop/risky.py:16", "shop/risky.py:17", "shop/risky.py:22", "shop/broken.py:4", "shop/hot.py:1"):
        assert f"`{place}`" in page
    order = finished(coterie.records(done["run"]))
    assert order[0] == "scout#1"
    assert set(order[1:6]) == {f"{name}#1" for name in ANALYSERS}
    assert order[6:8] == ["writer#1", "reviewer#1"]


@pytest.mark.slow
def test_the_review_goes_back_until_it_holds(coterie: Here, seeded: Path) -> None:
    """A first draft with room for one finding is revised; the last word is the reviewer's approval."""
    done = coterie.document("run", REVIEW, "--input", f"repo={seeded}", "--input", "budget=1")

    records = coterie.records(done["run"])
    assert finished(records)[6:] == ["writer#1", "reviewer#1", "writer#2", "reviewer#2"]
    verdicts = [r.outputs["verdict"] for r in records if isinstance(r, TurnFinished) and r.turn.startswith("reviewer")]
    assert verdicts == ["revise", "approve"]


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_was(coterie: Here, seeded: Path) -> None:
    """What had a result before is not run again, and the journal agrees with today's engine."""
    run = coterie.document("run", REVIEW, "--input", f"repo={seeded}", "--max-turns", "3", status=3)["run"]
    before = finished(coterie.records(run))
    assert len(before) == 3

    assert coterie.document("resume", run, "--max-turns", "none")["outcome"] == "completed"
    records = coterie.records(run)
    assert finished(records)[:3] == before
    starts = Counter((r.turn, r.attempt) for r in records if isinstance(r, TurnStarted))
    assert set(starts.values()) == {1}
    assert (coterie.folder / "review.md").exists()
    assert coterie.document("replay", run)["agrees"]


def test_a_repository_that_is_not_there_fails_with_the_agents_own_sentence(coterie: Here) -> None:
    """The user reads what the scout said, and no traceback."""
    text = coterie("run", REVIEW, "--input", "repo=nowhere", status=1)

    assert "is not a folder: name the repository with --input repo=PATH" in text + coterie.said
    assert "Traceback" not in text + coterie.said


def ran(document: dict[str, Any]) -> Counter[str]:
    """How often each agent ran in a rehearsal."""
    return Counter(turn["agent"] for turn in document["turns"])


@pytest.mark.parametrize(
    ("script", "counts", "end"),
    [
        (
            "code-review",
            {"planner": 1, "analyzer": 1, "security": 1, "writer": 2, "reviewer": 2},
            2 + 8 + 3 + 1 + 3 + 1,
        ),
        ("human-gate", {"writer": 2, "editor": 2, "publisher": 1}, 60 + 3600 + 60 + 3600 + 5),
    ],
)
def test_an_example_is_rehearsed_by_its_script(coterie: Here, script: str, counts: dict[str, int], end: int) -> None:
    """The script sends the work back once, in virtual time: hours pass in an instant."""
    script_file = EXAMPLES / "rehearsals" / f"{script}.json"
    document = coterie.document("run", EXAMPLES / f"{script}.at", "Do it", f"--rehearse={script_file}")

    assert document["outcome"] == "completed"
    assert ran(document) == counts
    assert max(turn["finished"] for turn in document["turns"]) == end
    assert document["never_ran"] == []


def test_a_team_inside_a_team_has_a_document_of_its_own(coterie: Here) -> None:
    """The inner team loops once by its declared outputs, inside one turn of the outer one."""
    document = coterie.document("run", EXAMPLES / "nested" / "release.at", "Version 2.0", "--rehearse")

    assert [turn["agent"] for turn in document["turns"]] == ["drafter", "check", "announcer"]
    assert ran(document["turns"][1]["child"]) == {"editor": 2, "critic": 2}
