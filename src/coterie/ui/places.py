"""Where the runs are that the page shows, and how an address names one of them."""

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie.errors import NoSuchRun, UsageError
from coterie.runs.index import Entry
from coterie.runs.repository import RunLocation, Runs, find


class ServedRun(Struct, frozen=True, kw_only=True):
    """A root run that the page can show.

    Attributes:
        key: Names it in addresses: its id, and if others have the same one, `~` and a mark of its folder.
        option: What a command needs to find it, after a blank.
    """

    key: str
    runs: Runs
    run: str
    option: str = ""

    def about(self) -> dict[str, Any]:
        """What the page says of it that no journal does."""
        return {"key": self.key, "run": self.run, "option": self.option, "folder": str(self.runs.folder(self.run))}


class ServedRuns:
    """The runs of some homes.

    Args:
        homes: The first one is that of the working directory.
    """

    def __init__(self, homes: Sequence[RunLocation]) -> None:
        self.homes = homes

    def entries(self, beginning: str = "") -> Iterator[tuple[RunLocation, Entry]]:
        """Every run of every home."""
        for home in self.homes:
            yield from ((home, entry) for entry in home.newest(everywhere=True, beginning=beginning))

    def find(self, key: str) -> ServedRun:
        """The run that *key* names.

        Raises:
            NoSuchRun: If there is none.
            UsageError: If several runs have this id.
        """
        id, _, mark = key.partition("~")
        found = {entry.folder: (home, entry) for home, entry in self.entries(id) if entry.run == id}
        fitting = {folder: one for folder, one in found.items() if mark in ("", mark_of(folder))}
        if len(fitting) > 1:
            keys = ", ".join(key_of(id, folder, is_shared=True) for folder in fitting)
            raise UsageError(f"several runs have the id {id!r}: {keys}")
        if not fitting:
            if not mark:  # a beginning of an id, or `last`
                for home in self.homes[:1]:
                    runs, run = find(key, home)
                    return ServedRun(key=run, runs=runs, run=run, option=home.option)
            raise NoSuchRun(key)
        [(folder, (home, entry))] = fitting.items()
        runs, run = home.open(entry)
        is_shared = len(found) > 1
        option = f" --state-dir {shlex.quote(str(runs.root))}" if is_shared and runs.is_here else home.option
        return ServedRun(key=key_of(id, folder, is_shared=is_shared), runs=runs, run=run, option=option)


def key_of(run: str, folder: str, *, is_shared: bool) -> str:
    """The key of the run *run* in *folder*."""
    return f"{run}~{mark_of(folder)}" if is_shared else run


def mark_of(folder: str | Path) -> str:
    """A few letters that tell *folder* from others."""
    return hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:8]
