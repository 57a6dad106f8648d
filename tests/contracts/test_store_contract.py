"""What every store of journals keeps to: one suite over all of them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from exported import ExportedStore
from sqlite_store import SqliteStore

from coterie.errors import JournalFailed, NoSuchRun, RunIsOwned
from coterie.history.journal.base import Archive, Store
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import Record, RunFinished, RunOwned, RunStarted, RunStopped, TurnFinished


class Kept(Archive, Store, Protocol):
    """A store that is written and read."""


@pytest.fixture(params=["memory", "jsonl", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "sqlite":
        ours = SqliteStore(tmp_path)
        yield ours
        ours.close()
        return
    if request.param != "postgres":
        yield MemoryStore() if request.param == "memory" else JsonlStore(tmp_path, poll=0.001)
        return
    kept = ExportedStore(request.getfixturevalue("new_export")())
    yield kept
    kept.close()


def started(run: str = "r1", at: float = 1.0) -> RunStarted:
    return RunStarted(seq=1, at=at, run=run, engine="flow")


def finished(seq: int, text: str = "", **outputs: Any) -> TurnFinished:
    return TurnFinished(seq=seq, at=float(seq), turn="a#1", attempt=1, text=text, outputs=outputs)


def owned(seq: int, epoch: int = 1) -> RunOwned:
    return RunOwned(seq=seq, at=float(seq), epoch=epoch)


async def write(store: Kept, run: str, *records: Record) -> None:
    writer = store.claim(run)
    await writer.durable(writer.append(records))
    await writer.close()


def test_what_was_appended_is_read_in_order(store: Kept) -> None:
    """Records come back as they went in, from the seq asked for, after the owner has gone and for the next owner."""
    records = [started(), owned(2), finished(3, "x" * 3000, deep=["é" * 2000, {"k": None}]), finished(4, "@text:1")]

    async def main() -> None:
        await write(store, "r1", *records)
        writer = store.claim("r1")
        assert writer.last == 4
        assert writer.is_durable(4)
        assert writer.repaired is None
        await writer.durable(writer.append([finished(5, "x" * 3000)]))
        await writer.close()

    asyncio.run(main())
    assert list(store.read("r1")) == [*records, finished(5, "x" * 3000)]
    assert list(store.read("r1", from_seq=4)) == [records[3], finished(5, "x" * 3000)]
    assert list(store.read("r1", from_seq=6)) == []


def test_order_is_given_at_once_and_durability_on_demand(store: Kept) -> None:
    """`append` returns the last seq without suspending; what a waiter waited for is then durable and can be read."""

    async def main() -> None:
        writer = store.claim("r1")
        assert writer.last == 0
        assert writer.append([started(), owned(2)]) == 2
        assert writer.append([]) == 2
        assert writer.append([owned(3)]) == 3
        await writer.durable(2)
        assert writer.is_durable(2)
        assert [record.seq for record in store.read("r1")][:2] == [1, 2]
        await writer.close()

    asyncio.run(main())
    assert [record.seq for record in store.read("r1")] == [1, 2, 3], "a close makes durable what was appended"


def test_a_commit_is_begun_and_waited_for(store: Kept) -> None:
    """What was begun is durable after `sync`, with what was appended in between; beginning twice is no more."""

    async def main() -> None:
        writer = store.claim("r1")
        assert writer.begin(), "nothing to do"
        writer.append([started(), owned(2)])
        assert writer.begin()
        assert writer.begin()
        writer.append([owned(3)])
        assert writer.sync()
        assert writer.is_durable(3)
        writer.append([owned(4)])
        writer.begin()  # a disk may have turned out to be slow
        await writer.durable(4)
        writer.append([owned(5)])
        writer.begin()
        await writer.close()

    asyncio.run(main())
    assert [record.seq for record in store.read("r1")] == [1, 2, 3, 4, 5]


def test_many_tasks_share_one_journal(store: Kept) -> None:
    """Fifty tasks that append and wait get one order, and each finds its own record durable."""

    async def one(writer: Any, n: int) -> None:
        for _ in range(n % 4):
            seq = writer.append([finished(writer.last + 1, f"from {n}")])
            await writer.durable(seq)
            assert writer.is_durable(seq)

    async def main() -> None:
        writer = store.claim("r1")
        await asyncio.gather(*(one(writer, n) for n in range(50)))
        await writer.close()

    asyncio.run(main())
    found = [record for record in store.read("r1") if isinstance(record, TurnFinished)]
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert sorted(record.text for record in found) == sorted(f"from {n}" for n in range(50) for _ in range(n % 4))


def test_a_cancelled_waiter_harms_nobody(store: Kept) -> None:
    """A task that is cancelled while it waits loses its wait, not its record, and others are told as ever."""

    async def main() -> None:
        writer = store.claim("r1")
        waits = [asyncio.create_task(writer.durable(writer.append([owned(n)]))) for n in (1, 2, 3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.gather(*waits[1:])
        await writer.durable(writer.append([owned(4)]))
        await writer.close()

    asyncio.run(main())
    assert [record.seq for record in store.read("r1")] == [1, 2, 3, 4]


@pytest.mark.parametrize("seqs", [[2], [0], [1, 3], [1, 1]])
def test_a_gap_in_the_seqs_is_refused_whole(store: Kept, seqs: list[int]) -> None:
    """The seqs continue the journal's; otherwise nothing of the append is kept."""

    async def main() -> None:
        writer = store.claim("r1")
        with pytest.raises(ValueError, match="comes next"):
            writer.append([owned(seq) for seq in seqs])
        assert writer.last == 0
        await writer.durable(writer.append([owned(1)]))
        with pytest.raises(ValueError, match="never appended"):
            await writer.durable(2)
        await writer.close()

    asyncio.run(main())
    assert list(store.read("r1")) == [owned(1)]


