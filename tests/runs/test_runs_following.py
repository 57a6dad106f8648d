"""A run is followed by another process while it goes on."""

import asyncio
from pathlib import Path

import pytest

from coterie.errors import JournalUnreadable
from coterie.journal.jsonl import JsonlStore
from coterie.journal.records import RunFinished, RunStarted, TurnStarted
from coterie.runs.repository import Runs

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
