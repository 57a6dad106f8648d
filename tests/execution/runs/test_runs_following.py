"""A run is followed by another process while it goes on."""

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import pytest

from coterie.errors import JournalUnreadable, NoSuchRun
from coterie.execution.runs.attempt_output import AttemptOver, StreamReader
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.run_stream import RunStream
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import (
    AttemptFailed,
    Record,
    RunFinished,
    RunStarted,
    TurnFinished,
    TurnStarted,
)
from coterie.history.journal.runs import RunReader

BEGUN = RunStarted(seq=1, run="r", engine="flow")
ASKED = TurnStarted(seq=2, turn="inner#1", agent="inner")


def test_what_comes_is_told_and_so_are_child_runs_that_begin_meanwhile(tmp_path: Path) -> None:
    """In order within each run; the end comes once nobody owns the run, however it stands with it."""

    async def main() -> list[str]:
        store = JsonlStore(tmp_path, poll=0)
        owner = store.claim("r")
        owner.append([BEGUN, ASKED])
        await owner.durable(2)
        news = Runs(tmp_path, poll=0).follow("r", check_every=0)
        told = [await anext(news) for _ in range(2)]

        child = store.claim("r/inner#1.1")
        child.append([RunStarted(seq=1, run="r/inner#1.1", engine="flow", parent="r")])
        await child.durable(1)
        told.append(await anext(news))
        owner.append([RunFinished(seq=3, outcome="completed")])
        await owner.durable(3)
        told.append(await anext(news))
        await child.close()
        await owner.close()
        told += [one async for one in news]
        return [f"{run} {record.seq}" for run, record in told]

    assert asyncio.run(main()) == ["r 1", "r 2", "r/inner#1.1 1", "r 3"]


def test_a_run_whose_owner_died_is_told_as_far_as_it_came(tmp_path: Path) -> None:
    """Nobody waits for an owner that may never come."""

    async def main() -> int:
        store = JsonlStore(tmp_path, poll=0)
        owner = store.claim("r")
        owner.append([BEGUN, ASKED])
        await owner.close()
        return len([one async for one in Runs(tmp_path, poll=0).follow("r", check_every=0)])

    assert asyncio.run(main()) == 2


def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """With the place, instead of an end that looks like the run's."""

    async def main() -> None:
        store = JsonlStore(tmp_path, poll=0)
        owner = store.claim("r")
        owner.append([BEGUN, ASKED])
        await owner.close()
        journal = store.folder("r") / "journal.jsonl"
        journal.write_bytes(b"nothing\n" + journal.read_bytes())
        async for _ in Runs(tmp_path, poll=0).follow("r", check_every=0):
            pass

    with pytest.raises(JournalUnreadable):
        asyncio.run(main())


def test_a_follower_goes_on_without_a_removed_child_run_and_ends_with_a_removed_run(tmp_path: Path) -> None:
    """Each of them: the error names the run, not a file of it."""
    left, last = "r/inner#1.1", AttemptFailed(seq=3, turn="inner#1", attempt=1, kind="exit", reason="broke")

    async def main() -> None:
        store, runs = JsonlStore(tmp_path, poll=0), Runs(tmp_path, poll=0)
        owner = store.claim("r")
        owner.append([BEGUN, ASKED])
        await owner.durable(2)
        child = store.claim(left)
        child.append([RunStarted(seq=1, run=left, engine="flow", parent="r")])
        await child.durable(1)
        followed = runs.follow("r", check_every=0)
        news, printed = RunStream(runs, "r", text=False), StreamReader(runs, "r")
        whole = {("r", 1), ("r", 2), (left, 1)}
        assert {(run, record.seq) for run, record in [await anext(followed) for _ in range(3)]} == whole
        assert {(run, record.seq) for run, record in news.records()} == whole
        assert list(printed.read()) == []

        shutil.rmtree(store.folder(left))
        owner.append([last])
        await owner.durable(3)
        assert [(run, record.seq) for run, record in [await anext(followed)]] == [("r", 3)]
        assert [(run, record.seq) for run, record in news.records()] == [("r", 3)]
        assert [one.event for one in printed.read()] == [AttemptOver()]

        store.file("r").unlink()
        for read in (lambda: list(news.records()), lambda: list(printed.read())):
            with pytest.raises(NoSuchRun, match="'r'"):
                read()
        with pytest.raises(NoSuchRun, match="'r'"):
            await anext(followed)
        await child.close()
        await owner.close()

    asyncio.run(main())


class Counted(JsonlStore):
    """A store that counts how often it is asked for each run."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, poll=0)
        self.asked = Counter[str]()

    def has(self, run: str) -> bool:
        self.asked[run] += 1
        return super().has(run)


def test_a_turn_is_asked_for_a_child_run_only_until_it_ends(tmp_path: Path) -> None:
    """However many turns ended before, a record costs its followers the same."""

    async def main() -> None:
        store = Counted(tmp_path)
        owner = store.claim("r")
        owner.append([BEGUN])
        await owner.durable(1)
        news = RunReader(store).follow("r", check_every=0)
        await anext(news)
        after = dict[str, int]()
        for n in range(20):
            started = TurnStarted(seq=2 * n + 2, turn=f"a#{n}", agent="a")
            ended: Record = TurnFinished(seq=2 * n + 3, turn=f"a#{n}", attempt=1)
            if n % 3 == 0:
                ended = AttemptFailed(seq=2 * n + 3, turn=f"a#{n}", attempt=1, kind="exit", reason="no")
            for record in (started, ended):
                owner.append([record])
                await owner.durable(record.seq)
                assert await anext(news) == ("r", record)
            after = {run: after.get(run, asked) for run, asked in store.asked.items() if run != f"r/a#{n}.1"}
        await owner.close()
        assert [one async for one in news] == []
        assert len(after) == 19
        assert after == {run: store.asked[run] for run in after}

    asyncio.run(main())


def test_a_child_run_is_told_that_was_over_before_it_was_looked_for(tmp_path: Path) -> None:
    """Also one of an attempt that failed, whose turn is tried again as another child run."""

    async def main() -> list[str]:
        store = JsonlStore(tmp_path, poll=0)
        owner = store.claim("r")
        failed = AttemptFailed(seq=3, turn="inner#1", attempt=1, kind="failed", reason="no")
        again = TurnStarted(seq=4, turn="inner#1", attempt=2, agent="inner")
        owner.append([BEGUN, ASKED, failed, again, TurnFinished(seq=5, turn="inner#1", attempt=2)])
        for attempt in (1, 2):
            child = store.claim(f"r/inner#1.{attempt}")
            child.append([RunStarted(seq=1, run=f"r/inner#1.{attempt}", engine="flow", parent="r")])
            await child.close()
        await owner.close()
        return [f"{run} {record.seq}" async for run, record in Runs(tmp_path, poll=0).follow("r")]

    told = asyncio.run(main())
    assert told[:5] == [f"r {n}" for n in range(1, 6)]
    assert sorted(told[5:]) == ["r/inner#1.1 1", "r/inner#1.2 1"]
