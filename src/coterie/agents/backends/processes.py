"""Identify processes, and end all processes that an attempt started.

The kernel reuses pids, so a process is identified by its pid and its start time. The processes of an attempt are found
in four ways, because each alone misses some: by process group, by descent, and by two marks that a process keeps when
it leaves its group and loses its parent: an environment variable (on Linux and macOS) and, on Linux, the soft
value of a resource limit, which survives a cleared environment. The spawner finds a process with
neither parent nor mark (`coterie.agents.backends.agentside.spawner`).

The limit is `RLIMIT_LOCKS`: every process inherits it, and no kernel since 2.4 enforces it. It tells apart attempts
that run at once. Of an attempt whose run was begun within another attempt, `RLIMIT_RSS`, which is not enforced either,
has the mark of that outer attempt. A program can set the mark of another attempt, and kill the spawner: only a sandbox
confines one that is hostile.

psutil is not used: its start times move with the system clock, whereas journals need an identity that a later process
can compare, and its scan of all processes takes about three times as long.
"""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from types import MappingProxyType

from coterie.agents.backends import process_table, spawner_client
from coterie.agents.backends.agentside import spawner
from coterie.agents.backends.agentside.spawner import MARK as MARK
from coterie.agents.backends.base import Launched
from coterie.agents.backends.process_table import Moment, Process

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""


_KILL_SECONDS = 5.0
"""Seconds for which SIGKILL is repeated. A process that is left then hangs in the kernel and runs no user code."""

_LookUp = Callable[[int], Process | None]
_RLIMIT_LOCKS, _RLIMIT_RSS = 10, 5  # the `resource` module has no name for the first
_HALF_BITS = 31
"""The number of bits in a mark for the run, and for the attempt."""
_TAG = spawner.TAG


def finds_hidden() -> bool:
    """Whether a process that hides from its attempt is found on this machine, by a trial."""
    words = [sys.executable, "-IS", spawner.__file__, spawner.TRIAL]
    return not subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode


def started(pid: int) -> str:
    """The start time of *pid* as an opaque text for comparison; empty if there is no such process."""
    process = process_table.look_up(pid)
    return process.started if process else ""


def alive(pid: int, started: str) -> bool:
    """Whether the process *pid* with the start time *started* still runs; a zombie does not."""
    process = process_table.look_up(pid)
    return process is not None and not process.dead and process.started == started != ""


def is_stopped(pid: int) -> bool:
    """Whether the process *pid* is stopped by a signal or a debugger."""
    process = process_table.look_up(pid)
    return process is not None and process.stopped


def marks_for(marker: str) -> dict[int, int]:
    """The soft limits that mark the processes of the attempt *marker*; none if the system has no such limits."""
    if sys.platform != "linux":
        return {}
    import resource

    outer = resource.getrlimit(_RLIMIT_LOCKS)[0]
    return {_RLIMIT_LOCKS: _limit_of(marker)} | ({_RLIMIT_RSS: outer} if spawner.is_mark(outer) else {})


def attempt_of(pid: int, launched: Mapping[int, str] | None = None) -> str | None:
    """Return the marker of the attempt that started the process *pid*: empty if none did, None if it has ended.

    The process and its ancestors, up to this process, are searched for the mark in their environment, and their pids
    and groups are looked up in *launched*, which maps those of known attempts to their markers. The mark in their
    limits is a hash: for an attempt that is not in *launched* it is returned as a hexadecimal number. A process that
    serves one attempt after the other has its own mark: all processes with it belong to the attempt that *launched*
    names for it.
    """
    known, look_up = launched or {}, process_table.looker()
    while pid > 1 and pid != os.getpid():
        if mark := known.get(pid) or _mark_of(pid):
            return mark if mark in known.values() else _served(known, _limit_of(mark), look_up) or mark
        process = look_up(pid)
        if process is None or process.dead:
            return None
        if marker := known.get(process.group):
            return marker
        for limit in _limits_in(process):
            of_limit = (marker for marker in known.values() if _limit_of(marker) == limit)
            return next(of_limit, "") or _served(known, limit, look_up) or f"{limit:x}"
        pid = process.parent
    return None if pid <= 0 else ""


