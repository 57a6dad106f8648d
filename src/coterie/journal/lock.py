"""Who owns a run: one process, which holds a lock on a file for its life.

The kernel frees the lock when the process ends, however it ends, so no process id is ever compared. The descriptor is
closed in programs that the process starts: no agent of a run can keep it owned.
"""

import contextlib
import errno
import os
import time
from pathlib import Path

from coterie import files
from coterie.errors import Fenced, JournalFailed, RunIsOwned

try:
    import fcntl
except ImportError:  # no Unix: a claim is refused with that reason
    fcntl = None  # type: ignore[assignment]

_TRIES = 20
"""How often an owner is met until it counts: a program that a killed owner was starting has its lock for a moment."""
_PATIENCE = 10.0
"""Seconds to wait for others that only look."""
_PAUSE = 0.005


class RunLock:
    """The lock on *path*, from now until `release`.

    Raises:
        RunIsOwned: If a living process holds it, this one included.
        JournalFailed: If the file system cannot lock files: without that, two owners could not be distinguished.
    """

    def __init__(self, run: str, path: Path) -> None:
        self._run, self._path = run, path
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
        """Make sure that the lock still guards the run.

        Raises:
            Fenced: If its file was removed and another owner made a new one.
            JournalFailed: If its file was removed.
        """
        if os.fstat(self._fd).st_nlink:
            return
        if is_held(self._path):
            raise Fenced(self._run)
        raise JournalFailed(self._run, f"its lock {self._path} was removed while the run went on")

    def release(self) -> None:
        """Give the run up. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock on *path*; False when there is no regular file."""
    try:
        fd = files.open_fd(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.EISDIR):
            return False
        raise
    try:
        return not _try_lock(fd, shared=True)
    finally:
        os.close(fd)


def _acquire(run: str, path: Path, fd: int) -> bool:
    """Lock *fd* unless an owner has it; someone who only looks (`is_held`) has it for a moment, and is waited for.

    Those who look share the lock with us, an owner does not.
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
