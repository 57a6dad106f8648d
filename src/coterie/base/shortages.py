"""Recognise errors of a machine that lacks something, or whose disk fails: the run stops, and can be resumed."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROBE = 1 << 16
"""Bytes that a disk must take, else it is full."""
_LACKS = tuple(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM", "EIO", "EROFS")
    if hasattr(errno, name)
)


class ReportsShortage(Exception):
    """An error that may report a shortage in its words.

    Attributes:
        lacks: The missing resource, and where; empty: none is missing.
    """

    lacks = ""


def names_shortage(text: str) -> bool:
    """Whether *text*, written by a program, contains the system's words for a missing resource, or git's."""
    return any(os.strerror(number) in text for number in _LACKS) or "Out of diskspace" in text


def shortage(error: BaseException | None, *, starting: bool = False) -> str:
    """The missing resource, if *error* or one of its causes reports a shortage; otherwise empty.

    Args:
        starting: A process was being started, so EAGAIN means that the limit of processes is reached.
    """
    while error is not None:
        match error:
            case ReportsShortage(lacks=str(lacks)) if lacks:
                return lacks
            case MemoryError():
                return os.strerror(errno.ENOMEM)
            case OSError(errno=int(number)) if number in _LACKS or (starting and number == errno.EAGAIN):
                where = f": {error.filename}" if error.filename else ""
                return f"{error.strerror or os.strerror(number)}{where}"
        error = error.__cause__
    return ""


@contextmanager
def suppress_os_errors() -> Iterator[None]:
    """Ignore an `OSError` of the body, unless it reports a shortage."""
    try:
        yield
    except OSError as error:
        if shortage(error):
            raise


def write_shortage(folder: Path) -> str:
    """What a write in *folder* lacks, if one fails: not every program says that the disk is full."""
    import tempfile  # rarely needed

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE))
            file.flush()
    except OSError as error:
        return shortage(error)
    return ""
