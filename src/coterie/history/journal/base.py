"""The interfaces between runs, their readers, and the stores of journals."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from coterie.history.journal.records import Record
from coterie.history.journal.status import RunStatus


class Writer(Protocol):
    """The one owner of a run's journal, from `claim` until `close`.

    Records get their order at once and become durable later: `append` is synchronous and takes almost no time; effects
    that need a durable record await `durable`. Appends during a sync share the next one.
    """

    @property
    def repaired(self) -> Record | None:
        """A `JournalRepaired` to append first, if the claim cut off a torn line; else None."""

    @property
    def last(self) -> int:
        """The seq of the last record, 0 in an empty journal."""

    def append(self, records: Sequence[Record]) -> int:
        """Append *records*, whose `seq` continues that of the journal, and return the last seq.

        Raises:
            JournalFailed: If an earlier sync failed or the writer is closed; nothing was appended.
        """

    def is_durable(self, seq: int) -> bool:
        """Whether everything up to *seq* would survive a power cut now."""

    def begin(self) -> bool:
        """Start writing the appended records to disk, if that is fast here; False: await `durable` instead.

        The records are not durable yet: `sync` waits for that, and the caller can work in parallel before calling it.
        """

    def sync(self) -> bool:
        """Make all appended records durable now, if that is fast here; False: await `durable` instead.

        It is fast after a `begin` that returned True. It saves two turns of the event loop.

        Raises:
            JournalFailed, Fenced: As `durable` does.
        """

    async def durable(self, seq: int) -> None:
        """Return once everything up to *seq* would survive a power cut.

        Raises:
            JournalFailed: If it could not be written (a full disk). Later calls raise as well, since this owner has
                ended.
            Fenced: If another owner has taken the run over.
        """

    async def close(self) -> None:
        """Make the appended records durable if possible, and release the run. Idempotent; never raises."""


class Reader(Protocol):
    """Reads journals."""

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on, in order; texts are whole.

        Raises:
            NoSuchRun: If there is no such journal.
            JournalUnreadable: If a line other than a torn last one cannot be read, with the line and the reason.
        """


class Loader(Reader, Protocol):
    """Reads journals, and whole ones."""

    def load_now(self, run: str, *, is_claimed_next: bool = False) -> Sequence[Record]:
        """All records of *run*; see `read`. Those of a long journal may be read again with each look at them.

        Args:
            is_claimed_next: If the run has not ended, keep them for its next owner in this process, which need not
                decode them again.
        """


class Store(Loader, Protocol):
    """Keeps journals for the processes that drive runs. The claim of a root covers the journals of its child runs."""

    def claim(self, run: str) -> Writer:
        """Become the owner of *run*, whose journal may be empty. Claim a root before its children.

        Raises:
            RunIsOwned: If a living process owns it.
            JournalUnreadable: If the existing journal cannot be read; nothing is changed.
        """


class Archive(Loader, Protocol):
    """Runs that processes other than their owner can list, read and follow."""

    def list(self) -> list[str]:
        """The ids of the root runs here, oldest first."""

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""

    def owned(self, run: str) -> bool:
        """Whether a living process, possibly this one, owns *run*."""

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*; `cut off` if it has no journal."""

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        """The place of the record *seq* of *run*, for errors: the name of the journal and the line."""

    async def load(self, run: str) -> Sequence[Record]:
        """All records of *run*; see `load_now`. The event loop is not blocked."""

    def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        """Like `read`, followed by every record as it becomes durable.

        Ends after `run.finished` or `run.stopped` when the run has no owner.
        """


class JournalStore(Store, Archive, Protocol):
    """Keeps the journals of the runs of one state directory, for their owners and their readers.

    It keeps only journals: the lock of a run, its inbox, its tokens and the folders of its attempts are in the run's
    folder (`coterie.history.journal.jsonl.folder_of`), where `claim` takes the lock.
    """
