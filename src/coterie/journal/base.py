"""What runs and their readers need from the store of their journals."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from coterie.journal.records import Record
from coterie.journal.status import RunStatus


class Writer(Protocol):
    """The one owner of a run's journal, from `claim` until `close`.

    Order is given at once, durability later: `append` is synchronous and takes no time worth naming; what depends on
    a record being safe awaits `durable`. Appends made while a sync is under way share the next one.
    """

    @property
    def repaired(self) -> Record | None:
        """A `JournalRepaired` to append first, when the claim had to cut off a torn line; else None."""

    @property
    def last(self) -> int:
        """The seq of the last record, 0 in an empty journal."""

    def append(self, records: Sequence[Record]) -> int:
        """Put *records*, whose `seq` continues the journal's, behind it, and return the last seq.

        Raises:
            JournalFailed: If an earlier sync failed or the writer is closed; nothing was appended.
        """

    def is_durable(self, seq: int) -> bool:
        """Whether everything up to *seq* would survive a power cut now."""

    def begin(self) -> bool:
        """Have the disk start on what was appended, if that is quick here; False: await `durable`.

        Nothing is durable by that: `sync` waits until it is, and what its caller does before takes no time of its own.
        """

    def sync(self) -> bool:
        """Make everything appended so far durable at once, if that is quick here; False: await `durable` instead.

        It is quick after a `begin` that was. It saves two turns of the event loop.

        Raises:
            JournalFailed, Fenced: As `durable` does.
        """

    async def durable(self, seq: int) -> None:
        """Return once everything up to *seq* would survive a power cut.

        Raises:
            JournalFailed: If it could not be written (a full disk). This owner is over: later calls raise too.
            Fenced: If another owner took the run.
        """

    async def close(self) -> None:
        """Make what was appended durable if possible, and give the run up. Idempotent; never raises."""


class Reader(Protocol):
    """Reads journals."""

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on, in order; texts are whole.

        Raises:
            NoSuchRun: If there is no such journal.
            JournalUnreadable: If a line other than a torn last one cannot be read: says which, and why.
        """


class Store(Reader, Protocol):
    """Keeps journals for the processes that drive runs. A child run's journal is covered by its root's claim."""

    def claim(self, run: str) -> Writer:
        """Become the owner of *run*, whose journal may be empty. Claim a root before its children.

        Raises:
            RunIsOwned: If a living process owns it.
            JournalUnreadable: If what is there cannot be read; nothing is changed.
        """


class Archive(Reader, Protocol):
    """Runs that can be listed, followed and read by others than their owner."""

    def list(self) -> list[str]:
        """The ids of the root runs here, oldest first."""

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""

    def owned(self, run: str) -> bool:
        """Whether a living process owns *run*, this one included."""

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*; `cut off` if it has no journal."""

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        """The place of the record *seq* of *run*, for errors: the name of its journal, and the line there."""

    async def load(self, run: str) -> Sequence[Record]:
        """All records of *run*; see `read`. The event loop goes on meanwhile."""

    def load_for_claim(self, run: str) -> Sequence[Record]:
        """All records of *run*; see `read`.

        If the run goes on, they are kept for its next owner in this process, which does not decode them again.
        """

    def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        """Like `read`, and then every record as it becomes durable; ends after `run.finished` or `run.stopped`
        when the run has no owner."""


class JournalStore(Store, Archive, Protocol):
    """Keeps the journals of the runs of one state directory, for those who drive them and for their readers.

    The journals alone: the lock of a run, its inbox, its tokens and the folders of its attempts lie in the run's
    folder (`coterie.journal.jsonl.folder_of`), where `claim` takes the lock.
    """
