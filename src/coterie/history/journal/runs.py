"""Read the runs of a store: their journals, plans, and trees of child runs.

Every reader of runs addresses them by id and uses this module; nothing here knows where a journal is kept.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec import Struct

from coterie.base.ids import child_run_id
from coterie.errors import JournalUnreadable, NoSuchRun
from coterie.history.journal.base import Archive
from coterie.history.journal.lines import rare
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    ConfigChanged,
    PlanReloaded,
    Record,
    RunReopened,
    RunStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.history.journal.relocation import Relocation
from coterie.team.planning.plan import Plan, from_json, from_record

CHECK_EVERY = 0.1
"""Seconds between two checks of `RunReader.follow` for new child runs, and for an owner of the run."""
QUIET_CHECKS = 2
"""After so many checks in a row without an owner and without a new record, all records have been read."""

_ENDS = TurnFinished | TurnFailed | TurnCancelled | AttemptFailed | AttemptInterrupted

RunRecord = tuple[str, Record]
"""A record with the id of its run."""
Read = Callable[[str], Iterable[Record]]
"""Returns the records of a run, as `coterie.history.journal.base.Reader.read` does."""


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
        with suppress(NoSuchRun):  # the attempt was not a child run
            yield from history(read, child)


class RunReader:
    """Reads the runs in *store*, addressed by id; the id of a child run is `<run>/<turn>.<attempt>`.

    Reads are synchronous; `load`, `load_tree` and `follow` are asynchronous and do not block the event loop.
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
        """Whether *run* has a journal with a readable record."""
        with suppress(NoSuchRun, JournalUnreadable):
            return next(self.read(run), None) is not None
        return False

    def is_owned(self, run: str) -> bool:
        """Whether a living process, possibly this one, owns *run*."""
        return self.store.owned(run)

    def status(self, run: str) -> str:
        """The state of the root run *run*; see `coterie.history.journal.status.RunStatus`."""
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
        return Journal(self, run, self.store.load_now(run, is_claimed_next=is_claimed_next))

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
        """Every record of *run*, then those of its child runs; see `coterie.history.journal.runs.history`."""
        return history(self.read, run)

    def _children(self, journal: "Journal") -> "Iterator[_Child]":
        """The child runs of attempts in *journal*, the last one first."""
        starts = [(one.turn, one.attempt) for one in journal.records if isinstance(one, TurnStarted)]
        for turn, attempt in reversed(starts):
            if self.has(child := child_run_id(journal.run, turn, attempt)):
                yield child, turn, journal

    async def follow(self, run: str, check_every: float = CHECK_EVERY) -> AsyncGenerator[RunRecord, None]:
        """Every existing and further record of *run* and its child runs; ends when the run has no owner.

        The records of each run come in order, and those of a child run begin after the record that started its turn.

        Raises:
            NoSuchRun, JournalUnreadable: If one cannot be read.
        """
        news: asyncio.Queue[RunRecord] = asyncio.Queue()
        readers = {run: asyncio.create_task(self._put(run, news))}
        read: dict[str, int] = {}
        """The last record of each run that was read to its end."""
        attempts: dict[tuple[str, str], str] = {}
        """The child runs that running attempts may have, by run and turn; they are looked for now and then."""
        reopening: set[str] = set()
        came: list[RunRecord] = []
        quiet, due = 0, 0.0
        try:
            while quiet < QUIET_CHECKS:
                owned = self.store.owned(run)
                while not news.empty():
                    came.append(news.get_nowait())
                heard, children = bool(came), list[str]()
                for which, record in came:
                    if isinstance(record, TurnStarted):
                        attempts[which, record.turn] = child_run_id(which, record.turn, record.attempt)
                    elif isinstance(record, _ENDS) and (which, record.turn) in attempts:
                        children.append(attempts.pop((which, record.turn)))
                    elif isinstance(record, RunReopened):
                        reopening.discard(which)
                        reopening |= {f"{which}/{child}" for child, since in record.below.items() if since}
                    yield which, record
                if (now := asyncio.get_running_loop().time()) >= due:
                    due = now + check_every
                    children += attempts.values()
                for child in filter(self.has, children):
                    heard = True
                    attempts = {attempt: one for attempt, one in attempts.items() if one != child}
                    readers[child] = asyncio.create_task(self._put(child, news))
                for name, reader in [(name, reader) for name, reader in readers.items() if reader.done()]:
                    del readers[name]
                    if name == run or not isinstance(reader.exception(), NoSuchRun):  # a child run may be removed
                        read[name] = reader.result()  # raises the error of an unreadable journal
                for name in read.keys() & {run, *reopening} if owned else ():  # they may still be reopened
                    readers[name] = asyncio.create_task(self._put(name, news, read.pop(name) + 1))
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
        """Put the records of *run* into *news*; return the seq of the last one."""
        async for record in self.store.follow(run, from_seq):
            news.put_nowait((run, record))
            from_seq = record.seq + 1
        return from_seq - 1

    def first(self, run: str) -> RunStarted:
        """The first record of *run*.

        Raises:
            NoSuchRun, JournalUnreadable: If there is none to read.
        """
        first = next(self.read(run), None)
        return Journal(self, run, () if first is None else (first,)).started

    def relocation(self, records: Sequence[Record]) -> Relocation:
        """The relocation of the root run with *records*; in this class the recorded place."""
        return Relocation()

    def plan(self, run: str, upto: int | None = None) -> Plan:
        """The plan in force in *run*; see `Journal.plan`."""
        return self.journal(run).plan(upto)


