"""The open file of a journal, as its owner writes it: one commit behind the other, each made durable by one sync.

Commits are written into room that was made before, as databases do with their logs: a sync that need not make a new
file size durable, too, takes two thirds of the time. And the disk can be set to work before anybody waits for it: what
is done between `start` and `finish` takes no time of its own.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from coterie.journal.codec import HEAD, MARK, ROOM
from coterie.journal.lines import sync_data, sync_folder

_LEAST_ROOM, _MOST_ROOM = 1 << 12, 1 << 18


class CommitFile:
    """Commits behind *end*, the end of the last one, in the open file *fd*, which it closes.

    A commit must have been finished before the next one is written: what a power cut leaves is at most one torn commit
    at the very end.

    Args:
        folders: Those in which a name leads to the file. Its maker may have been killed before the name would
            survive a power cut, so the first commit of every owner sees to that. Behind the file itself they cost
            little: a file system writes its journal once.
    """

    def __init__(self, fd: int, end: int, folders: Sequence[Path] = ()) -> None:
        self._fd, self._folders = fd, list(folders)
        self._begin = self._end = end  # of the last commit
        self._size = end  # of the file, with the room behind it

    @property
    def is_nameless(self) -> bool:
        """Whether a power cut could take its name with it."""
        return bool(self._folders)

    def write(self, lines: bytes) -> None:
        """Hand *lines*, whole and ended by a newline, to the system as one commit.

        Raises:
            OSError: If there is no room on the disk, or it fails.
        """
        commit = (b"" if self._end else HEAD) + lines[:-1] + MARK + b"\n"
        self._begin, end = self._end, self._end + len(commit)
        _write_all(self._fd, commit, self._begin)
        if end > self._size:
            self._size = end
            with contextlib.suppress(OSError):  # a disk that has no more than the commit needs
                self._size += os.pwrite(self._fd, ROOM * min(max(end, _LEAST_ROOM), _MOST_ROOM), end)
        self._end = end

    def start(self) -> None:
        """Set the disk to work on the last commit, where the system lets itself be asked to.

        Linux begins to write the pages that somebody says he will not need again; those of which only a part is named
        it keeps all the same.
        """
        try:
            os.posix_fadvise(self._fd, self._begin, self._end - self._begin, os.POSIX_FADV_DONTNEED)
        except (AttributeError, OSError):
            return  # not every system has it; what is wrong with the disk, `finish` hears of

    def finish(self) -> None:
        """Return once the last commit would survive a power cut.

        Raises:
            OSError: If the disk fails.
        """
        sync_data(self._fd)
        while self._folders:
            sync_folder(self._folders[-1])
            self._folders.pop()

    def take_room_away(self) -> None:
        """Cut off what lies behind the last commit."""
        if self._size > self._end:
            with contextlib.suppress(OSError):  # it does no harm
                os.ftruncate(self._fd, self._end)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def _write_all(fd: int, data: bytes, at: int) -> None:
    written = os.pwrite(fd, data, at)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], at + written)