def _served(launched: Mapping[int, str], limit: int, look_up: _LookUp) -> str:
    """The attempt in *launched* served by the process whose own mark is *limit*; empty if there is none."""
    for leader, marker in launched.items():
        process = look_up(leader)
        if process is not None and (limit in _limits_in(process)[:1] or limit == _limit_of(_mark_of(leader))):
            return marker
    return ""


def marks_of(pid: int = 0) -> tuple[str, ...] | None:
    """Return the marks of all attempts in which the process *pid*, by default this one, runs; None if it has ended.

    An operator's process has none. A mark is a marker, or its hash if only a limit has it; the innermost comes first.
    """
    found = [os.environ.get(MARK, ""), *map("{:x}".format, _own_limits())] if not pid else []
    look_up = process_table.looker()
    if pid:
        if (process := look_up(pid)) is None or process.dead:
            return None
        found += map("{:x}".format, _limits_in(process))
    found += _marks_above(look_up, pid or os.getpid(), os.getpid())
    marks: dict[int, str] = {}
    for mark in filter(None, found):
        if (number := _number(mark)) not in marks or "/" in mark:
            marks[number] = mark
    return tuple(marks.values())


def _marks_above(look_up: _LookUp, pid: int, until: int = 0) -> list[str]:
    """The marks in the environments of *pid* and of its ancestors; those of process *until* are looked up once."""
    found: list[str] = []
    while pid > 1 and (process := look_up(pid)) is not None:
        if pid == until:
            return found + _own_marks(pid)
        found.append(_mark_of(pid))
        pid = process.parent
    return found


@cache
def _own_marks(pid: int) -> list[str]:
    return _marks_above(process_table.looker(), pid)


def is_within(marks: Iterable[str], known: Iterable[str]) -> bool:
    """Whether all attempts in *marks* are also in *known*; see `marks_of`."""
    return {_number(mark) for mark in marks} <= {_number(mark) for mark in known}


def activity(launched: Iterable[Launched]) -> tuple[float, frozenset[int]] | None:
    """The CPU seconds and pids of the processes in *launched*, their groups and descendants; None if none is alive."""
    every = list(process_table.snapshot())
    living = {(process.pid, process.started) for process in every if not process.dead}
    groups = {one.group for one in launched if one.group > 1 and (one.pid, one.started) in living}
    found = {process.pid: process for process in every if process.group in groups and not process.dead}
    _add_descendants(found, every)
    return (sum(process.seconds for process in found.values()), frozenset(found)) if found else None


def any_alive(marker: str, launched: Iterable[Launched]) -> bool:
    """Whether any process of *launched*, or any process with *marker* in its environment or limits, is alive."""
    if any(alive(process.pid, process.started) for process in launched):
        return True
    if not marker:
        return False
    mark = _Mark(marker)
    return any(not process.dead and mark.is_on(process) for process in process_table.snapshot())


async def end_group(group: int, marker: str = "", *, grace: float = GRACE, since: Moment | None = None) -> list[int]:
    """End every process of *group* with its descendants and, given a *marker*, every process that carries it.

    Sends SIGTERM, and SIGKILL after *grace* seconds. Returns the pids, in the order found, when no process is left.
    This process and its ancestors are never ended.

    Args:
        since: A moment before the first of them was started; otherwise all processes of the machine are inspected.
    """
    if _is_empty(group) and not marker:
        return []
    return await _end(_ProcessTree(groups={group}, markers=[marker], since=since), grace)


async def family_of(leader: int, marker: str, *, since: Moment | None = None) -> dict[int, str]:
    """The start times, by pid, of the process *leader*, its group, its descendants, and all that carry *marker*."""
    family = _ProcessTree(groups={leader}, markers=[marker], since=since)
    await family.search()
    return family.known


