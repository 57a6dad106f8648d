"""What Python reports of its own calls into the system: files opened, folders listed, programs started."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LISTENERS: list[list[tuple[str, str]]] = []


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _LISTENERS and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | os.PathLike):
        for one in _LISTENERS:
            one.append((event, os.path.abspath(os.fspath(arguments[0]))))


sys.addaudithook(_heard)  # it cannot be removed, and does nothing while nobody listens


@contextmanager
def audited() -> Iterator[list[tuple[str, str]]]:
    """The calls of the block in all threads, each with the absolute path of its file or folder."""
    calls = list[tuple[str, str]]()
    _LISTENERS.append(calls)
    try:
        yield calls
    finally:
        _LISTENERS[:] = [one for one in _LISTENERS if one is not calls]


def listings(calls: list[tuple[str, str]], folder: str | os.PathLike[str]) -> int:
    """How often *folder* was listed in *calls*."""
    return sum(event != "open" and path == os.path.abspath(folder) for event, path in calls)
