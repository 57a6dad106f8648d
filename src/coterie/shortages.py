"""Recognise errors that say that the machine lacks something: the run stops, and can be resumed."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from coterie.errors import GitFailed, Shortage

_LACKS = tuple(
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM") if hasattr(errno, name)
)


def shortage(error: BaseException | None, *, starting: bool = False) -> str:
    """The missing resource, if *error* or one of its causes reports a shortage; otherwise empty.

    Args:
        starting: A process was being started, so EAGAIN means that the limit of processes is reached.
    """
    while error is not None:
        match error:
            case Shortage(lacks=lacks):
                return lacks
            case MemoryError():
                return os.strerror(errno.ENOMEM)
            case GitFailed(said=said) if any(os.strerror(number) in said for number in _LACKS):
                return str(error)
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
