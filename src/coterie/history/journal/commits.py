"""The open file of a journal, as its owner writes it: one commit after the other, each made durable by one sync.

Commits are written into padding that was made before, as databases do with their logs: a sync that does not change the
file size takes two thirds of the time. The disk can also start before anyone waits for it, so work between `start` and
`finish` happens in parallel.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from coterie.history.journal.codec import HEAD, MARK, ROOM
from coterie.history.journal.lines import sync_data, sync_folder

_LEAST_ROOM, _MOST_ROOM = 1 << 12, 1 << 18


class CommitFile:
    """Writes commits after *end*, the end of the last one, to the open file *fd*, and closes it.

    A commit must be finished before the next one is written, so that a power cut leaves at most one torn commit at the
    very end.

    Args:
        folders: The folders on the path to the file. Its creator may have been killed before the file's name was
            durable, so the first commit of every owner syncs them. After the sync of the file itself this costs little,
            since a file system writes its journal once.
    """

    def __init__(self, fd: int, end: int, folders: Sequence[Path] = ()) -> None:
        self._fd, self._folders = fd, list(folders)
        self._begin = self._end = end  # the end of the last commit
        self._size = end  # the end of the file, including the padding

    @property
    def unsynced_folders(self) -> int:
        """How many folders are synced with the next commit; until then a power cut could remove the file's name."""
        return len(self._folders)

    def write(self, lines: bytes) -> None:
        """Write *lines*, complete with newlines, as one commit, without a sync.

        Raises:
            OSError: If there is no room on the disk, or it fails.
        """
        commit = (b"" if self._end else HEAD) + lines[:-1] + MARK + b"\n"
        self._begin, end = self._end, self._end + len(commit)
        _write_all(self._fd, commit, self._begin)
        if end > self._size:
            self._size = end
            with contextlib.suppress(OSError):  # a disk with no space beyond the commit itself
                self._size += os.pwrite(self._fd, ROOM * min(max(end, _LEAST_ROOM), _MOST_ROOM), end)
        self._end = end

    def start(self) -> None:
        """Make the disk start on the last commit, if the system supports that.

        Linux begins to write pages that a process declares as no longer needed; it keeps pages that are only partly
        named in memory.
        """
        try:
            os.posix_fadvise(self._fd, self._begin, self._end - self._begin, os.POSIX_FADV_DONTNEED)
        except (AttributeError, OSError):
            return  # not every system supports it; `finish` reports errors of the disk

    def finish(self) -> None:
        """Wait until the last commit would survive a power cut.

        Raises:
            OSError: If the disk fails.
        """
        sync_data(self._fd)
        while self._folders:
            sync_folder(self._folders[-1])
            self._folders.pop()

    def take_room_away(self) -> None:
        """Truncate the file after the last commit."""
        if self._size > self._end:
            with contextlib.suppress(OSError):  # padding does no harm
                os.ftruncate(self._fd, self._end)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def _write_all(fd: int, data: bytes, at: int) -> None:
    written = os.pwrite(fd, data, at)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], at + written)
