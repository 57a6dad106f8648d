"""Whether the files that something was read from are still the same, without opening one of them."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coterie.base.files import NOTED

SETTLED = 3 * 10**9
"""Nanoseconds after a change until the next one surely gets another time: file systems count in up to 2 s."""

_Mark = tuple[int, ...]


class FileFingerprint:
    """The paths that a reading depended on, and their state just before: identity, size and times, or their absence.

    A symbolic link counts with the file that it leads to. Of a folder only its identity and mode count: what is looked
    for in it is noted by itself. A file that changed shortly before the reading may change again without a trace in
    its times, so such a fingerprint is never current.

    Args:
        now: Reads the wall clock, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._marks: dict[str, _Mark] = {}
        self._began = 0
        self._is_settled = self._is_confirmed = False

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Note the files that the block reads, instead of those noted before; `confirm` makes them count."""
        self._marks, self._began, self._is_settled, self._is_confirmed = {}, self._now(), True, False
        token = NOTED.set(self.note)
        try:
            yield
        finally:
            NOTED.reset(token)

    def note(self, path: str) -> None:
        """Note the state of *path*; the first time counts."""
        if path not in self._marks:
            self._marks[path], changed = _mark(path)
            self._is_settled &= changed < self._began - SETTLED

    def confirm(self) -> None:
        """Take what was read from the noted files as the value that is in force."""
        self._is_confirmed = True

    def is_current(self) -> bool:
        """Whether what was read was confirmed, and reading the files again would find the same."""
        if not (self._is_confirmed and self._is_settled):
            return False
        return all(_mark(path)[0] == mark for path, mark in self._marks.items())


def _mark(path: str) -> tuple[_Mark, int]:
    """The state of *path*, and when its content last changed, in nanoseconds."""
    try:
        found = [os.lstat(path)]
        if stat.S_ISLNK(found[0].st_mode):
            found.append(os.stat(path))
    except OSError as error:
        return (error.errno or 0,), 0
    except ValueError:  # not a valid path
        return (), 0
    mark: _Mark = ()
    changed = 0
    for each in found:
        mark += (each.st_dev, each.st_ino, each.st_mode)
        if not stat.S_ISDIR(each.st_mode):
            mark += (each.st_size, each.st_mtime_ns, each.st_ctime_ns)
            changed = max(changed, each.st_ctime_ns)
    return mark, changed
