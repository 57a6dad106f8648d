"""The file of a journal: where its whole lines end, and what to do about a torn one.

A crash can leave the last commit torn: a line of it without its newline, or not JSON. Such a line was never durable,
so nothing depends on it; it and what follows are left out when reading and set aside when the run is claimed. Damage
anywhere else is an error.
"""

import os
from pathlib import Path

try:
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
except ImportError:  # only Apple's systems have it, and need it: there a plain sync leaves the disk's own cache be
    F_FULLFSYNC = None

from coterie import files
from coterie.journal.codec import ROOM, Decoder
from coterie.journal.records import JournalRepaired, Record


class Reading:
    """A journal that is read in steps: each `go_on` decodes only what came after the last.

    Attributes:
        records: All records that were read.
        decoder: Knows the last seq, the texts and where the whole lines end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin(None)

    def _begin(self, file: tuple[int, int] | None) -> None:
        self._file = file  # its device and inode: another file in its place is read from its beginning
        self.records: list[Record] = []
        self.decoder = Decoder(str(self.path))

    def go_on(self) -> None:
        """Read what the journal holds now.

        Raises:
            JournalUnreadable: If a line other than a torn last one cannot be read.
        """
        with files.open_private(self.path, "rb") as file:
            found = os.fstat(file.fileno())
            if self._file != (found.st_dev, found.st_ino) or found.st_size < self.decoder.end:
                self._begin((found.st_dev, found.st_ino))
            if found.st_size > self.decoder.end:
                file.seek(self.decoder.end)
                self.records += self.decoder.read(file)


def set_aside(journal: int, folder: Path, end: int) -> JournalRepaired | None:
    """Cut what lies behind *end* off the open file *journal*, and keep it in *folder* as `journal.torn-<n>`.

    It is safe on disk before it is cut off. None when there is nothing but room for more, which is cut off, too.
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
    """Make the folder *path* and those above it, each so that it survives a power cut."""
    if path.is_dir():
        return
    make_folder(path.parent)
    files.make_folder(path)
    sync_folder(path.parent)


def sync_data(fd: int) -> None:
    """Make what was written to *fd*, as far as somebody could read it again, survive a power cut."""
    if F_FULLFSYNC is None:
        os.fdatasync(fd)
        return
    try:
        fcntl(fd, F_FULLFSYNC)
    except OSError:  # not every disk can; one that fails fails this, too
        os.fsync(fd)


def sync_folder(path: Path) -> None:
    """Make the names of the files in *path* survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
