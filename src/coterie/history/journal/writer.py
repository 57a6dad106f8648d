"""The one owner of a journal file: order at once, durability in groups.

`append` only fills a buffer. The first waiter of `durable` schedules a commit after all tasks that are ready to run, so
everything appended until then shares one write and one sync; records appended during a sync share the next one.

A commit consists of complete lines, the last of which ends in a mark (`coterie.history.journal.codec`), written after
the last commit (`coterie.history.journal.commits`). It is finished by one sync before the next is written, so a power
cut leaves at most one incomplete commit, at the very end. Readers ignore it, and the next owner cuts it off and records
that (`repaired`). A line in the middle that does not match its checksum is damage: it is reported with its place, and
nothing is cut off. Since a commit goes into existing padding, its sync need not make a new file size durable. The first
commit of an owner also syncs the folders on the path to the file.

When a write or a sync fails, all waiters fail, and so does every later call: the state of the disk is then unknown, and
only the next owner, which reads it, can tell. A removed lock is noticed at the next commit; the owner is then fenced
and writes nothing more.

`coterie.history.journal.pace` says which commits run on the loop's own thread, and which in the store's.

A caller with other work to do can begin a commit (`begin`) before it waits for it (`sync`).
"""

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from coterie.base import files
from coterie.errors import Fenced, JournalFailed, RunDeleted
from coterie.history.journal.codec import Encoder
from coterie.history.journal.commits import CommitFile
from coterie.history.journal.lines import Reading, set_aside, sync_data
from coterie.history.journal.lock import RunLock
from coterie.history.journal.pace import Pace
from coterie.history.journal.records import JournalRepaired, Record
from coterie.history.journal.rules import check_next
from coterie.history.journal.syncer import Syncer


