"""Read the runs of a store: their journals, their plans, and the tree of child runs below each.

Every reader of runs addresses them by id and uses this module; nothing here knows where a journal is kept.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from coterie.errors import JournalUnreadable, NoSuchRun
from coterie.ids import child_run_id
from coterie.journal.base import Archive
from coterie.journal.records import ConfigChanged, PlanReloaded, Record, RunReopened, RunStarted, TurnStarted
from coterie.journal.relocation import Relocation
from coterie.planning.plan import Plan, from_json, from_record
from coterie.values import dataclass

CHECK_EVERY = 0.1
"""Seconds between two checks of `RunReader.follow` for new child runs, and for an owner of the run."""
QUIET_CHECKS = 2
"""After so many checks in a row without an owner and without a new record, all records were read."""

RunRecord = tuple[str, Record]
"""A record, with the id of its run."""
Read = Callable[[str], Iterable[Record]]
"""Gives the records of a run, as `coterie.journal.base.Reader.read` does."""


def history(read: Read, run: str) -> Iterator[RunRecord]:
    """Every record of *run*, then those of its child runs, depth first.

    Raises:
        NoSuchRun, JournalUnreadable: If *run* cannot be read.
    """
    children = []
    for record in read(run):
        yield run, record
        if isinstance(record, TurnStarted):
            children.append(child_run_id(run, record.turn, record.attempt))
    for child in children:
        with suppress(NoSuchRun):  # the attempt was no child run
            yield from history(read, child)


class RunReader:
    """Reads the runs in *store*, each addressed by its id; a child run's is `<run>/<turn>.<attempt>`.

    Reading gives what is there at once; `load`, `load_tree` and `follow` are awaited and leave the event loop free.
    """

    def __init__(self, store: Archive) -> None:
        self.store = store

    def list(self) -> list[str]:
        """The ids of the root runs, oldest first."""
        return self.store.list()

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""
        return self.store.has(run)

    def has_begun(self, run: str) -> bool:
        """Whether *run* has a journal with a record that can be read."""
        with suppress(NoSuchRun, JournalUnreadable):
            return next(self.read(run), None) is not None
        return False

    def is_owned(self, run: str) -> bool:
        """Whether a living process owns *run*, this one included."""
        return self.store.owned(run)

    def status(self, run: str) -> str:
        """The state of the root run *run*; see `coterie.journal.status.RunStatus`."""
        return self.store.status(run).state

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on.

        Raises:
            NoSuchRun, JournalUnreadable: If they cannot be read.
        """
        return self.store.read(run, from_seq)

    def journal(self, run: str, *, is_claimed_next: bool = False) -> "Journal":
        """The whole journal of *run*.

        Args:
            is_claimed_next: Keep the records, if the run has not finished, for its claim in this store: the next owner
                does not decode them again.

        Raises:
            NoSuchRun, JournalUnreadable: If it cannot be read.
        """
        return Journal(self, run, self.store.load_for_claim(run) if is_claimed_next else tuple(self.read(run)))

    async def load(self, run: str) -> "Journal":
        """The whole journal of *run*; see `journal`."""
        return Journal(self, run, await self.store.load(run))

    def tree(self, run: str, *, is_claimed_next: bool = False) -> "Iterator[Journal]":
        """The journal of *run*, then those of its child runs, depth first, each read once.

        Args:
            is_claimed_next: As in `journal`, for each of them.

        Raises:
            NoSuchRun, JournalUnreadable: If one cannot be read.
        """
        left: list[_Child] = [(run, "", None)]
        while left:
            name, turn, above = left.pop()
            records = self.journal(name, is_claimed_next=is_claimed_next).records
            yield (found := Journal(self, name, records, turn, above))
            left += self._children(found)

    async def load_tree(self, run: str) -> "AsyncIterator[Journal]":
        """The journal of *run*, then those of its child runs; see `tree`."""
        left: list[_Child] = [(run, "", None)]
        while left:
            name, turn, above = left.pop()
            yield (found := Journal(self, name, await self.store.load(name), turn, above))
            left += self._children(found)

    def history(self, run: str) -> Iterator[RunRecord]:
        """Every record of *run*, then those of its child runs; see `coterie.journal.runs.history`."""
        return history(self.read, run)

    def _children(self, journal: "Journal") -> "Iterator[_Child]":
        """The child runs that attempts in *journal* were, last one first."""
        for record in reversed(journal.records):
            if isinstance(record, TurnStarted):
                child = child_run_id(journal.run, record.turn, record.attempt)
                if self.has(child):
                    yield child, record.turn, journal

    async def follow(self, run: str, check_every: float = CHECK_EVERY) -> AsyncGenerator[RunRecord, None]:
        """Every record of *run* and its child runs, and then each that comes; ends when the run has no owner.

        Each run's records come in order, and a child's begin after the record that its turn started with.

        Raises:
            NoSuchRun, JournalUnreadable: If one cannot be read.
        """
        news: asyncio.Queue[RunRecord] = asyncio.Queue()
        readers = {run: asyncio.create_task(self._put(run, news))}
        children: list[str] = []
        reopening: set[str] = set()
        came: list[RunRecord] = []
        quiet = 0
        try:
            while quiet < QUIET_CHECKS:
                owned = self.store.owned(run)
                while not news.empty():
                    came.append(news.get_nowait())
                heard = bool(came)
                for which, record in came:
                    if isinstance(record, TurnStarted):
                        children.append(child_run_id(which, record.turn, record.attempt))
                    if isinstance(record, RunReopened):
                        reopening.discard(which)
                        reopening |= {f"{which}/{child}" for child, since in record.below.items() if since}
                    yield which, record
                for child in [one for one in children if self.has(one)]:
                    heard = True
                    children.remove(child)
                    readers[child] = asyncio.create_task(self._put(child, news))
                for name, reader in readers.items():
                    if reader.done():
                        reader.result()  # raises what made a journal unreadable
                        if owned and (name == run or name in reopening):  # it may be reopened yet
                            readers[name] = asyncio.create_task(self._put(name, news, reader.result() + 1))
                quiet = 0 if owned or heard else quiet + 1
                came = []
                with suppress(TimeoutError):
                    async with asyncio.timeout(check_every):
                        came.append(await news.get())
        finally:
            for reader in readers.values():
                reader.cancel()
            await asyncio.gather(*readers.values(), return_exceptions=True)

    async def _put(self, run: str, news: "asyncio.Queue[RunRecord]", from_seq: int = 1) -> int:
        """Put the records of *run* into *news*; the seq of the last one."""
        async for record in self.store.follow(run, from_seq):
            news.put_nowait((run, record))
            from_seq = record.seq + 1
        return from_seq - 1

    def first(self, run: str) -> RunStarted:
        """The record that *run* began with.

        Raises:
            NoSuchRun, JournalUnreadable: If there is none to read.
        """
        first = next(self.read(run), None)
        return Journal(self, run, () if first is None else (first,)).started

    def relocation(self, records: Sequence[Record]) -> Relocation:
        """Where the project of the root run with *records* is; here as they say."""
        return Relocation()

    def plan(self, run: str, upto: int | None = None) -> Plan:
        """The plan that *run* obeys; see `Journal.plan`."""
        return self.journal(run).plan(upto)


