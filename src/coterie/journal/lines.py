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
from coterie.journal.records import JournalRepaired


def scan(path: Path) -> Decoder:
    """Read the whole journal at *path*; the decoder knows its last seq, its texts and where its whole lines end.

    Raises:
        JournalUnreadable: If a line other than a torn last one cannot be read.
    """
    decoder = Decoder(str(path))
    with files.open_private(path, "rb") as file:
        for _ in decoder.read(file):
            pass
    return decoder


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