async def end_others(
    leader: int, markers: Sequence[str], kept: Mapping[int, str], *, grace: float = GRACE, since: Moment | None = None
) -> list[int]:
    """As `end_group`, with several *markers*, except for the processes *kept* (start time by pid), which continue."""
    return await _end(_ProcessTree(groups={leader}, markers=markers, kept=kept, since=since), grace)


async def end_orphans(
    marker: str,
    launched: Iterable[Launched],
    *,
    spared: Sequence[str] = (),
    grace: float = GRACE,
    since: Moment | None = None,
) -> list[int]:
    """End the processes left by attempts whose owner died, and return their pids.

    These are the group of each process in *launched* whose start time still matches (another process with the same pid
    is not touched), its descendants, and every process of this user with *marker*. Processes with one of the markers
    *spared*, and their descendants, are not touched.
    """
    known = [process for process in launched if alive(process.pid, process.started)]
    family = _ProcessTree(
        groups={process.group for process in known},
        markers=[marker],
        roots={process.pid: process.started for process in known},
        spared=spared,
        since=since,
    )
    return await _end(family, grace)


async def _end(family: "_ProcessTree", grace: float) -> list[int]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    pause = 0.001
    while await _search(family) and loop.time() < deadline + _KILL_SECONDS:
        if loop.time() < deadline:
            family.terminate()
        else:
            family.kill()
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)
    if family.has_marks:
        await spawner_client.sweep()
    return list(family.known)


async def _search(family: "_ProcessTree") -> bool:
    try:
        return await family.search()
    except OSError:  # no descriptor is left to read /proc; ending groups needs none
        family.kill_groups({group for group in family.groups if group != os.getpgrp()})
        raise


class _Mark:
    """Recognizes processes that carry *marker*."""

    def __init__(self, marker: str) -> None:
        # The variable as the kernel stores it, between its neighbours in the environment.
        self._variable = f"\0{MARK}={marker}{'' if marker.endswith('/') else chr(0)}".encode()
        self._shift = 0 if marker.partition("/")[2] else _HALF_BITS
        self._limit = _limit_of(marker) >> self._shift

    def is_on(self, process: Process) -> bool:
        """Whether *process* carries it in its environment or its limits."""
        if any(limit >> self._shift == self._limit for limit in _limits_in(process)):
            return True
        return self._variable in b"\0" + process_table.environment(process.pid) + b"\0"