def test_a_run_has_one_owner(store: Kept) -> None:
    """A second claim is refused, by name, until the first owner lets go; other runs are free."""

    async def main() -> None:
        writer = store.claim("r1")
        with pytest.raises(RunIsOwned, match="r1"):
            store.claim("r1")
        other = store.claim("r2")
        await other.close()
        await writer.close()
        await writer.close()
        await store.claim("r1").close()

    asyncio.run(main())


def test_a_former_owner_cannot_write(store: Kept) -> None:
    """After its close an owner is fenced: what it appends reaches nobody, and it does not free the new owner's run."""

    async def main() -> None:
        former = store.claim("r1")
        await former.close()
        current = store.claim("r1")
        with pytest.raises(JournalFailed):
            former.append([owned(1)])
        await former.close()
        with pytest.raises(RunIsOwned):
            store.claim("r1")
        await current.durable(current.append([owned(1, epoch=2)]))
        await current.close()

    asyncio.run(main())
    assert list(store.read("r1")) == [owned(1, epoch=2)]


def test_a_run_nobody_knows(store: Kept) -> None:
    """Reading and following an unknown run is an error at once, with a likely name."""
    asyncio.run(write(store, "r1", started()))

    with pytest.raises(NoSuchRun, match="did you mean 'r1'"):
        store.read("r11")

    async def follow() -> None:
        async for _ in store.follow("nowhere"):
            pass

    with pytest.raises(NoSuchRun, match="nowhere"):
        asyncio.run(follow())


@pytest.mark.parametrize("run", ["../r1", "..", "a/../../b#1.1", "ü / %2F?", "a#1.1"])
def test_any_name_is_only_a_name(store: Kept, run: str, tmp_path: Path) -> None:
    """Ids lead to no other place and to no other run."""

    async def main() -> None:
        root = run.partition("/")[0]
        above = store.claim(root)
        if root != run:
            await write(store, run, started(run))
        await above.durable(above.append([started(root)]))
        await above.close()
        assert store.list() == [root]
        assert [record.run for record in store.read(run) if isinstance(record, RunStarted)] == [run]

    asyncio.run(main())
    assert not [path for path in tmp_path.parent.iterdir() if path.name in ("r1", "journal.jsonl", "runs")]


def test_runs_are_listed_oldest_first(store: Kept) -> None:
    """The order is that of their beginnings; children are not listed, nor a run without a record."""

    async def main() -> None:
        for run, at in [("b", 3.0), ("c", 1.0), ("a", 2.0), ("d", 2.0)]:
            await write(store, run, started(run, at))
        parent = store.claim("b")
        await write(store, "b/x#1.1", started("b/x#1.1", 0.5))
        await parent.close()
        await store.claim("empty").close()

    assert store.list() == []
    asyncio.run(main())
    assert store.list() == ["c", "a", "d", "b"]


def test_a_child_is_covered_by_its_root(store: Kept) -> None:
    """It cannot be claimed without its root, nor twice; when its root lets go, it ends too, and keeps its records."""

    async def main() -> None:
        with pytest.raises(ValueError, match="claim 'r1' first"):
            store.claim("r1/team#1.1")
        root = store.claim("r1")
        child = store.claim("r1/team#1.1")
        grandchild = store.claim("r1/team#1.1/inner#2.3")
        with pytest.raises(RunIsOwned):
            store.claim("r1/team#1.1")
        grandchild.append([started("r1/team#1.1/inner#2.3")])
        child.append([started("r1/team#1.1")])
        await root.close()
        with pytest.raises(JournalFailed):
            child.append([owned(2)])
        await child.close()
        await store.claim("r1").close()

    asyncio.run(main())
    for run in ("r1/team#1.1", "r1/team#1.1/inner#2.3"):
        assert list(store.read(run)) == [started(run)]