@dataclass(frozen=True)
class Journal:
    """The journal of one run, read whole.

    Attributes:
        turn: The turn of its parent that the run is; empty where the run was not found through its parent.
    """

    runs: RunReader
    run: str
    records: Sequence[Record]
    turn: str = ""
    above: "Journal | None" = None

    @cached_property
    def started(self) -> RunStarted:
        """The first record.

        Raises:
            JournalUnreadable: If the run never began.
        """
        first = self.records[0] if self.records else None
        if not isinstance(first, RunStarted):
            reason = "it does not begin with run.started, so the run never began; start it anew"
            raise JournalUnreadable(*self.runs.store.place(self.run), reason)
        return first

    @cached_property
    def parent(self) -> "Journal":
        """The journal of the run that asked; only a child run has one."""
        return self.above or self.runs.journal(self.run.rpartition("/")[0])

    @cached_property
    def relocation(self) -> Relocation:
        """Where the project of its root is now."""
        return self.parent.relocation if "/" in self.run else self.runs.relocation(self.records)

    def plan(self, upto: int | None = None) -> Plan:
        """The plan that the run was started with, or that was taken instead at a resume; where a fold begins.

        A child run without a plan has a part of its parent's.

        Args:
            upto: The record at which it obeys it; by default the last one.

        Raises:
            NoSuchRun, JournalUnreadable: If there is none to read.
        """
        found: RunStarted | PlanReloaded = self.started
        if "/" in self.run and not self.started.plan:
            agent = self.run.rpartition("/")[2].partition("#")[0]
            part = self.parent.plan().agents.get(agent)
            if part is None or part.child is None:
                reason = f"the plan of run {self.parent.run!r} has no team {agent!r}; restore it from a backup"
                raise JournalUnreadable(*self.runs.store.place(self.parent.run), reason)
            return part.child
        for record in self.records:
            if isinstance(record, PlanReloaded) and (upto is None or record.seq <= upto):
                found = record
        try:
            return self.relocation.plan(from_record(found.plan, found.plan_hash))
        except ValueError as error:
            seq = found.seq
            reason = f"the plan in record {seq} is damaged, or of another coterie ({error}); restore it from a backup"
            raise JournalUnreadable(*self.runs.store.place(self.run, seq), reason) from error

    def plan_now(self) -> Plan:
        """The plan that the run obeys at its end, with what a loop has read again since it began."""
        changes = [one.plan for one in self.records if isinstance(one, ConfigChanged | PlanReloaded)]
        return self.relocation.plan(from_json(changes[-1])) if changes else self.plan()


_Child = tuple[str, str, Journal | None]
"""A run, the turn of its parent that it is, and the parent's journal."""


class EarlierRecords:
    """Gives observers the records before the first one that they see, without reading them again.

    It keeps them until `forget`; the records of other runs are read.
    """

    def __init__(self, journal: Journal) -> None:
        self._runs, self.run, self._records = journal.runs, journal.run, journal.records

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """As `Runs.read`."""
        if run == self.run and self._records:
            return iter(self._records[max(from_seq, 1) - 1 :])
        return self._runs.read(run, from_seq)

    def continues_with(self, record: Record) -> bool:
        """Whether *record* of the run is the next after those that were read."""
        return record.seq == len(self._records) + 1

    def forget(self) -> None:
        """Read the run, too, from now on."""
        self._records = ()


def in_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """*records* by run, and those of each run in order: every writer has the same order, so none waits in a circle."""
    return sorted(records, key=lambda one: (one[0], one[1].seq))
