"""The lock for changing a repository: one process at a time, and never while a git of a killed caller still runs.

Git inherits the lock and keeps it until it ends, even if its caller is killed, so the next owner of the run never sees
a half-made work tree or branch.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from coterie.errors import GitFailed
from coterie.waits import waiting

TIMEOUT = 600.0
"""Seconds to wait for the lock."""
_PAUSE = 0.02

_held: ContextVar[int | None] = ContextVar("held", default=None)
"""The descriptor of the lock that is held in this context."""


@contextmanager
def locked(common: Path) -> Iterator[None]:
    """Hold the lock of the repository with the shared git folder *common*; may be nested.

    Raises:
        GitFailed: If another process holds it longer than `TIMEOUT`.
    """
    held = _held.get()
    with (common / "coterie.lock").open("w") as file:
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
