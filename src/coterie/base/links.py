"""Names of files where the file system may have no hard or symbolic links, as exFAT and some network drives."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""The errors of file systems without hard links, or without symbolic ones."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of *folder*, so that two processes agree on a name without a link."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def give_name(source: Path, target: Path) -> None:
    """Let the file *source* be known as *target*, too; without hard links, by a copy.

    Raises:
        FileExistsError: If *target* exists.
    """
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with open(source, "rb") as old, open(target, "xb") as new:
            new.write(old.read())


@cache
def has_symbolic(folder: Path) -> bool:
    """Whether the file system of *folder* has symbolic links; this is tried once."""
    trial = folder / f".link-{os.getpid()}"
    try:
        trial.symlink_to("nowhere")
    except OSError as error:
        return error.errno not in NO_LINKS
    finally:
        with suppress(OSError):
            trial.unlink()
    return True
