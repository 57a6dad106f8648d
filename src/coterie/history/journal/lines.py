"""The file of a journal: find the end of its complete lines, and handle a torn one.

A crash can leave the last commit torn, with a line that lacks its newline or is not JSON. Such a line was never
durable, so nothing depends on it; it and everything after it are ignored when reading and set aside when the run is
claimed. Damage anywhere else is an error.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import overload

try:
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
except ImportError:  # only Apple's systems have and need it: there a plain sync does not flush the disk's own cache
    F_FULLFSYNC = None

from coterie.base import files
from coterie.errors import JournalUnreadable
from coterie.history.journal.codec import ROOM, Decoder
from coterie.history.journal.records import JournalRepaired, PlanReloaded, Record, RunReopened, RunStarted

KEPT = 8 << 20
"""Bytes of a journal up to which a reader keeps all its records; those of a longer one are read again when needed."""
_RARE = (RunStarted, PlanReloaded, RunReopened)


class LongJournal(Sequence[Record]):
    """The records of a journal that is too long to keep them: each look at them reads the file again.

    Attributes:
        rare: Those of the rare types, which readers look for; these are kept.
    """

    def __init__(
        self, path: Path, rare: Sequence[Record], last: Record, begin: int = 0, end: int | None = None
    ) -> None:
        self._path, self._last, self._begin = path, last, begin
        self._end = last.seq if end is None else end
        self.rare = [record for record in rare if begin < record.seq <= self._end]

    def __len__(self) -> int:
        return max(self._end - self._begin, 0)

    def __iter__(self) -> Iterator[Record]:
        """Read them.

        Raises:
            JournalUnreadable: If the file no longer has them all.
        """
        seq = 0
        with files.open_private(self._path, "rb") as file:
            for record in islice(Decoder(str(self._path)).read(file), self._end):
                seq = record.seq
                if seq > self._begin:
                    yield record
        if seq < self._end:
            raise JournalUnreadable(str(self._path), seq + 1, "the journal has changed since: read the run again")

    @overload
    def __getitem__(self, at: int) -> Record: ...

    @overload
    def __getitem__(self, at: slice) -> "LongJournal": ...

    def __getitem__(self, at: int | slice) -> "Record | LongJournal":
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            assert step == 1, "records are read in order"
            return LongJournal(self._path, self.rare, self._last, self._begin + begin, self._begin + max(begin, end))
        seq = range(self._begin + 1, self._end + 1)[at]
        return self._last if seq == self._last.seq else next(iter(self[seq - self._begin - 1 :]))


def rare(records: Sequence[Record]) -> Sequence[Record]:
    """All of *records* that are of a rare type, possibly with others; those of a long journal are kept."""
    return records.rare if isinstance(records, LongJournal) else records


class Reading:
    """A journal that is read in steps: each `go_on` decodes only lines after the last step.

    Attributes:
        last: The last record that was read.
        decoder: Has the last seq, the texts and the end of the complete lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin(None)

    def _begin(self, file: tuple[int, int] | None) -> None:
        self._file = file  # its device and inode: if another file replaces it, that is read from its beginning
        self._kept: list[Record] | None = []
        self._rare: list[Record] = []
        self.last: Record | None = None
        self.decoder = Decoder(str(self.path))

    @property
    def records(self) -> Sequence[Record]:
        """All records that `go_on` has read."""
        if self._kept is not None or self.last is None:
            return tuple(self._kept or ())
        return LongJournal(self.path, self._rare, self.last)

    def go_on(self) -> None:
        """Read the new lines of the journal, and keep their records if they are not too many.

        Raises: As `news` does.
        """
        for record in self.news():
            self.last = record
            if self._kept is not None:
                self._kept.append(record)
            if isinstance(record, _RARE):
                self._rare.append(record)
            if self.decoder.end > KEPT:
                self._kept = None

    def news(self) -> Iterator[Record]:
        """Read the new lines of the journal block by block.

        Raises:
            JournalUnreadable: If a line other than a torn last one cannot be read.
        """
        with files.open_private(self.path, "rb") as file:
            found = os.fstat(file.fileno())
            if self._file != (found.st_dev, found.st_ino) or found.st_size < self.decoder.end:
                self._begin((found.st_dev, found.st_ino))
            if found.st_size > self.decoder.end:
                file.seek(self.decoder.end)
                yield from self.decoder.read(file)


def set_aside(journal: int, folder: Path, end: int) -> JournalRepaired | None:
    """Move everything after *end* of the open file *journal* to `journal.torn-<n>` in *folder*.

    The copy is durable before the journal is truncated. Padding alone is only truncated; then None is returned.
    """
    behind = os.pread(journal, os.fstat(journal).st_size - end, end)
    if not behind:
        return None
    torn = behind.rstrip(ROOM)
    if not torn:
        os.ftruncate(journal, end)
        return None
    n = 1
    while (kept := folder / f"journal.torn-{n}").exists():
        n += 1
    with open(files.open_fd(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(torn)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)
    os.ftruncate(journal, end)
    os.fsync(journal)
    return JournalRepaired(file=kept.name, size=len(torn))


def make_folder(path: Path) -> None:
    """Make the folder *path* and its missing parents durably."""
    if path.is_dir():
        return
    make_folder(path.parent)
    files.make_folder(path)
    sync_folder(path.parent)


def sync_data(fd: int) -> None:
    """Make the data written to *fd*, and the metadata needed to read it, survive a power cut."""
    if F_FULLFSYNC is None:
        os.fdatasync(fd)
        return
    try:
        fcntl(fd, F_FULLFSYNC)
    except OSError:  # not every disk supports it; if the disk fails, the following sync fails, too
        os.fsync(fd)


def sync_folder(path: Path) -> None:
    """Make the names of the files in *path* survive a power cut, as far as its file system can be asked to."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
