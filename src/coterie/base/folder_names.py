"""The names in folders that matter to a reader, found again only once a folder has changed."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from coterie.base.file_fingerprint import SETTLED

_MOST = 256
"""Folders that are remembered; beyond that the one that was remembered first is forgotten."""


class FolderNames:
    """The names in folders for which *wanted* holds.

    A folder is listed again if its times say that an entry was added, renamed or removed. One that changed shortly
    before it was listed may change again without a trace in its times, so it is listed each time.

    Args:
        now: Reads the wall clock, in nanoseconds.
    """

    def __init__(self, wanted: Callable[[str], bool], now: Callable[[], int] = time.time_ns) -> None:
        self._wanted, self._now = wanted, now
        self._known: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}

    def of(self, folder: str | Path) -> tuple[str, ...]:
        """The wanted names in *folder*, sorted.

        Raises:
            OSError: If it cannot be listed.
        """
        place, began, status = os.path.abspath(folder), self._now(), os.stat(folder)
        mark = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known, names = self._known.get(place, (None, ()))
        if known != mark:
            names = tuple(sorted(filter(self._wanted, os.listdir(folder))))
            self._known.pop(place, None)
            if status.st_ctime_ns < began - SETTLED:
                self._known[place] = mark, names
                if len(self._known) > _MOST:
                    del self._known[next(iter(self._known))]
        return names
