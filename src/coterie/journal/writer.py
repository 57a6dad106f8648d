"""The one owner of a journal file: order at once, durability in groups.

`append` only fills a buffer. The first waiter of `durable` has a commit scheduled behind everything that is ready to
run, so whatever is appended until then shares one write and one sync; what is appended while a sync is under way
shares the next.

Where the sync happens is a measured choice. A thread costs two wake-ups and a fight for the interpreter's lock: here
100 µs, on top of a sync of 220 µs, for every turn of a chain. So a commit is done on the loop's own thread while the
disk is quick (`QUICK`). After one that was not, commits go to the store's thread, and the loop goes on meanwhile; now
and then, ever more rarely, one is tried on the loop again.

Commits are written into room that was made before, as databases do with their logs: a sync that need not make a new
file size durable, too, takes two thirds of the time. A close takes the room away.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from coterie.errors import JournalFailed
from coterie.journal.codec import MARK, ROOM, Encoder
from coterie.journal.lines import scan, set_aside, sync_folder
from coterie.journal.lock import RunLock
from coterie.journal.records import JournalRepaired, Record
from coterie.journal.rules import check_next
from coterie.journal.syncer import Syncer

QUICK = 0.001
"""Seconds that a commit may hold the loop up; after one that takes longer the next ones go to the thread."""

_LONGEST_EXILE = 256
_LEAST_ROOM, _MOST_ROOM = 1 << 12, 1 << 18


class JsonlWriter:
    """The owner of one journal file; see `coterie.journal.base.Writer`. It belongs to one event loop.

    Attributes:
        repaired: What was cut off at the claim, or None.
        last: The seq of the last record, 0 in an empty journal.
        lock: What makes it the owner; a child run has its root's.

    Raises:
        JournalUnreadable: If what is there cannot be read; nothing was changed.
        OSError: If the file cannot be opened or repaired.
    """

    def __init__(self, run: str, path: Path, lock: RunLock, syncer: Syncer, released: Callable[[str], None]) -> None:
        self._run, self._path, self._syncer, self._released = run, path, syncer, released
        self.lock = lock
        self.repaired: JournalRepaired | None = None
        known = scan(path) if path.exists() else None
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if known is None:
                sync_folder(path.parent)
            else:
                self.repaired = set_aside(self._fd, path.parent, known.end)
                os.fdatasync(self._fd)  # an owner that was killed may have left it written but not synced
        except BaseException:
            os.close(self._fd)
            raise
        self._encoder = Encoder(known.texts if known else ())
        self.last = self._durable = known.last if known else 0
        self._end = self._size = known.end if known else 0  # of the last commit; of the file, with the room behind it
        self._pending: deque[tuple[int, bytes]] = deque()  # filled by the loop, emptied under `_disk` in any thread
        self._waiters: list[asyncio.Future[None]] = []
        self._committing = False
        self._exiled = 0  # how many commits are still to go to the thread
        self._exile = 1  # how many will, after the next slow one
        self._closed = False
        self._failed: JournalFailed | None = None
        self._disk = threading.Lock()  # held while the file is written: a close waits for the sync under way

    def append(self, records: Sequence[Record]) -> int:
        """Put *records* behind the journal, and return the last seq.

        Raises:
            JournalFailed: If an earlier write failed, or the writer is closed; nothing was appended.
            ValueError: If their seqs do not continue the journal, or one holds what JSON cannot carry; likewise.
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

    def sync(self) -> bool:
        """Make everything durable here and now, while the disk is quick; see `coterie.journal.base.Writer`."""
        if self._exiled or self._committing:
            return False
        self._write_here()
        if self._failed:
            raise self._failed
        return True

    async def durable(self, seq: int) -> None:
        """Return once everything up to *seq* would survive a power cut; see `coterie.journal.base.Writer`."""
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
        """Make what was appended durable if possible, and give the run up. Idempotent; never raises.

        It does not suspend: once called it is done, whatever becomes of the task or the loop.
        """
        self.give_up()

    def give_up(self) -> None:
        """`close`, for callers without an event loop. A root takes its children with it."""
        if self._closed:
            return
        self._closed = True
        self._write()
        waiters, self._waiters = self._waiters, []
        self._tell(waiters)
        with self._disk:
            if self._failed is None:
                self._take_room_away()
            os.close(self._fd)
        self._released(self._run)

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write and sync, here or in the thread, for all who wait now; then for those who wait by then."""
        waiters, self._waiters = self._waiters, []
        if not self._exiled:
            self._write_here()
            self._committed(loop, waiters)
            return

        def job() -> None:
            self._write()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(self._committed, loop, waiters)

        self._exiled -= 1
        self._syncer.submit(job)

    def _write_here(self) -> None:
        """Write on the loop's thread, and learn from how long that took whether to do it again."""
        began = time.perf_counter()
        self._write()
        if time.perf_counter() - began < QUICK:
            self._exile = 1
        else:
            self._exiled = self._exile
            self._exile = min(2 * self._exile, _LONGEST_EXILE)

    def _committed(self, loop: asyncio.AbstractEventLoop, waiters: list[asyncio.Future[None]]) -> None:
        self._tell(waiters)
        self._committing = bool(self._waiters)
        if self._committing:
            self._commit(loop)

    def _tell(self, waiters: list[asyncio.Future[None]]) -> None:
        """Tell *waiters*, whose records have been written if that was possible, how it went."""
        for waiter in waiters:
            if waiter.done():
                continue  # the task that waited was cancelled
            if self._failed is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self._failed)

    def _write(self) -> None:
        """Put what is pending on the disk; in any thread. Once that has failed, nothing is written any more."""
        with self._disk:
            lines: list[bytes] = []
            upto = self._durable
            while self._pending:
                upto, data = self._pending.popleft()
                lines.append(data)
            if self._failed is not None or not lines:
                return
            try:
                self.lock.check()
                self._put(b"".join(lines)[:-1] + MARK + b"\n")
                os.fdatasync(self._fd)
            except JournalFailed as failed:
                self._failed = failed
            except OSError as error:
                self._failed = JournalFailed(self._run, f"{self._path}: {error.strerror or error}")
            else:
                self._durable = upto

    def _put(self, commit: bytes) -> None:
        """Write *commit* behind the last one; where the room there does not hold it, with more room behind it."""
        end = self._end + len(commit)
        _write_all(self._fd, commit, self._end)
        if end > self._size:
            self._size = end
            with contextlib.suppress(OSError):  # a disk that has no more than the commit needs
                self._size += os.pwrite(self._fd, ROOM * min(max(end, _LEAST_ROOM), _MOST_ROOM), end)
        self._end = end

    def _take_room_away(self) -> None:
        if self._size > self._end:
            with contextlib.suppress(OSError, JournalFailed):  # it does no harm
                self.lock.check()
                os.ftruncate(self._fd, self._end)


def _write_all(fd: int, data: bytes, at: int) -> None:
    written = os.pwrite(fd, data, at)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], at + written)
