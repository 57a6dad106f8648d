"""Which process is which, and how everything that an attempt started is ended.

A pid names nobody: the kernel gives it out again. Together with the time the kernel started it, it does. What an
attempt started is found in three ways, because each alone misses some: by its process group, by descent, and (where
there is a `/proc`) by the mark in its environment, which also a process that left the group and lost its parent
carries. Only one that did all three escapes: left the group, lost its parent, and cleared its environment.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from coterie.backends.base import Launched

GRACE = 5.0
"""Seconds between asking a process to end (SIGTERM) and making it (SIGKILL)."""

MARK = "COTERIE_ATTEMPT_ID"
"""The environment variable by which the processes of an attempt are known: `<run>/<turn>.<attempt>`.

Wherever a marker is asked for, one that ends in `/` stands for every attempt of that run and of its child runs.
"""

_KILLING = 5.0
"""Seconds of SIGKILL. Who is left then hangs in the kernel and never again runs code of its own."""

_HAS_PROC = os.path.exists("/proc/self/stat")
_AT_ONCE = 50
"""Processes looked at before the event loop gets its turn."""


def started(pid: int) -> str:
    """When the kernel started *pid*, as a text that is only good for comparing; empty when there is no such process."""
    process = _look_up(pid)
    return process.started if process else ""


def alive(pid: int, started: str) -> bool:
    """Whether *pid* runs and is the process that was started at *started*; a zombie is dead."""
    process = _look_up(pid)
    return process is not None and not process.dead and process.started == started != ""


async def end_group(group: int, marker: str = "", *, grace: float = GRACE) -> list[int]:
    """End every process of *group* with its descendants and, given a *marker*, every process that carries it.

    They are asked with SIGTERM and after *grace* seconds made with SIGKILL. Returns when none is left, with the pids
    in the order found. This process and its ancestors are never among them.
    """
    if not marker and _is_empty(group):
        return []
    return await _end(_Family(groups={group}, marker=marker), grace)


async def end_orphans(marker: str, launched: Iterable[Launched], *, grace: float = GRACE) -> list[int]:
    """End what still lives of attempts whose owner died, and return the pids.

    That is the group of each of *launched* whose start time still matches (a namesake is left alone), its
    descendants, and every process of this user that carries *marker*.
    """
    known = [process for process in launched if alive(process.pid, process.started)]
    family = _Family(
        groups={process.group for process in known},
        marker=marker,
        roots={process.pid: process.started for process in known},
    )
    return await _end(family, grace)


async def _end(family: "_Family", grace: float) -> list[int]:
    loop = asyncio.get_running_loop()
    patience = loop.time() + grace
    pause = 0.001
    while await _search(family) and loop.time() < patience + _KILLING:
        if loop.time() < patience:
            family.terminate()
        else:
            family.kill()
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)
    return list(family.known)


async def _search(family: "_Family") -> bool:
    try:
        return await family.search()
    except OSError:  # no descriptor to read /proc with: end at least the groups, which takes none
        family.kill_groups({group for group in family.groups if group != os.getpgrp()})
        raise


class _Process(NamedTuple):
    pid: int
    parent: int
    group: int
    dead: bool
    started: str


class _Family:
    """The processes to end: who is known so far, and how to find those born since.

    A group that holds this process or an ancestor is not taken as a whole, only its root and descendants.
    """

    def __init__(self, groups: Collection[int], marker: str, roots: dict[int, str] | None = None) -> None:
        self.known: dict[int, str] = {}
        """Pid and start time of all that were found, in that order."""
        self.groups = {group for group in groups if group > 1}
        self._mark = _as_stored(marker) if marker and _HAS_PROC else b""
        self._roots = roots or {}
        self._asked: set[int] = set()
        self._out_of_reach: set[int] = set()
        self._living: list[_Process] = []

    async def search(self) -> bool:
        """Look through all processes; whether any is left to end."""
        table = {process.pid: process for process in await _all_processes()}
        spared = _with_ancestors(os.getpid(), table)
        self.groups -= {table[pid].group for pid in spared if pid in table}
        candidates = [p for p in table.values() if not p.dead and p.pid not in spared | self._out_of_reach]
        found = {process.pid: process for process in candidates if self._belongs(process)}
        if self._mark:
            for n, process in enumerate(candidates, 1):
                if process.pid not in found and _carries(process.pid, self._mark):
                    found[process.pid] = process
                if n % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        _add_descendants(found, candidates)
        self._living = list(found.values())
        self.known |= {process.pid: process.started for process in self._living}
        return bool(found)

    def terminate(self) -> None:
        """Ask whoever was not asked yet."""
        for process in self._living:
            if process.pid not in self._asked:
                self._asked.add(process.pid)
                self._signal(process, signal.SIGTERM)

    def kill(self) -> None:
        """Make them end: groups as a whole, since nobody can fork out of that."""
        self.kill_groups({process.group for process in self._living})
        for process in self._living:
            self._signal(process, signal.SIGKILL)

    def kill_groups(self, living: Collection[int]) -> None:
        """End those groups that are among *living* as a whole."""
        for group in self.groups.intersection(living):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def _belongs(self, process: _Process) -> bool:
        return process.group in self.groups or process.started in (
            self.known.get(process.pid),
            self._roots.get(process.pid),
        )

    def _signal(self, process: _Process, number: signal.Signals) -> None:
        if not alive(process.pid, process.started):
            return
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:  # it changed its user
            self._out_of_reach.add(process.pid)


def _with_ancestors(pid: int, table: dict[int, _Process]) -> set[int]:
    line = {1}
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].parent
    return line


def _add_descendants(found: dict[int, _Process], candidates: Iterable[_Process]) -> None:
    children: dict[int, list[_Process]] = {}
    for process in candidates:
        children.setdefault(process.parent, []).append(process)
    unseen = list(found)
    while unseen:
        for child in children.get(unseen.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                unseen.append(child.pid)


def _is_empty(group: int) -> bool:
    """Whether *group* has no members at all, zombies included: one system call."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _look_up(pid: int) -> _Process | None:
    return _from_proc(pid) if _HAS_PROC else next(_from_ps("-p", str(pid)), None)


async def _all_processes() -> list[_Process]:
    if not _HAS_PROC:
        return list(_from_ps("-ax"))
    processes = []
    for n, name in enumerate(os.listdir("/proc"), 1):
        if name.isdecimal() and (process := _from_proc(int(name))):
            processes.append(process)
        if n % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return processes


def _from_proc(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the name in brackets, and may itself hold brackets and blanks: count from its end.
    state, parent, group, *others = stat[stat.rindex(b")") + 1 :].split()
    return _Process(pid, int(parent), int(group), state in (b"Z", b"X"), others[16].decode())


def _from_ps(*which: str) -> Iterator[_Process]:
    lines = subprocess.run(
        ["ps", *which, "-o", "pid=,ppid=,pgid=,stat=,lstart="],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C", "TZ": "UTC"},
    ).stdout.splitlines()
    for line in lines:
        pid, parent, group, state, began = line.split(None, 4)
        yield _Process(int(pid), int(parent), int(group), state.startswith("Z"), " ".join(began.split()))


def _as_stored(marker: str) -> bytes:
    """How the variable stands between its neighbours in the environment of a process."""
    end = "" if marker.endswith("/") else "\0"
    return f"\0{MARK}={marker}{end}".encode()


def _carries(pid: int, mark: bytes) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in b"\0" + file.read() + b"\0"
    except OSError:  # it ended meanwhile, or may not be read
        return False
