"""The file of a journal: find the end of its complete lines, and handle a torn one.

A crash can leave the last commit torn, with a line that lacks its newline or is not JSON. Such a line was never
durable, so nothing depends on it; it and everything after it are ignored when reading and set aside when the run is
claimed. Damage anywhere else is an error.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

try:
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
except ImportError:  # only Apple's systems have and need it: there a plain sync does not flush the disk's own cache
    F_FULLFSYNC = None

from coterie.base import files
from coterie.history.journal.codec import ROOM, Decoder
from coterie.history.journal.records import JournalRepaired, Record


class Reading:
    """A journal that is read in steps: each `go_on` decodes only lines after the last step.

    Attributes:
        records: All records that were read.
        decoder: Has the last seq, the texts and the end of the complete lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin(None)

    def _begin(self, file: tuple[int, int] | None) -> None:
        self._file = file  # its device and inode: if another file replaces it, that is read from its beginning
        self.records: list[Record] = []
        self.decoder = Decoder(str(self.path))

    def go_on(self) -> None:
        """Read the new lines of the journal, and keep their records.

        Raises: As `news` does.
        """
        self.records += self.news()

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
