"""The statuses of ended runs are kept: a list of many runs opens no journal of these again."""

import os
from pathlib import Path

import pytest
from audited import audited

from coterie.execution.runs import attention, ended, index
from coterie.execution.runs.ended import EndedRuns
from coterie.execution.runs.index import Entry
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import Record, RunFinished, RunReopened, RunStarted, RunStopped


def write(state_dir: Path, run: str, *said: Record) -> str:
    """Append *said* to the journal of *run*, whose folder is returned."""
    store = JsonlStore(state_dir)
    writer = store.claim(run)
    first = [] if writer.last else [RunStarted(seq=1, run=run, engine="flow")]
    writer.append([*first, *said])
    writer.flush()
    writer.give_up()
    writer.lock.release()
    return str(store.folder(run))


def status(folder: str) -> tuple[str, int]:
    """The status of the run in *folder* for a new reader, and how many files of the run it opened."""
    with EndedRuns() as known, audited() as calls:
        found = known.status(folder).state
    return found, sum(event == "open" and path.startswith(folder) for event, path in calls)


def test_an_ended_run_is_read_once_until_its_journal_changes(tmp_path: Path) -> None:
    """Also by other processes; one that was opened again has not ended."""
    folder = write(tmp_path, "r", RunFinished(seq=2, outcome="failed", reason="no"))
    assert status(folder) == ("failed", 2)
    assert status(folder) == ("failed", 0)
    with EndedRuns() as known:
        assert known.status(folder).reason == "no"

    write(tmp_path, "r", RunReopened(seq=3))
    assert status(folder)[0] == "cut off"
    write(tmp_path, "r", RunFinished(seq=4, outcome="completed"))
    assert [status(folder) for _ in range(2)] == [("completed", 2), ("completed", 0)]


def test_a_run_that_can_go_on_is_read_each_time(tmp_path: Path) -> None:
    """Its owner is known by a lock, which changes no journal."""
    folder = write(tmp_path, "r", RunStopped(seq=2, reason="limit"))
    assert status(folder)[0] == "stopped: limit"
    owner = JsonlStore(tmp_path).claim("r")
    assert status(folder)[0] == "running"
    owner.lock.release()


def test_lost_or_damaged_statuses_cost_a_reading(tmp_path: Path) -> None:
    """A torn line, other data, another size; a folder whose name is no text is not kept."""
    folder = write(tmp_path, "r", RunFinished(seq=2, outcome="completed"))
    status(folder)
    [line] = ended.path().read_bytes().splitlines()
    other = line.replace(b"completed", b"failed").replace(b",", b",1", 1)
    ended.path().write_bytes(b'\xff\n[]\n{"run":\n' + line[:20] + b"\n" + other + b"\n")
    assert status(folder)[0] == "completed"
    odd = write(tmp_path / os.fsdecode(b"caf\xe9"), "r", RunFinished(seq=2, outcome="completed"))
    assert [status(odd) for _ in range(2)] == [("completed", 2)] * 2
    assert status(str(tmp_path / "gone"))[0] == "cut off"


def test_requests_are_looked_for_in_runs_that_have_not_ended(tmp_path: Path) -> None:
    """Of the others not one file is opened, however many there are."""
    state_dir = tmp_path / ".coterie"
    for n in range(5):
        folder = write(state_dir, f"r{n}", RunFinished(seq=2, outcome="completed"))
        index.add(Entry(run=f"r{n}", folder=folder))
    assert list(attention.find(state_dir)) == []
    with audited() as calls:
        assert list(attention.find(state_dir)) == []
    assert [path for event, path in calls if event == "open" and path.endswith(("journal.jsonl", "lock"))] == []


@pytest.mark.parametrize("missing", ["run", "runs"])
def test_pruned_runs_are_forgotten_by_the_index(tmp_path: Path, missing: str) -> None:
    """Those of a folder that is missing as a whole may be on a disk that is not there now."""
    for name in ("a", "b"):
        folder = write(tmp_path / name, "r", RunFinished(seq=2, outcome="completed"))
        index.add(Entry(run="r", folder=folder))
    gone = tmp_path / "a/runs" / ("r" if missing == "run" else "")
    gone.rename(tmp_path / "elsewhere")
    index.forget_removed()
    index.add(Entry(run="new", folder=write(tmp_path / "b", "new", RunFinished(seq=2, outcome="completed"))))

    assert index.health() == ((2, 0, 0) if missing == "run" else (3, 1, 0))
    assert sorted(entry.run for entry in index.entries()) == ["new", "r"]