class _ProcessTree:
    """The processes to end: those found so far, and the search for new ones.

    Of a group that contains this process or an ancestor, only the root and its descendants are ended.

    Args:
        kept: The start times, by pid, of processes that are not ended; their descendants are.
        since: A moment before the first of them was started; None: unknown.
    """

    def __init__(
        self,
        groups: Collection[int],
        markers: Sequence[str],
        roots: dict[int, str] | None = None,
        spared: Sequence[str] = (),
        kept: Mapping[int, str] = MappingProxyType({}),
        since: Moment | None = None,
    ) -> None:
        self.known: dict[int, str] = {}
        """Start time by pid of all processes found, in that order."""
        self.groups = {group for group in groups if group > 1}
        self._marks = [_Mark(marker) for marker in markers if marker]
        self._kept, self._kept_groups, self._since = kept, set[int](), since
        self._roots = roots or {}
        self._spared = [_Mark(each) for each in spared]
        self._terminated: set[int] = set()
        self._out_of_reach: set[int] = set()
        self._living: list[Process] = []

    @property
    def has_marks(self) -> bool:
        """Whether they are all processes of an attempt."""
        return bool(self._marks)

    async def search(self) -> bool:
        """Scan the processes; return whether any is left to end."""
        table = {process.pid: process for process in await process_table.all_processes(self._since)}
        own = _with_ancestors(os.getpid(), table)
        self.groups -= {os.getpgrp(), *(table[pid].group for pid in own if pid in table)}
        candidates = [p for p in table.values() if not p.dead and p.pid not in own | self._out_of_reach]
        if self._spared:
            spared = {p.pid: p for p in candidates if any(mark.is_on(p) for mark in self._spared)}
            _add_descendants(spared, candidates)
            candidates = [p for p in candidates if p.pid not in spared]
        found = {process.pid: process for process in candidates if self._belongs(process)}
        if self._marks:
            for n, process in enumerate(candidates, 1):
                if process.pid not in found and any(mark.is_on(process) for mark in self._marks):
                    found[process.pid] = process
                if n % process_table.AT_ONCE == 0:
                    await asyncio.sleep(0)
        _add_descendants(found, candidates)
        kept = [found.pop(pid) for pid, began in self._kept.items() if pid in found and found[pid].started == began]
        self._kept_groups = {process.group for process in kept}
        self._living = list(found.values())
        self.known |= {process.pid: process.started for process in self._living}
        return bool(found)

    def terminate(self) -> None:
        """Send SIGTERM to each process that has not received it yet.

        A process that runs others in a new pid namespace, as a sandbox does, ends once they have ended: SIGTERM to it
        would kill them at once.
        """
        new = [process for process in self._living if process.pid not in self._terminated]
        outer = {process.parent for process in new if process_table.is_init(process.pid)}
        self._terminated |= {process.pid for process in new}
        for process in new:
            if process.pid not in outer:
                self._signal(process, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL; to whole groups first, which no fork can escape."""
        self.kill_groups({process.group for process in self._living})
        for process in self._living:
            self._signal(process, signal.SIGKILL)

    def kill_groups(self, living: Collection[int]) -> None:
        """Send SIGKILL to the groups in *living*."""
        for group in self.groups.intersection(living) - self._kept_groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def _belongs(self, process: Process) -> bool:
        return process.group in self.groups or process.started in (
            self.known.get(process.pid),
            self._roots.get(process.pid),
        )

    def _signal(self, process: Process, number: signal.Signals) -> None:
        if not alive(process.pid, process.started):
            return
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:  # it now runs as another user
            self._out_of_reach.add(process.pid)


def _with_ancestors(pid: int, table: dict[int, Process]) -> set[int]:
    line = {1}
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].parent
    return line


def _add_descendants(found: dict[int, Process], candidates: Iterable[Process]) -> None:
    children: dict[int, list[Process]] = {}
    for process in candidates:
        children.setdefault(process.parent, []).append(process)
    unseen = list(found)
    while unseen:
        for child in children.get(unseen.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                unseen.append(child.pid)


def _is_empty(group: int) -> bool:
    """Whether *group* has no members, zombies included, by one system call."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _mark_of(pid: int) -> str:
    """The marker in the environment of *pid*; empty if there is none or it cannot be read."""
    _, found, rest = (b"\0" + process_table.environment(pid)).partition(f"\0{MARK}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if found else ""


def _limits_in(process: Process) -> list[int]:
    """The marks in the limits of *process*, the innermost attempt first."""
    return spawner.marks_in(process_table.read(f"{process.pid}/limits"))


def _own_limits() -> list[int]:
    """The marks in the limits of this process."""
    if sys.platform != "linux":
        return []
    import resource

    values = [resource.getrlimit(limit)[0] for limit in (_RLIMIT_LOCKS, _RLIMIT_RSS)]
    return list(filter(spawner.is_mark, values))


@lru_cache
def _limit_of(marker: str) -> int:
    """The value of a limit for *marker*: one half identifies its root run, the other the attempt."""
    return _TAG | _digits(marker.partition("/")[0]) << _HALF_BITS | _digits(marker)


def _number(mark: str) -> int:
    """The value of a limit for *mark*, a marker or its hash."""
    with suppress(ValueError):
        return int(mark, 16)
    return _limit_of(mark)


def _digits(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4]) >> 32 - _HALF_BITS