def test_what_lies_below_a_run_goes_with_it_whatever_was_claimed_between(store: Kept) -> None:
    """A child takes its own, and the root those too whose parents have let go, or were never claimed."""

    async def main() -> None:
        root = store.claim("r1")
        deep = store.claim("r1/team#1.1/inner#1.1")
        child, other = store.claim("r1/team#2.1"), store.claim("r1/team#3.1")
        below = store.claim("r1/team#2.1/inner#1.1")
        await child.close()
        with pytest.raises(JournalFailed):
            below.append([started("r1/team#2.1/inner#1.1")])
        deep.append([started("r1/team#1.1/inner#1.1")])
        other.append([started("r1/team#3.1")])
        await root.close()
        for writer in (deep, other):
            with pytest.raises(JournalFailed):
                writer.append([owned(2)])

    asyncio.run(main())


def test_a_closed_child_leaves_its_root_alone(store: Kept) -> None:
    """A child ends before its root; the root writes on, and another child begins."""

    async def main() -> None:
        root = store.claim("r1")
        await write(store, "r1/team#1.1", started("r1/team#1.1"))
        await root.durable(root.append([started()]))
        await write(store, "r1/team#2.1", started("r1/team#2.1"))
        with pytest.raises(RunIsOwned):
            store.claim("r1")
        await root.close()

    asyncio.run(main())


def test_a_follower_sees_everything_and_ends_with_the_run(store: Kept) -> None:
    """It begins where it was told, hears of what comes, and ends after `run.finished`."""
    seen: list[int] = []

    async def follow(from_seq: int) -> list[int]:
        return [record.seq async for record in store.follow("r1", from_seq)]

    async def main() -> None:
        writer = store.claim("r1")
        await writer.durable(writer.append([started(), owned(2)]))
        early = asyncio.create_task(follow(1))
        late = asyncio.create_task(follow(2))
        async for record in store.follow("r1"):
            seen.append(record.seq)
            if record.seq < 5:
                if record.seq >= 2:
                    writer.append([finished(record.seq + 1, "y" * 2000)])
            elif record.seq == 5:
                writer.append([RunFinished(seq=6, outcome="completed")])
            if record.seq >= 2:
                await writer.durable(writer.last)
        assert await early == [1, 2, 3, 4, 5, 6]
        assert await late == [2, 3, 4, 5, 6]
        await writer.close()
        assert await follow(1) == [1, 2, 3, 4, 5, 6]

    asyncio.run(asyncio.wait_for(main(), 60))
    assert seen == [1, 2, 3, 4, 5, 6]


def test_a_follower_of_a_stopped_run_stays_while_somebody_owns_it(store: Kept) -> None:
    """`run.stopped` ends it only when nobody owns the run: the next owner may be at work already."""
    seen: list[str] = []

    async def main() -> None:
        writer = store.claim("r1")
        await writer.durable(writer.append([started(), RunStopped(seq=2, reason="max_turns")]))

        async def follow() -> None:
            async for record in store.follow("r1"):
                seen.append(type(record).__name__)
                if len(seen) == 2:
                    await writer.durable(writer.append([owned(3), RunStopped(seq=4, reason="waiting")]))
                if len(seen) == 4:
                    await writer.close()

        await follow()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert seen == ["RunStarted", "RunStopped", "RunOwned", "RunStopped"]


def test_a_run_is_listed_read_and_located_by_others_than_its_owner(store: Kept) -> None:
    """Its state follows from its last record and its owner; reading it can be awaited."""

    async def main() -> None:
        assert (store.has("r1"), store.owned("r1"), store.status("r1").state) == (False, False, "cut off")
        with pytest.raises(NoSuchRun):
            await store.load("r1")
        writer = store.claim("r1")
        await writer.durable(writer.append([started(), owned(2)]))

        assert (store.has("r1"), store.owned("r1/team#1.1"), store.status("r1").state) == (True, True, "running")
        await writer.durable(writer.append([RunStopped(seq=3, at=3.0, reason="waiting")]))
        await writer.close()

        assert store.status("r1")[:2] == ("stopped: waiting", "")
        assert await store.load("r1") == tuple(store.read("r1")) == tuple(store.load_now("r1"))
        assert store.place("r1", 3)[1] == 3
        writer = store.claim("r1")
        await writer.durable(writer.append([owned(4, 2)]))
        await writer.close()

        assert store.status("r1").state == "cut off"
        writer = store.claim("r1")
        await writer.durable(writer.append([RunFinished(seq=5, at=5.0, outcome="failed", reason="stuck")]))
        await writer.close()

        assert store.status("r1")[:2] == ("failed", "stuck")

    asyncio.run(main())
