"""The stream of a run over everything that a journal of several runs can hold: called off, reopened, read in steps."""

import asyncio
import threading
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from nests import nested
from stage import Cast, flow
from until import soon

from coterie.agents.backends.base import Answer, AttemptRef, Failure, Text
from coterie.execution.runs import control, launch
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.run_stream import RunStream
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import (
    RunFinished,
    RunReopened,
    RunStarted,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from coterie.history.views.live import read_position

BROKEN, DONE = Failure(kind="exit", reason="exit status 1"), Answer(text="done")
PLAN = flow("go -> team -> last", team=nested(2, flow("first -> leaf -> end")))
"""A team in a team, whose middle turn fails."""
Seen = list[tuple[str, Any]]


@pytest.fixture
def reopened(tmp_path: Path) -> Runs:
    """A run that failed, was reopened, failed again, was reopened, and completed."""
    casts = [Cast({"leaf": [BROKEN]}, seconds=0.0), Cast({"leaf": [BROKEN]}, seconds=0.0), Cast({}, seconds=0.0)]
    runs = Runs(tmp_path / ".coterie")
    start = launch.start(PLAN, {"prompt": "go"}, state_dir=runs.root, run_id="r", cwd=tmp_path, turns=casts[0])
    assert asyncio.run(start).status == "failed"
    for cast in casts[1:]:
        ended = asyncio.run(control.resume(runs, "r", retry="", turns=cast))
    assert ended.status == "completed"
    return runs


def read(stream: RunStream) -> Seen:
    return [(one.run, one.what) for one in stream.read()]


def whole(runs: Runs) -> Seen:
    return sorted(runs.history("r"), key=_order)


def _order(one: tuple[str, Any]) -> tuple[str, int]:
    return one[0], one[1].seq


def test_a_reopened_run_is_read_once_from_any_position(reopened: Runs) -> None:
    """The child runs that had ended, and were in no position, go on where they had ended."""
    stream, seen = RunStream(reopened, "r"), Seen()
    positions = []
    for one in stream.read():
        seen.append((one.run, one.what))
        positions.append(stream.position)
    assert sum(isinstance(record, RunReopened) for _, record in seen) == 6
    assert sorted(seen, key=_order) == whole(reopened)
    for n, position in enumerate(positions, 1):
        rest = read(RunStream(reopened, "r", after=read_position(position, "r")))
        assert sorted(seen[:n] + rest, key=_order) == whole(reopened), position
    assert positions[-1] == str(len(list(reopened.read("r"))))


@pytest.mark.parametrize("kept_for", [1, 2, 7, 1000])
def test_a_reader_of_a_growing_run_sees_every_record_once(reopened: Runs, kept_for: int) -> None:
    """It reads after each append, or another one goes on: children begin, end and are reopened in between."""
    store, writers, seen, position = MemoryStore(), dict[str, Any](), Seen(), ""
    growing = Runs(reopened.root.parent / "growing", store=store)
    for n, (run, record) in enumerate(read(RunStream(reopened, "r"))):
        if run not in writers:
            writers[run] = store.claim(run)
        writers[run].append([record])
        if n % kept_for == 0:
            stream = RunStream(growing, "r", after=read_position(position, "r"))
        seen += read(stream)
        position = stream.position
    assert sorted(seen, key=_order) == whole(reopened)


@pytest.mark.parametrize("top", ["r/team#1.1", "r/team#1.1/team#1.1"])
def test_a_reopened_child_run_is_read_by_itself(reopened: Runs, top: str) -> None:
    """Its reopenings follow from those of a run above, which this reader does not read."""
    below = [one for one in whole(reopened) if f"{one[0]}/".startswith(f"{top}/")]
    assert sum(isinstance(record, RunReopened) for _, record in below) in (2, 4)
    assert sorted(read(RunStream(reopened, top)), key=_order) == below


def test_a_child_run_that_is_called_off_is_read_to_its_end(tmp_path: Path) -> None:
    """Its last records come after the turn above was cancelled; a reader that goes on between them has them, too."""
    runs = Runs(tmp_path, store=(store := MemoryStore()))
    above, child = store.claim("r"), store.claim("r/team#1.1")
    above.append([RunStarted(seq=1, run="r", engine="flow"), TurnStarted(seq=2, turn="team#1", agent="team")])
    child.append([RunStarted(seq=1, run="r/team#1.1", engine="flow", parent="r")])
    stream = RunStream(runs, "r")
    assert len(read(stream)) == 3
    above.append([TurnCancelled(seq=3, turn="team#1")])
    assert len(read(stream)) == 1
    assert stream.position == "3;team#1.1=1"

    child.append([RunFinished(seq=2, outcome="failed")])
    for one in (stream, RunStream(runs, "r", after=read_position(stream.position, "r"))):
        assert [run for run, _ in read(one)] == ["r/team#1.1"]
        assert (read(one), one.position) == ([], "3")


def test_a_reader_of_a_large_run_keeps_no_record(tmp_path: Path) -> None:
    """What a run has recorded passes through, block by block; a caller that stops reading goes on where it was."""
    store = JsonlStore(tmp_path)
    owner = store.claim("r")
    owner.append([RunStarted(seq=1, run="r", engine="flow")])
    for n in range(1200):
        owner.append([TurnFinished(seq=n + 2, turn=f"a#{n}", attempt=1, text=f"{n} " + "abcde" * 1000)])
    owner.flush()
    owner.give_up()
    owner.lock.release()
    size, stream = store.file("r").stat().st_size, RunStream(Runs(tmp_path), "r")
    tracemalloc.start()
    try:
        first = [record.seq for _, record in islice(stream.records(), 100)]
        rest = [record.seq for _, record in stream.records()]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert first + rest == list(range(1, 1202))
    assert peak < size / 2, (peak, size)


def test_a_store_that_does_not_answer_holds_no_follower_up(reopened: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another machine stores is read beside the event loop, so whoever follows can stop at any time."""
    asked, answered = threading.Event(), threading.Event()

    def away(run: str) -> bool:
        asked.set()
        return answered.wait(60)

    monkeypatch.setattr(Runs, "is_here", False)
    monkeypatch.setattr(reopened, "is_owned", away)

    async def main() -> None:
        following = asyncio.create_task(anext(RunStream(reopened, "r").follow()))
        await soon(asked.is_set)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        assert not answered.is_set()

    asyncio.run(main())
    answered.set()


def test_what_an_agent_has_said_is_read_once_from_any_position(tmp_path: Path) -> None:
    """Another reader goes on within the output of an attempt."""
    runs, kept = Runs(tmp_path), AttemptFolders(Runs(tmp_path))
    store, folder = JsonlStore(tmp_path), kept.attempt_folder(AttemptRef(run="r", turn="a#1", attempt=1))
    writer = store.claim("r")
    writer.append([RunStarted(seq=1, run="r", engine="flow"), TurnStarted(seq=2, turn="a#1", agent="a")])
    writer.sync()
    seen, position = list[str](), ""
    for text in ("one", "two", "three"):
        kept.stream(folder, Text(text=text))
        stream = RunStream(runs, "r", after=read_position(position, "r"))
        seen += [one.what.text for one in stream.read() if isinstance(one.what, Text)]
        position = stream.position
    writer.give_up()
    assert seen == ["one", "two", "three"]
