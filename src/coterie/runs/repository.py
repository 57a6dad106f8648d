"""The runs that lie on disk: where each lies, what its journal holds, and the runs below it.

Whatever reads runs asks here, by the id of a run. No other module names the store, or knows how the folders of runs
and of their child runs follow from their ids.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from coterie.errors import JournalUnreadable, NoSuchRun
from coterie.ids import child_run_id
from coterie.journal.jsonl import JOURNAL, JsonlStore
from coterie.journal.records import ConfigChanged, PlanReloaded, Record, RunStarted, TurnStarted
from coterie.planning.plan import Plan, from_json, from_record
from coterie.runs import index
from coterie.runs.listing import standing

LOOK_EVERY = 0.1
"""Seconds between two looks of `Runs.follow` for child runs that have begun, and for an owner of the run."""
ENOUGH = 2
"""Looks in a row, at a run without an owner, that found no new record: then all records were read."""

News = tuple[str, Record]
"""A record, with the id of its run."""


class Runs:
    """The runs of one state directory, each addressed by its id; a child run's is `<run>/<turn>.<attempt>`.

        runs, run = find("last", Path(".coterie"))
        for record in runs.read(run): ...

    Args:
        root: The state directory; the first run makes it.
        poll: Seconds between two looks of `follow` at a journal.

    Attributes:
        store: Keeps the journals; who drives a run claims it there.
    """

    def __init__(self, root: Path, poll: float = 0.05) -> None:
        self.root = root
        self.store = JsonlStore(root, poll)

    # -- where ----------------------------------------------------------------------------------------------------

    def folder(self, run: str) -> Path:
        """The folder with all files of *run*, whether it exists or not."""
        return self.store.folder(run)

    def file(self, run: str) -> Path:
        """The file with the journal of *run*, whether it exists or not."""
        return self.folder(run) / JOURNAL

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""
        return self.file(run).exists()

    def list(self) -> list[str]:
        """The ids of the root runs, oldest first."""
        return self.store.list()

    # -- what their journals hold -----------------------------------------------------------------------------------

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
        records = self.store.load(run) if is_claimed_next else tuple(self.read(run))
        return Journal(self, run, records)

    def tree(self, run: str, *, is_claimed_next: bool = False) -> "Iterator[Journal]":
        """The journal of *run*, then those of its child runs, depth first, each read once.

        Args:
            is_claimed_next: As in `journal`, for each of them.

        Raises:
            NoSuchRun, JournalUnreadable: If one cannot be read.
        """
        yield from self._tree(self.journal(run, is_claimed_next=is_claimed_next), is_claimed_next)

    def _tree(self, journal: "Journal", is_claimed_next: bool) -> "Iterator[Journal]":
        yield journal
        for run, started in self._children(journal.run, journal.records):
            records = self.journal(run, is_claimed_next=is_claimed_next).records
            yield from self._tree(Journal(self, run, records, started.turn, journal), is_claimed_next)

    def history(self, run: str) -> Iterator[News]:
        """Every record of *run*, then those of its child runs, depth first.

        Raises:
            NoSuchRun, JournalUnreadable: If one cannot be read.
        """
        started = []
        for record in self.read(run):
            yield run, record
            if isinstance(record, TurnStarted):
                started.append(record)
        for child, _ in self._children(run, started):
            yield from self.history(child)

    def _children(self, run: str, records: Iterable[Record]) -> Iterator[tuple[str, TurnStarted]]:
        """The child runs that the attempts in *records* of *run* are, and how each attempt began."""
        for record in records:
            if isinstance(record, TurnStarted):
                child = child_run_id(run, record.turn, record.attempt)
                if self.has(child):
                    yield child, record

    async def follow(self, run: str, look_every: float = LOOK_EVERY) -> AsyncGenerator[News, None]:
        """Every record of *run* and its child runs, and then each that comes; ends when the run has no owner.

        Each run's records come in order, and a child's begin after the record that its turn started with.

        Raises:
            NoSuchRun, JournalUnreadable: If one cannot be read.
        """
        news: asyncio.Queue[News] = asyncio.Queue()
        readers = [asyncio.create_task(self._put(run, news))]
        children: list[str] = []
        quiet = 0
        try:
            while quiet < ENOUGH:
                owned, heard = self.store.owned(run), False
                while not news.empty():
                    which, record = news.get_nowait()
                    heard = True
                    if isinstance(record, TurnStarted):
                        children.append(child_run_id(which, record.turn, record.attempt))
                    yield which, record
                for child in [one for one in children if self.has(one)]:
                    heard = True
                    children.remove(child)
                    readers.append(asyncio.create_task(self._put(child, news)))
                for reader in readers:
                    if reader.done():
                        reader.result()  # raises what made a journal unreadable
                quiet = 0 if owned or heard else quiet + 1
                await asyncio.sleep(look_every)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    async def _put(self, run: str, news: "asyncio.Queue[News]") -> None:
        async for record in self.store.follow(run):
            news.put_nowait((run, record))

    # -- how they stand ---------------------------------------------------------------------------------------------

    def first(self, run: str) -> RunStarted:
        """The record that *run* began with.

        Raises:
            NoSuchRun, JournalUnreadable: If there is none to read.
        """
        first = next(self.read(run), None)
        return Journal(self, run, () if first is None else (first,)).started

    def plan(self, run: str, upto: int | None = None) -> Plan:
        """The plan that *run* obeys; see `Journal.plan`."""
        return self.journal(run).plan(upto)

    def is_owned(self, run: str) -> bool:
        """Whether a living process owns *run*, this one included."""
        return self.store.owned(run)

    def status(self, run: str) -> str:
        """How the root run *run* stands; see `coterie.runs.listing.standing`."""
        return standing(self.folder(run))


@dataclass(frozen=True)
class Journal:
    """The journal of one run, read whole.

    Attributes:
        turn: The turn of its parent that the run is; empty where the run was not found through its parent.
    """

    runs: Runs
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
            place = str(self.runs.file(self.run))
            reason = "it does not begin with run.started, so the run never began; start it anew"
            raise JournalUnreadable(place, 1, reason)
        return first

    @cached_property
    def parent(self) -> "Journal":
        """The journal of the run that asked; only a child run has one."""
        return self.above or self.runs.journal(self.run.rpartition("/")[0])

    def plan(self, upto: int | None = None) -> Plan:
        """The plan that the run was started with, or that was taken instead at a resume; where a fold begins.

        A child run that has no plan of its own has a part of its parent's.

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
                raise JournalUnreadable(str(self.runs.file(self.parent.run)), 1, reason)
            return part.child
        for record in self.records:
            if isinstance(record, PlanReloaded) and (upto is None or record.seq <= upto):
                found = record
        try:
            return from_record(found.plan, found.plan_hash)
        except ValueError as error:
            raise self._damaged(found.seq, error) from error

    def plan_now(self) -> Plan:
        """The plan that the run obeys at its end, with what a loop has read again since it began."""
        changes = [one.plan for one in self.records if isinstance(one, ConfigChanged | PlanReloaded)]
        return from_json(changes[-1]) if changes else self.plan()

    def _damaged(self, seq: int, error: ValueError) -> JournalUnreadable:
        reason = f"the plan in record {seq} is damaged, or of another coterie ({error}); restore it from a backup"
        path, key = self.runs.file(self.run), b'"seq":%d,' % seq
        with path.open("rb") as file:
            line = next((n for n, text in enumerate(file, 1) if key in text), 1)
        return JournalUnreadable(str(path), line, reason)


class Earlier:
    """Gives observers the records before the first one that they see, which were read already; other runs are read.

    It keeps them until `forget`.
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


def find(name: str, state_dir: Path) -> tuple[Runs, str]:
    """The run that *name* names, and the state directory that holds it, which may be another than *state_dir*.

    Args:
        name: An id, a beginning of one that only one run has, or `last`; with `/TURN.ATTEMPT` one of its child runs.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs begin with *name*.
    """
    root, _, below = name.partition("/")
    runs, run = lying_in(index.find(root, state_dir))
    if below:
        run = f"{run}/{below}"
        if not runs.has(run):
            raise NoSuchRun(run)
    return runs, run


def lying_in(folder: Path) -> tuple[Runs, str]:
    """The root run whose files lie in *folder*, and the state directory that holds it."""
    return Runs(index.home_of(folder)), unquote(folder.name)