class JsonlWriter:
    """The owner of one journal file; see `coterie.history.journal.base.Writer`. It belongs to one event loop.

    Args:
        folders: The folders on the path to the file; see `coterie.history.journal.commits.CommitFile`.
        reading: The part of the file that was already read, if any; the rest is read here.

    Attributes:
        repaired: The record of a torn line that was cut off at the claim, or None.
        last: The seq of the last record, 0 in an empty journal.
        lock: The lock of the owner; a child run has its root's.

    Raises:
        JournalUnreadable: If the existing journal cannot be read; nothing was changed.
        OSError: If the file cannot be opened or repaired.
    """

    def __init__(
        self,
        run: str,
        path: Path,
        lock: RunLock,
        syncer: Syncer,
        pace: Pace,
        released: Callable[[str], None],
        folders: Sequence[Path],
        reading: Reading | None = None,
    ) -> None:
        self._run, self._path, self._syncer, self._pace, self._released = run, path, syncer, pace, released
        self.lock = lock
        self.repaired: JournalRepaired | None = None
        if reading is not None:
            reading.go_on()
        known = reading.decoder if reading is not None else None
        fd = files.open_fd(path, os.O_RDWR | os.O_CREAT)
        try:
            if known is not None:
                self.repaired = set_aside(fd, path.parent, known.end)
                sync_data(fd)  # a killed owner may have written it without a sync
        except BaseException:
            os.close(fd)
            raise
        self._file = CommitFile(fd, known.end if known else 0, folders)
        self._encoder = Encoder(
            known.texts if known else (), sealed=known.sealed if known is not None and known.end else True
        )
        self.last = self._written = self._durable = known.last if known else 0
        self._pending: deque[tuple[int, bytes]] = deque()  # filled by the loop, emptied under `_disk` in any thread
        self._waiters: list[asyncio.Future[None]] = []
        self._committing = False
        self._here: bool | None = None  # whether the next commit is made on the loop's thread, once that is decided
        self._held_up = 0.0  # seconds that the loop was blocked by the commit in progress
        self._closed = False
        self._failed: JournalFailed | None = None
        self._disk = threading.Lock()  # held while the file is written, so that a close waits for a running sync

    def append(self, records: Sequence[Record]) -> int:
        """Append *records* to the journal, and return the last seq.

        Raises:
            JournalFailed: If an earlier write failed, or the writer is closed; nothing was appended.
            ValueError: If their seqs do not continue the journal, or one has a value that JSON cannot represent;
                nothing was appended.
        """
        if self._failed or self._closed:
            raise self._failed or JournalFailed(self._run, "its writer is closed")
        last = check_next(self.last, records)
        if records:
            self._pending.append((last, self._encoder.encode(records)))
        self.last = last
        return last

    def is_durable(self, seq: int) -> bool:
        """Whether everything up to *seq* would survive a power cut now."""
        return seq <= self._durable

    def begin(self) -> bool:
        """Start writing the appended records to disk; see `coterie.history.journal.base.Writer`."""
        if self._committing or not self._is_here():
            return False
        if self._pending:
            began = time.perf_counter()
            with self._disk:
                self._finish()
                self._put()
                self._file.start()
            self._held_up = time.perf_counter() - began
        return True

    def sync(self) -> bool:
        """Make everything durable on this thread, if the disk is fast; see `coterie.history.journal.base.Writer`."""
        if self._committing or not self._is_here():
            return False
        self._write_here()
        if self._failed:
            raise self._failed
        return True

    def flush(self) -> None:
        """Make everything durable on this thread, however slow the disk is; for callers without an event loop.

        Raises:
            JournalFailed: As `durable` does.
        """
        self._write()
        if self._failed:
            raise self._failed

    async def durable(self, seq: int) -> None:
        """Return once everything up to *seq* would survive a power cut; see `coterie.history.journal.base.Writer`."""
        if self._failed:
            raise self._failed
        if seq > self.last:
            raise ValueError(f"record {seq} was never appended to run {self._run!r}, whose last is {self.last}")
        if seq <= self._durable:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.append(waiter)
        if not self._committing:
            self._committing = True
            loop.call_soon(self._commit, loop)
        await waiter

    async def close(self) -> None:
        """Make the appended records durable if possible, and release the run. Idempotent; never raises.

        It does not suspend, so a call completes even if the task is cancelled or the loop ends.
        """
        self.give_up()

    def give_up(self) -> None:
        """`close`, for callers without an event loop. A root releases its children, too."""
        if self._closed:
            return
        self._closed = True
        self._write()
        waiters, self._waiters = self._waiters, []
        self._tell(waiters)
        with self._disk:
            if self._failed is None:
                with contextlib.suppress(JournalFailed):
                    self.lock.check()
                    self._file.take_room_away()
            self._file.close()
        self._released(self._run)

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write and sync, here or in the thread, for all present waiters; then repeat for those who came meanwhile."""
        waiters, self._waiters = self._waiters, []
        if self._is_here():
            self._write_here()
            self._committed(loop, waiters)
            return

        def job() -> None:
            self._write()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile, so there are no waiters
                loop.call_soon_threadsafe(self._committed, loop, waiters)

        self._here = None
        self._syncer.submit(job)

    def _is_here(self) -> bool:
        """Whether the next commit is made on the loop's thread; the same until it is made."""
        if self._here is None:
            self._here = self._pace.on_loop()
        return self._here

    def _write_here(self) -> None:
        """Write on the loop's thread, which shows how fast the disk is."""
        began, syncs, durable = time.perf_counter(), 1 + self._file.unsynced_folders, self._durable
        self._write()
        if self._durable > durable:
            self._pace.learn(self._held_up + time.perf_counter() - began, syncs)
        self._held_up, self._here = 0.0, None

    def _committed(self, loop: asyncio.AbstractEventLoop, waiters: list[asyncio.Future[None]]) -> None:
        self._tell(waiters)
        self._committing = bool(self._waiters)
        if self._committing:
            self._commit(loop)

    def _tell(self, waiters: list[asyncio.Future[None]]) -> None:
        """Resolve *waiters*, with the error if the write failed."""
        for waiter in waiters:
            if waiter.done():
                continue  # the task that waited was cancelled
            if self._failed is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self._failed)

    def _write(self) -> None:
        """Write the pending records to disk, from any thread. After a failure nothing more is written."""
        with self._disk:
            self._finish()
            if self._pending:
                self._put()
                self._finish()

    def _put(self) -> None:
        """Write the pending records as one commit, without a sync."""
        lines: list[bytes] = []
        upto = self._written
        while self._pending:
            upto, data = self._pending.popleft()
            lines.append(data)
        if self._failed is None:
            try:
                self.lock.check()
                self._file.write(b"".join(lines))
                self._written = upto
            except JournalFailed as failed:
                is_gone = not isinstance(failed, Fenced) and not self._path.exists()
                self._failed = RunDeleted(self._run, self._path.parent) if is_gone else failed
            except OSError as error:
                self._failed = self._failure(error)

    def _finish(self) -> None:
        """Wait until the written commit is durable."""
        if self._written > self._durable and self._failed is None:
            try:
                self._file.finish()
                self._durable = self._written
            except OSError as error:
                self._failed = self._failure(error)

    def _failure(self, error: OSError) -> JournalFailed:
        failed = JournalFailed(self._run, f"{self._path}: {error.strerror or error}")
        failed.__cause__ = error
        return failed
