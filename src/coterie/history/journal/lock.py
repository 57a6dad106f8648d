"""The lock of a run: the process that owns the run holds it until it ends.

The operating system frees the lock whenever the process ends, so process ids are never compared. Programs that the
process starts do not inherit the descriptor, and its forks close it, so no agent can keep a run owned.
"""

import contextlib
import errno
import os
import time
import weakref
from pathlib import Path

from coterie.base import files
from coterie.errors import Fenced, JournalFailed, RunIsOwned

try:
    import fcntl
except ImportError:  # not Unix: a claim is refused with this reason
    fcntl = None  # type: ignore[assignment]

_TRIES = 20
"""How many checks must find an owner: a program that a killed owner was just starting has its lock for a moment."""
_PATIENCE = 10.0
"""Seconds to wait for other processes that only check the lock."""
_PAUSE = 0.005
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""The errors of file systems without locks, on which no run has an owner."""
_HELD: "weakref.WeakSet[RunLock]" = weakref.WeakSet()


class RunLock:
    """Holds the lock on *path* until `release`.

    Raises:
        RunIsOwned: If a living process, possibly this one, holds it.
        JournalFailed: If the file system cannot lock files, since two owners would then be possible.
    """

    def __init__(self, run: str, path: Path) -> None:
        self._run, self._path = run, path
        _HELD.add(self)
        self._fd = files.open_fd(path, os.O_RDWR | os.O_CREAT)
        try:
            if not _acquire(run, path, self._fd):
                raise RunIsOwned(run, str(path))
            if not is_held(path):
                raise JournalFailed(run, _useless(path, "a second lock was granted beside the first"))
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Check that the lock still guards the run.

        Raises:
            Fenced: If its file was removed and another owner created a new one.
            JournalFailed: If its file was removed.
        """
        if os.fstat(self._fd).st_nlink:
            return
        if is_held(self._path):
            raise Fenced(self._run)
        raise JournalFailed(self._run, f"its lock {self._path} was removed while the run went on")

    def release(self) -> None:
        """Release the run. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _release_in_child() -> None:
    """A process that a function of a user forks is no owner, though it has a copy of the descriptor."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock on *path*; False without a regular file, or without locks."""
    try:
        fd = files.open_fd(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.EISDIR):
            return False
        raise
    try:
        return not _try_lock(fd, shared=True)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    finally:
        os.close(fd)


def _acquire(run: str, path: Path, fd: int) -> bool:
    """Lock *fd* unless an owner has it; wait for processes that hold it for a moment to check it (`is_held`).

    Such processes use a shared lock; an owner does not.
    """
    until, met = time.monotonic() + _PATIENCE, 0
    while met < _TRIES and time.monotonic() < until:
        try:
            if _try_lock(fd, shared=False):
                return True
            if _try_lock(fd, shared=True):
                fcntl.flock(fd, fcntl.LOCK_UN)
            else:
                met += 1
        except OSError as error:
            raise JournalFailed(run, _useless(path, error.strerror or str(error))) from error
        time.sleep(_PAUSE)
    return False


def _try_lock(fd: int, *, shared: bool) -> bool:
    if fcntl is None:
        raise OSError(errno.ENOSYS, "this system has no flock")
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        return True
    return False


def _useless(path: Path, why: str) -> str:
    return f"file locks do not work at {path}: {why}; keep the state directory on a local disk"
