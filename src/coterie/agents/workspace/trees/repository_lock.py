"""The lock for changing a repository: one process at a time, and never while a git of a killed caller still runs.

Git inherits the lock and keeps it until it ends, even if its caller is killed, so the next owner of the run never sees
a half-made work tree or branch.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from coterie.base import files
from coterie.base.waits import waiting
from coterie.errors import GitFailed

TIMEOUT = 600.0
"""Seconds to wait for the lock."""
_PAUSE = 0.02
_OF_GROUP = 0o660

_held: ContextVar[int | None] = ContextVar("held", default=None)
"""The descriptor of the lock that is held in this context."""


@contextmanager
def locked(common: Path) -> Iterator[None]:
    """Hold the lock of the repository with the shared git folder *common*; may be nested.

    Raises:
        GitFailed: If another process holds it longer than `TIMEOUT`.
    """
    held = _held.get()
    with _opened(common / "coterie.lock") as file:
        if held is not None and os.path.sameopenfile(held, file.fileno()):
            yield
            return
        with waiting(f"another process to release the lock on {common}"):
            _acquire(file.fileno(), common)
        token = _held.set(file.fileno())
        try:
            yield
        finally:
            _held.reset(token)
            fcntl.flock(file, fcntl.LOCK_UN)  # also in programs that git left running


def _opened(path: Path) -> IO[bytes]:
    """Open the file at *path*; a link or a folder that an agent left there is removed first.

    In a repository that the users of a group share, they share the lock.
    """
    flags, is_shared = os.O_RDWR | os.O_CREAT, path.parent.stat().st_mode & stat.S_IWGRP
    try:
        fd = files.open_fd(path, flags, private=not is_shared)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EISDIR):
            raise
        files.remove(path)
        fd = files.open_fd(path, flags, private=not is_shared)
    if is_shared:
        with suppress(PermissionError):  # another one has made it
            os.fchmod(fd, _OF_GROUP)
    return open(fd, "r+b")


def _acquire(lock: int, common: Path) -> None:
    end = time.monotonic() + TIMEOUT
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                reason = f"another process has locked {common} for more than {TIMEOUT:g} s: end it, then try again"
                raise GitFailed(("lock",), 1, reason) from None
            time.sleep(_PAUSE)


def inherited() -> tuple[int, ...]:
    """The descriptors that git must inherit."""
    held = _held.get()
    return () if held is None else (held,)
