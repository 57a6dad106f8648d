"""Identify processes, and end all those that an attempt started.

The kernel reuses pids, so a process is identified by its pid and its start time. The processes of an attempt are found
in four ways, because each alone misses some: by process group, by descent, and by two marks that a process keeps when
it leaves its group and loses its parent: an environment variable (where there is a `/proc`) and, on Linux, the soft
value of a resource limit, which survives a cleared environment.

The limit is `RLIMIT_LOCKS`: every process inherits it, and no kernel since 2.4 enforces it. Unlike a subreaper or a
cgroup it needs no privilege, changes nothing for the program that embeds this package, and tells apart attempts that
run at once. Of an attempt whose run was begun within another attempt, `RLIMIT_RSS`, which is not enforced either, has
the mark of that outer attempt. A program can raise a soft limit again: the marks show what a process is, and only a
sandbox keeps in one that hides it.

psutil is not used: its start times move with the system clock, whereas journals need an identity that a later process
can compare, and its scan of all processes takes about three times as long.
"""

import asyncio
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from types import MappingProxyType

from coterie.backends import process_table
from coterie.backends.base import Launched
from coterie.backends.process_table import Process

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""

MARK = "COTERIE_ATTEMPT_ID"
"""The environment variable that marks the processes of an attempt: `<run>/<turn>.<attempt>`.

A marker that ends in `/` matches every attempt of that run and of its child runs.
"""

_KILL_SECONDS = 5.0
"""Seconds in which SIGKILL is repeated. A process that is left then hangs in the kernel and runs no more user code."""

_STARTS = threading.Lock()
"""Held while a process is started with a mark, or must be started without one."""
_RLIMIT_LOCKS, _RLIMIT_RSS = 10, 5  # the `resource` module has no name for the first
_LIMITS = (b"Max file locks", b"Max resident set")
"""The limits that carry marks, as `/proc` names them: that of the attempt, and that of the attempt around it."""
_HALF_BITS = 31
"""Bits of a mark for the run, and as many for the attempt."""
_TAG = 1 << 2 * _HALF_BITS
"""Set in each mark: a lower limit is one that a user has set."""
_SCANS = 10
"""Repeated scans for new processes while some of them end."""


def started(pid: int) -> str:
    """The start time of *pid* as an opaque text, to be compared only; empty if there is no such process."""
    process = process_table.look_up(pid)
    return process.started if process else ""


def alive(pid: int, started: str) -> bool:
    """Whether *pid* is the process that was started at *started* and still runs; a zombie does not."""
    process = process_table.look_up(pid)
    return process is not None and not process.dead and process.started == started != ""


@contextmanager
def marked(marker: str) -> Iterator[None]:
    """Mark the processes that are started within with *marker*, by a resource limit, where the system allows it.

    The limit applies to this whole process, so nothing may be awaited within. Another thread starts a process that is
    not an attempt's within `unmarked`. One that a user's thread starts at the same moment differs from those of an
    attempt in its session and its parent; what that one starts in turn does not.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    with _STARTS:
        before = {limit: resource.getrlimit(limit) for limit in (_RLIMIT_LOCKS, _RLIMIT_RSS)}
        marks = {_RLIMIT_LOCKS: _limit_of(marker)}
        if _is_mark(outer := before[_RLIMIT_LOCKS][0]):
            marks[_RLIMIT_RSS] = outer
        for limit, mark in marks.items():
            with suppress(ValueError, OSError):  # a lower hard limit: only the environment is marked
                resource.setrlimit(limit, (mark, before[limit][1]))
        try:
            yield
        finally:
            for limit, values in before.items():
                resource.setrlimit(limit, values)


def unmarked() -> threading.Lock:
    """The lock under which no thread is within `marked`: a process that is started there bears no attempt's mark."""
    return _STARTS


def attempt_of(pid: int, launched: Mapping[int, str] | None = None) -> str | None:
    """Return the marker of the attempt that started the process *pid*: empty if none did, None if it has ended.

    The process and its ancestors, up to this process, are searched for the mark in their environment, and their pids
    and groups are looked up in *launched*, which maps those of known attempts to their markers. The mark in their
    limits is a hash: that of an attempt which is not in *launched* is returned as a hexadecimal number. A process that
    serves one attempt after the other has its own mark: whatever carries it belongs to the attempt that *launched*
    names for it.
    """
    known = launched or {}
    while pid > 1 and pid != os.getpid():
        if mark := known.get(pid) or _mark_of(pid):
            return mark if mark in known.values() else _served(known, _limit_of(mark)) or mark
        process = process_table.look_up(pid)
        if process is None or process.dead:
            return None
        if marker := known.get(process.group):
            return marker
        for limit in _limits_in(process):
            of_limit = (marker for marker in known.values() if _limit_of(marker) == limit)
            return next(of_limit, "") or _served(known, limit) or f"{limit:x}"
        pid = process.parent
    return None if pid <= 0 else ""


