"""A store that keeps journals in memory: for tests, rehearsals and programs that need no resume."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice

from coterie.errors import JournalFailed, NoSuchRun
from coterie.history.journal.records import Record, RunFinished, RunStopped
from coterie.history.journal.rules import Claims, at_rest, check_claim, check_next, root_of
from coterie.history.journal.status import RunStatus


class _Journal:
    """The records of one run, its owner, and its followers."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.owner: MemoryWriter | None = None
        self.followers: set[asyncio.Event] = set()

    def wake(self) -> None:
        for follower in self.followers:
            follower.set()


class MemoryStore:
    """Keeps journals as long as the program runs.

    Records are kept without encoding, and count as durable at once. Otherwise it behaves like a store on disk: one
    owner per run, one order, and children covered by their root's claim.

        store = MemoryStore()
        writer = store.claim("r1")
        writer.append([RunStarted(seq=1, run="r1", engine="flow")])
    """

    def __init__(self) -> None:
        self._journals: dict[str, _Journal] = {}
        self._claims = Claims()

    def claim(self, run: str) -> "MemoryWriter":
        """Become the owner of *run*; see `coterie.history.journal.base.Archive`."""
        check_claim(run, self._is_owned(run), self._is_owned(root_of(run)))
        journal = self._journals.setdefault(run, _Journal())
        journal.owner = MemoryWriter(self, run, journal)
        self._claims.add(run)
        return journal.owner

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on; see `coterie.history.journal.base.Archive`."""
        return islice(self._journal(run).records, max(from_seq, 1) - 1, None)

    async def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        """Every existing and further record of *run*; see `coterie.history.journal.base.Archive`."""
        journal = self._journal(run)
        told = max(from_seq, 1) - 1
        more = asyncio.Event()
        journal.followers.add(more)
        try:
            while True:
                while told < len(journal.records):
                    told += 1
                    yield journal.records[told - 1]
                if at_rest(journal.records[-1] if journal.records else None, self._is_owned(run)):
                    return
                more.clear()
                await more.wait()
        finally:
            journal.followers.discard(more)

    def fill(self, run: str, records: Sequence[Record]) -> None:
        """Begin the journal of *run*, which has no owner yet, with the given *records*."""
        self._journals.setdefault(run, _Journal()).records += records

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""
        return run in self._journals

    def owned(self, run: str) -> bool:
        """Whether *run* has an owner."""
        return self._is_owned(root_of(run))

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*."""
        records = self._journals[run].records if self.has(run) else []
        match records[-1] if records and not self.owned(run) else None:
            case RunFinished(outcome=outcome, reason=reason):
                return RunStatus(outcome, reason)
            case RunStopped(reason=reason, until=until):
                return RunStatus(f"stopped: {reason}", until=until)
        return RunStatus("running" if self.owned(run) else "cut off")

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        """The name of the run and the record's number; see `coterie.history.journal.base.Archive`."""
        return f"the run {run!r} in memory", seq

    async def load(self, run: str) -> Sequence[Record]:
        """All records of *run*."""
        return tuple(self.read(run))

    def load_now(self, run: str, *, is_claimed_next: bool = False) -> Sequence[Record]:
        """All records of *run*."""
        return tuple(self.read(run))

    def list(self) -> list[str]:
        """The ids of the root runs, oldest first."""
        begun = ((journal.records[0].at, run) for run, journal in self._journals.items() if journal.records)
        return [run for _, run in sorted(begun) if root_of(run) == run]

    def _journal(self, run: str) -> _Journal:
        if run not in self._journals:
            raise NoSuchRun(run, self.list() if root_of(run) == run else ())
        return self._journals[run]

    def _is_owned(self, run: str) -> bool:
        return run in self._journals and self._journals[run].owner is not None

    def _release(self, run: str) -> None:
        """Release *run*; a root releases its children, too."""
        for name in (run, *self._claims.let_go(run)):
            self._journals[name].owner = None
            self._journals[name].wake()


class MemoryWriter:
    """The owner of one run in a `MemoryStore`; see `coterie.history.journal.base.Writer`."""

    repaired = None

    def __init__(self, store: MemoryStore, run: str, journal: _Journal) -> None:
        self._store, self._run, self._journal = store, run, journal

    @property
    def last(self) -> int:
        """The seq of the last record, 0 in an empty journal."""
        return len(self._journal.records)

    def append(self, records: Sequence[Record]) -> int:
        """Append *records* to the journal, and return the last seq."""
        journal = self._journal
        if journal.owner is not self:
            raise JournalFailed(self._run, "its writer is closed")
        last = check_next(len(journal.records), records)
        journal.records += records
        if journal.followers:
            journal.wake()
        return last

    def is_durable(self, seq: int) -> bool:
        """Whether *seq* was appended: records in memory count as durable."""
        return seq <= len(self._journal.records)

    def begin(self) -> bool:
        """Return True: nothing is left to do."""
        return True

    def sync(self) -> bool:
        """Return True: nothing is left to do."""
        return True

    async def durable(self, seq: int) -> None:
        """Return at once."""
        if seq > self.last:
            raise ValueError(f"record {seq} was never appended to run {self._run!r}, whose last is {self.last}")

    async def close(self) -> None:
        """Release the run. Idempotent; never raises."""
        if self._journal.owner is self:
            self._store._release(self._run)
