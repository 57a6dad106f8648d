"""Runs of teams in several files, through the command line and from Python."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Place

import coterie
from coterie.errors import UsageError

COMPOSED = Path(__file__).parents[3] / "examples" / "composed"

SAYS = 'import os, sys, json; print(sys.argv[1]); print(json.dumps({"verdict": sys.argv[2]}))'

INNER = """topology inner : [pipeline] {
  params { verdict: string = approve  words: string }
  interface { exit: critic }
  agent editor { extensions { coterie { command: ["{python}", "{here}/say.py", "edited ${param.words}", "none"] } } }
  agent critic {
    extensions { coterie { command: ["{python}", "{here}/say.py", "judged ${param.words}", "${param.verdict}"] } }
    outputs { verdict: revise | approve }
  }
  agent keeper { extensions { coterie { command: ["{python}", "{here}/say.py", "kept", "lost"] } } }
  flow { editor -> critic -> keeper }
}
"""

OUTER = """topology outer : [pipeline] {
  params { second: string }
  import "inner.at" as first with { words: "once" }
  import "inner.at" as second with { words: "twice", verdict: "${param.second}" }
  include "parts.at"
  flow {
    first -> second [when first.verdict == approve]
    second -> good [when second.verdict == approve]
    second -> bad [when second.verdict == revise]
  }
}
"""

PARTS = """fragment parts {
  agent good { extensions { coterie { command: ["cat"] } } }
  agent bad { extensions { coterie { command: ["cat"] } } }
}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with a team in three files; each agent says what it is told to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "say.py").write_text(SAYS)
    for name, text in (("outer", OUTER), ("inner", INNER), ("parts", PARTS)):
        (tmp_path / f"{name}.at").write_text(text)
    return Place(tmp_path)


@pytest.mark.parametrize(("second", "last"), [("approve", "good"), ("revise", "bad")])
def test_the_exit_of_an_imported_team_decides_where_the_flow_goes(place: Place, second: str, last: str) -> None:
    """Not what ran last in it, and not the keeper's outputs, which nobody sees."""
    outcome = asyncio.run(coterie.run("outer.at", "go", params={"second": second}))

    assert outcome.status == "completed"
    assert set(outcome.result["outputs"]) == {last}
    text = outcome.result["text"]
    assert "judged twice" in text
    assert "kept" not in text
    assert "edited" not in text


def test_a_rehearsal_shows_the_runs_of_imported_teams(place: Place) -> None:
    """Each with its own turns; the exit's answer, the first that it may give, is that of the node."""
    document = _document(place, "run", "outer.at", "go", "--rehearse", "--json", "--set", "second=approve")

    [turn] = document["turns"]
    assert (turn["agent"], turn["outputs"]) == ("first", {"verdict": "revise"})
    assert [inner["agent"] for inner in turn["child"]["turns"]] == ["editor", "critic", "keeper"]


def test_a_value_that_is_missing_is_asked_for(place: Place) -> None:
    """Before anything starts, by the command and in Python; one that is not wanted is refused."""
    said = place.look("run", "outer.at", "go", "--rehearse", status=1)
    assert "error[param-not-set]: 'outer' needs a value for 'second'" in said.err
    assert "run it with --set second=…" in said.err
    said = place.look("run", "outer.at", "go", "--rehearse", "--set", "second=revise", "--set", "third=1", status=1)
    assert "'outer' has no parameter 'third'" in said.err
    with pytest.raises(coterie.TopologyError, match="param-not-set"):
        asyncio.run(coterie.run("outer.at"))
    with pytest.raises(UsageError, match="where a team's file is read"):
        asyncio.run(coterie.run(coterie.load("outer.at"), params={"second": "revise"}))


def test_an_exit_that_had_no_turn_leaves_the_result_to_the_ends(place: Place) -> None:
    """Then the node has no outputs of the exit, and nobody is asked again for them."""
    flow = "flow { editor -> critic [when editor.verdict == go]  editor -> keeper [when editor.verdict == none] }"
    head, _, _ = INNER.partition("  flow {")
    (place.folder / "inner.at").write_text(f"{head}  {flow}\n}}\n")
    (place.folder / "outer.at").write_text(
        'topology outer : [pipeline] { import "inner.at" as first with { words: "once" }  include "parts.at"\n'
        "flow { first -> good } }"
    )

    outcome = asyncio.run(coterie.run("outer.at", "go"))
    assert (outcome.status, outcome.usage.turns) == ("completed", 3)
    assert "kept" in outcome.result["text"]


def test_a_fragment_is_not_run(place: Place) -> None:
    """It is told what to do with it."""
    said = place.look("run", "parts.at", "go", status=1)

    assert "error[fragment]: 'parts' is a fragment, which cannot run by itself" in said.err
    assert "include it in a topology, and run that" in said.err


def test_a_composed_run_is_resumed_from_its_own_plan(place: Place) -> None:
    """The files may be gone by then."""
    place.look("run", "outer.at", "go", "--set", "second=revise", "--max-turns", "1", status=3)
    for name in ("outer", "inner", "parts"):
        (place.folder / f"{name}.at").unlink()

    outcome = asyncio.run(coterie.resume(limits=coterie.Limits(max_turns=-1)))
    assert set(outcome.result["outputs"]) == {"bad"}


def test_a_reload_takes_values_too(place: Place) -> None:
    """A resume without one does not."""
    place.look("run", "outer.at", "go", "--set", "second=revise", "--max-turns", "1", status=3)

    assert (
        "--set needs --reload FILE"
        in place.look("resume", "last", "--max-turns", "none", "--set", "second=approve", status=2).err
    )
    place.look("resume", "last", "--max-turns", "none", "--reload", "outer.at", "--set", "second=approve")
    outcome = json.loads(place.look("inspect", "last", "--json").out)
    assert "good" in json.dumps(outcome)


def test_the_example_runs_as_its_page_says() -> None:
    """Its parameters reach the imported team."""
    place = Place(COMPOSED)
    rounds = [
        len(_polish(_document(place, "run", "newsletter.at", "x", "--rehearse", "--json", *words))["turns"])
        for words in ((), ("--set", "rounds=1"))
    ]
    assert rounds[0] >= rounds[1] >= 2
    topology = coterie.load(COMPOSED / "newsletter.at", {"readers": "children"})
    writer = coterie.plan(topology).agents["writer"]
    assert "children read it" in writer.prompt
    assert "write for children" in writer.role


def _polish(document: dict[str, Any]) -> dict[str, Any]:
    return dict(next(turn["child"] for turn in document["turns"] if turn["agent"] == "polish"))


def _document(place: Place, *words: str) -> dict[str, Any]:
    return dict(json.loads(place.look(*words).out))