def _served(launched: Mapping[int, str], limit: int) -> str:
    """The attempt in *launched* that is served by a process whose own mark is *limit*; empty if there is none."""
    return next((marker for leader, marker in launched.items() if _limit_of(_mark_of(leader)) == limit), "")


def marks_of(pid: int = 0) -> tuple[str, ...] | None:
    """Return the marks of all attempts in which the process *pid*, by default this one, runs; None if it has ended.

    That of an operator has none. A mark is a marker, or its hash if only a limit has it; the innermost comes first.
    Without `/proc`, only the environment of this process is known.
    """
    found = [os.environ.get(MARK, ""), *map("{:x}".format, _own_limits())] if not pid else []
    if pid:
        if (process := process_table.look_up(pid)) is None or process.dead:
            return None
        found += map("{:x}".format, _limits_in(process))
    found += _marks_above(pid or os.getpid(), os.getpid())
    marks: dict[int, str] = {}
    for mark in filter(None, found):
        if (number := _number(mark)) not in marks or "/" in mark:
            marks[number] = mark
    return tuple(marks.values())


def _marks_above(pid: int, until: int = 0) -> list[str]:
    """The marks in the environments of *pid* and of its ancestors; those of process *until* are looked up once."""
    found: list[str] = []
    while process_table.HAS_PROC and pid > 1 and (process := process_table.look_up(pid)) is not None:
        if pid == until:
            return found + _own_marks(pid)
        found.append(_mark_of(pid))
        pid = process.parent
    return found


@cache
def _own_marks(pid: int) -> list[str]:
    return _marks_above(pid)


def is_within(marks: Iterable[str], known: Iterable[str]) -> bool:
    """Whether all attempts of *marks* are among those of *known*; see `marks_of`."""
    return {_number(mark) for mark in marks} <= {_number(mark) for mark in known}


def activity(launched: Iterable[Launched]) -> tuple[float, frozenset[int]] | None:
    """The CPU seconds of the processes in *launched*, of their groups and descendants, and their pids.

    None if none of them is alive, or where there is no `/proc`.
    """
    if not process_table.HAS_PROC:
        return None
    every = [
        process for name in os.listdir("/proc") if name.isdecimal() and (process := process_table.from_proc(int(name)))
    ]
    groups = {one.group for one in launched if one.group > 1 and alive(one.pid, one.started)}
    found = {process.pid: process for process in every if process.group in groups and not process.dead}
    _add_descendants(found, every)
    if not found:
        return None
    ticks = [field for pid in found for field in process_table.read(pid, "stat").rpartition(b")")[2].split()[11:15]]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), frozenset(found)


def any_alive(marker: str, launched: Iterable[Launched]) -> bool:
    """Whether any process of *launched* is alive, or any that carries *marker* in its environment or limits."""
    if any(alive(process.pid, process.started) for process in launched):
        return True
    if not marker or not process_table.HAS_PROC:
        return False
    mark = _Mark(marker)
    return any(not process.dead and mark.is_on(process) for process in process_table.in_proc())


async def end_group(group: int, marker: str = "", *, grace: float = GRACE, ended: bool = False) -> list[int]:
    """End every process of *group* with its descendants and, given a *marker*, every process that carries it.

    Sends SIGTERM, and SIGKILL after *grace* seconds. Returns the pids, in the order found, when no process is left.
    This process and its ancestors are never ended.

    Args:
        ended: The leader of the group ended by itself shortly after its start. Most likely nothing is left, so only
            the processes started since then are inspected before all are.
    """
    if (
        (ended or not marker)
        and _is_empty(group)
        and not (marker and process_table.HAS_PROC and _may_be_left(group, marker))
    ):
        return []
    return await _end(_ProcessTree(groups={group}, markers=[marker]), grace)


async def family_of(leader: int, marker: str) -> dict[int, str]:
    """The start times, by pid, of the process *leader*, its group, its descendants, and all that carry *marker*."""
    family = _ProcessTree(groups={leader}, markers=[marker])
    await family.search()
    return family.known


async def end_others(
    leader: int, markers: Sequence[str], kept: Mapping[int, str], *, grace: float = GRACE
) -> list[int]:
    """As `end_group`, with several *markers*, but for the processes *kept* (start time by pid), which go on."""
    return await _end(_ProcessTree(groups={leader}, markers=markers, kept=kept), grace)


