"""Statistics and checks of many runs read the journal of each ended run once."""

import asyncio
from pathlib import Path

import pytest
from audited import audited

import coterie
from coterie.execution.runs import ended, removal
from coterie.execution.runs.checkups import DoctorContext, runs
from coterie.execution.runs.statistics import statistics
from coterie.history.journal.jsonl import JOURNAL
from coterie.interfaces.cli.app import main

STATE_DIR = Path(".coterie")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def opened(what: str) -> list[str]:
    """The journals that *what*, `stats` or `doctor`, opens."""
    with audited() as calls:
        if what == "stats":
            statistics(STATE_DIR)
        else:
            assert [one.status for one in runs(DoctorContext(Path(), STATE_DIR, "1"))][:1] == ["ok"]
    return [Path(path).parent.name for event, path in calls if event == "open" and path.endswith(JOURNAL)]


@pytest.mark.parametrize("what", ["stats", "doctor"])
def test_each_ended_run_is_read_once(what: str) -> None:
    """Those that have not ended are read each time, and so is one that goes on."""
    team = coterie.flow("t", [coterie.agent("a", command=["echo", "1"])])
    ends = [asyncio.run(coterie.run(team, "x")).run for _ in range(3)]
    stopped = asyncio.run(coterie.run(team, "x", limits=coterie.Limits(max_turns=0))).run

    assert set(opened(what)) == {*ends, stopped}
    before = statistics(STATE_DIR) if what == "stats" else None
    assert set(opened(what)) == {stopped}
    if what == "stats":
        ended.path().unlink()
        assert statistics(STATE_DIR) == before
        assert before is not None
        assert (before.total.runs, before.total.turns) == (4, 3)


def test_prune_forgets_what_was_kept() -> None:
    """The file of the statuses does not grow for ever."""
    team = coterie.flow("t", [coterie.agent("a", command=["echo", "1"])])
    for _ in range(3):
        asyncio.run(coterie.run(team, "x"))
    opened("stats")
    opened("doctor")
    assert ended.path().read_text().count("completed") >= 3
    assert len(list(removal.prune(STATE_DIR, float("inf")))) == 3
    assert ended.path().read_text() == ""


def test_the_memory_of_a_project_is_found_by_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Of runs that are no loops not one journal is read for it."""
    team = coterie.flow("t", [coterie.agent("a", command=["echo", "1"])])
    for _ in range(3):
        asyncio.run(coterie.run(team, "x"))
    with audited() as calls:
        assert main(["memory", "list"]) == 0
    assert [path for event, path in calls if event == "open" and path.endswith(JOURNAL)] == []
