"""The lock under which a repository is changed: one process at a time, and never beside a git that outlived its caller.

Git inherits the lock. When its caller is killed, git goes on to its end and keeps the lock until then, so the next
owner of the run does not look at a half-made work tree or branch.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_held: ContextVar[int | None] = ContextVar("held", default=None)
"""The descriptor of the lock that is held here."""


@contextmanager
def locked(common: Path) -> Iterator[None]:
    """Hold the lock of the repository whose shared git folder is *common*; may be nested."""
    held = _held.get()
    with (common / "coterie.lock").open("w") as file:
        if held is not None and os.path.sameopenfile(held, file.fileno()):
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        token = _held.set(file.fileno())
        try:
            yield
        finally:
            _held.reset(token)


def inherited() -> tuple[int, ...]:
    """The descriptors that git inherits."""
    held = _held.get()
    return () if held is None else (held,)