async def end_orphans(
    marker: str, launched: Iterable[Launched], *, spared: Sequence[str] = (), grace: float = GRACE
) -> list[int]:
    """End the processes left by attempts whose owner died, and return their pids.

    These are the group of each process in *launched* whose start time still matches (another process with the same
    pid is left alone), its descendants, and every process of this user that carries *marker*. Processes that carry one
    of the markers *spared*, and their descendants, are left alone.
    """
    known = [process for process in launched if alive(process.pid, process.started)]
    family = _ProcessTree(
        groups={process.group for process in known},
        markers=[marker],
        roots={process.pid: process.started for process in known},
        spared=spared,
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
    return list(family.known)


async def _search(family: "_ProcessTree") -> bool:
    try:
        return await family.search()
    except OSError:  # no descriptor left to read /proc: ending groups takes none
        family.kill_groups({group for group in family.groups if group != os.getpgrp()})
        raise


class _Mark:
    """Recognizes the processes that carry *marker*."""

    def __init__(self, marker: str) -> None:
        # The variable as the kernel stores it, between its neighbours in the environment.
        self._variable = f"\0{MARK}={marker}{'' if marker.endswith('/') else chr(0)}".encode()
        self._shift = 0 if marker.partition("/")[2] else _HALF_BITS
        self._limit = _limit_of(marker) >> self._shift

    def is_on(self, process: Process) -> bool:
        """Whether *process* carries it in its environment or its limits."""
        if self._variable in b"\0" + process_table.read(process.pid, "environ") + b"\0":
            return True
        return any(limit >> self._shift == self._limit for limit in _limits_in(process))


class _ProcessTree:
    """The processes to end: those found so far, and how to find those started since.

    Of a group that contains this process or an ancestor, only the root and its descendants are ended.

    Args:
        kept: The start times, by pid, of processes that are left alone; their descendants are not.
    """

    def __init__(
        self,
        groups: Collection[int],
        markers: Sequence[str],
        roots: dict[int, str] | None = None,
        spared: Sequence[str] = (),
        kept: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.known: dict[int, str] = {}
        """Start time by pid of all processes found, in that order."""
        self.groups = {group for group in groups if group > 1}
        self._marks = [_Mark(marker) for marker in markers if marker and process_table.HAS_PROC]
        self._kept, self._kept_groups = kept, set[int]()
        self._roots = roots or {}
        self._spared = [_Mark(each) for each in spared]
        self._terminated: set[int] = set()
        self._out_of_reach: set[int] = set()
        self._living: list[Process] = []

    async def search(self) -> bool:
        """Scan all processes; return whether any is left to end."""
        table = {process.pid: process for process in await process_table.all_processes()}
        own = _with_ancestors(os.getpid(), table)
        self.groups -= {table[pid].group for pid in own if pid in table}
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
        """Send SIGTERM to each process that has not had it yet.

        One that runs others in a new pid namespace, as a sandbox does, ends once they have ended: SIGTERM to it would
        kill them at once.
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
        """Send SIGKILL to those groups that are in *living*."""
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
        except PermissionError:  # it runs as another user now
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
    """Whether *group* has no members, zombies included: one system call."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _mark_of(pid: int) -> str:
    """The marker in the environment of *pid*; empty if there is none or it cannot be read."""
    _, found, rest = (b"\0" + process_table.read(pid, "environ")).partition(f"\0{MARK}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if found else ""


def _limits_in(process: Process) -> list[int]:
    """The marks in the limits of *process*, that of the innermost attempt first."""
    if process.session == os.getsid(0) or process.parent == os.getpid() != 1:
        return []  # this process started it, perhaps while another thread started an attempt
    lines = process_table.read(process.pid, "limits")
    values = (lines.partition(name)[2].split(None, 1)[:1] for name in _LIMITS)
    return [int(one[0]) for one in values if one and one[0].isdigit() and _is_mark(int(one[0]))]


def _own_limits() -> list[int]:
    """The marks in the limits of this process."""
    if sys.platform != "linux":
        return []
    import resource

    with _STARTS:
        values = [resource.getrlimit(limit)[0] for limit in (_RLIMIT_LOCKS, _RLIMIT_RSS)]
    return list(filter(_is_mark, values))


def _is_mark(limit: int) -> bool:
    return _TAG <= limit < 2 * _TAG


@lru_cache
def _limit_of(marker: str) -> int:
    """*marker* as the value of a limit: one half identifies its root run, the other the attempt."""
    return _TAG | _digits(marker.partition("/")[0]) << _HALF_BITS | _digits(marker)


def _number(mark: str) -> int:
    """*mark*, a marker or its hash, as the value of a limit."""
    with suppress(ValueError):
        return int(mark, 16)
    return _limit_of(mark)


def _digits(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4]) >> 32 - _HALF_BITS


def _may_be_left(leader: int, marker: str) -> bool:
    """Whether a process that carries *marker* was, or may have been, started after *leader*.

    Pids rise until they wrap around, so only those between *leader* and the last one given out are inspected.
    """
    if not marker or not process_table.HAS_PROC:
        return False
    seen, mark = {leader}, _Mark(marker)
    for _ in range(_SCANS):
        with open("/proc/loadavg", "rb") as file:
            last = int(file.read().split()[-1])
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        new = {pid for pid in pids - seen if (leader < pid <= last if leader <= last else not last < pid <= leader)}
        found = [process_table.from_proc(pid) for pid in new]
        if any(process is not None and not process.dead and mark.is_on(process) for process in found):
            return True
        if None not in found:  # a process that ended meanwhile may have started another
            return False
        seen |= new
    return True
