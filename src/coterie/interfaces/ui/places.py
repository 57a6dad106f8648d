"""The places of the runs that the page shows, the keys by which addresses name runs, and their threads."""

import hashlib
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from coterie.errors import NoSuchRun, UsageError
from coterie.execution.runs.index import Entry
from coterie.execution.runs.repository import LocalRuns, RunLocation, Runs, find
from coterie.execution.runs.threads import ThreadMessage, ThreadRow, listed, messages, named


class ServedRun(Struct, frozen=True, kw_only=True):
    """A root run that the page can show.

    Attributes:
        key: The run's name in addresses: its id, and if other runs have the same id, `~` and a mark of its folder.
        option: The option with which a command finds it, after a blank.
    """

    key: str
    runs: Runs
    run: str
    option: str = ""

    def about(self) -> dict[str, Any]:
        """Information for the page that is not in the journal."""
        return {"key": self.key, "run": self.run, "option": self.option, "folder": str(self.runs.folder(self.run))}


class ServedMessage(ThreadMessage, frozen=True, kw_only=True):
    """A message of a thread; *key* names its run in addresses."""

    key: str


class ServedThread(Struct, frozen=True, kw_only=True):
    """A thread with its latest messages, oldest first; *of* is the number of all, *option* as in `ServedRun`."""

    name: str
    option: str
    messages: list[ServedMessage]
    of: int


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

    def threads(self) -> list[ThreadRow]:
        """The threads of the working directory, as `coterie threads` has them; a cluster has none."""
        return listed(self._local.state_dir)

    def thread(self, name: str, most: int) -> ServedThread:
        """The thread *name* of the working directory, with its latest *most* messages.

        Raises:
            UsageError: If there is none.
        """
        home = self._local
        thread, option = named(home.state_dir, name), home.option
        ids = Counter({entry.folder: entry.run for _, entry in self.entries()}.values())

        def served(one: ThreadMessage) -> ServedMessage:
            key = key_of(one.run, os.path.realpath(thread.folder(one.run)), is_shared=ids[one.run] > 1)
            return ServedMessage(**structs.asdict(one), key=key)

        found = [served(one) for one in messages(thread, most)]
        is_elsewhere = option.startswith(" --state-dir")
        total = len([*thread.newest()])
        return ServedThread(name=name, option=option if is_elsewhere else "", messages=found, of=total)

    @property
    def _local(self) -> LocalRuns:
        """The runs of this machine."""
        return next(home for home in self.homes if isinstance(home, LocalRuns))


def key_of(run: str, folder: str, *, is_shared: bool) -> str:
    """The key of the run *run* in *folder*."""
    return f"{run}~{mark_of(folder)}" if is_shared else run


def mark_of(folder: str | Path) -> str:
    """A few letters that distinguish *folder* from others."""
    return hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:8]