class Journal(Struct, frozen=True, dict=True):
    """The journal of one run, read whole.

    Attributes:
        records: Its records; those of a long journal are read again with each look at them.
        turn: The parent's turn that the run performs; empty if the run was not found through its parent.
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
        """The journal of the parent run; only a child run has one."""
        return self.above or self.runs.journal(self.run.rpartition("/")[0])

    @cached_property
    def relocation(self) -> Relocation:
        """The present place of its root's project."""
        return self.parent.relocation if "/" in self.run else self.runs.relocation(self.records)

    def plan(self, upto: int | None = None) -> Plan:
        """The plan that the run was started with, or the one that replaced it at a resume; a fold begins with it.

        A child run without its own plan uses a part of its parent's.

        Args:
            upto: The record at which the plan is in force; by default the last one.

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
        for record in rare(self.records):
            if isinstance(record, PlanReloaded) and (upto is None or record.seq <= upto):
                found = record
        try:
            return self.relocation.plan(from_record(found.plan, found.plan_hash))
        except ValueError as error:
            seq = found.seq
            reason = f"the plan in record {seq} is damaged, or of another coterie ({error}); restore it from a backup"
            raise JournalUnreadable(*self.runs.store.place(self.run, seq), reason) from error

    def plan_now(self) -> Plan:
        """The plan in force at the end of the run, including settings that a loop has read again."""
        changes = [one.plan for one in self.records if isinstance(one, ConfigChanged | PlanReloaded)]
        return self.relocation.plan(from_json(changes[-1])) if changes else self.plan()


_Child = tuple[str, str, Journal | None]
"""A run, the parent's turn that it performs, and the parent's journal."""


class EarlierRecords:
    """Provides observers with the records before the first one that they receive, without reading these again.

    It keeps the records until `forget`; records of other runs are read from the store.
    """

    def __init__(self, journal: Journal) -> None:
        self._runs, self.run, self._records = journal.runs, journal.run, journal.records

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """As `Runs.read`."""
        if run == self.run and self._records:
            return iter(self._records[max(from_seq, 1) - 1 :])
        return self._runs.read(run, from_seq)

    def continues_with(self, record: Record) -> bool:
        """Whether *record* of the run directly follows the kept records."""
        return record.seq == len(self._records) + 1

    def forget(self) -> None:
        """Drop the kept records, and read the run from the store from now on."""
        self._records = ()


def in_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Sort *records* by run and number: all writers use the same order, so none deadlock."""
    return sorted(records, key=lambda one: (one[0], one[1].seq))
