"""The processes of this machine: from `/proc`; on systems without it from `ps`, and from the kernel of macOS."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

HAS_PROC = os.path.exists("/proc/self/stat")
AT_ONCE = 50
"""How many processes are inspected before control returns to the event loop."""
_PROBED = 256
"""Up to this many pids are looked up one by one; of more, only those that `/proc` lists."""
_SCANS = 10
"""How many times processes are searched for that were started during the search."""
_RESERVED = 300
"""The lowest pid after a wrap-around."""
_TICKS = os.sysconf("SC_CLK_TCK")
_CTL_KERN, _KERN_PROCARGS2 = 1, 49
"""The name, in `sysctl.h` of macOS, of the arguments and the environment of a process."""


class Process(NamedTuple):
    """A process, identified by its *pid* and its start time *started*, as text.

    Attributes:
        session: 0 if unknown.
        state: The letter of its state: `R`, `S`, `T`, `Z` …
        seconds: The processor time that it has used; where `/proc` says so, also that of its children that ended.
    """

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: str
    seconds: float

    @property
    def dead(self) -> bool:
        """Whether it has ended, and was perhaps not waited for."""
        return self.state in ("Z", "X")

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")


class Moment(NamedTuple):
    """A moment, which separates the processes that were started later.

    Attributes:
        pid: The pid that was assigned last. Pids increase until they wrap around.
        starts: How many processes and threads were started so far.
        ticks: Clock ticks since the machine was started, as in `Process.started`.
    """

    pid: int
    starts: int
    ticks: int


def moment() -> Moment | None:
    """A moment of the last second; None if the system does not say which processes are younger."""
    return _moment(int(time.monotonic()))


@lru_cache(maxsize=1)
def _moment(second: int) -> Moment | None:
    if not HAS_PROC or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    last, starts = _last(), _starts()
    return Moment(last, starts, ticks) if last and starts else None


def look_up(pid: int) -> Process | None:
    """The process *pid*; None if there is none."""
    return from_proc(pid) if HAS_PROC else next(_from_ps("-p", str(pid)), None)


def looker() -> Callable[[int], Process | None]:
    """Return a function that looks up several processes: without `/proc` in one list, since each `ps` is a process."""
    listed = cache(lambda: {process.pid: process for process in _from_ps("-ax")})
    return from_proc if HAS_PROC else lambda pid: listed().get(pid)


def snapshot() -> Iterator[Process]:
    """The processes that are listed now; `all_processes` also finds those that are started meanwhile."""
    return filter(None, map(from_proc, _listed())) if HAS_PROC else _from_ps("-ax")


async def all_processes(since: Moment | None = None) -> list[Process]:
    """All processes, zombies included; given *since*, those that were started later, also during the search."""
    if not HAS_PROC:
        return await asyncio.to_thread(lambda: list(_from_ps("-ax")))
    found, inspected = list[Process](), 0
    first = since.pid if since is not None and 0 <= _starts() - since.starts < _pids() else 0
    for _ in range(_SCANS):
        last = _last()
        for pid in _assigned(first, last) if first else _listed():
            process = from_proc(pid)
            if process is not None and (since is None or int(process.started) >= since.ticks):
                found.append(process)
            inspected += 1
            if inspected % AT_ONCE == 0:
                await asyncio.sleep(0)
        if first in (0, last):
            break
        first = last
    return found


def _listed() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _assigned(first: int, last: int) -> Iterable[int]:
    """The pids after *first* up to *last* that processes may have."""
    if first <= last <= first + _PROBED:
        return range(first + 1, last + 1)
    return (pid for pid in _listed() if (first < pid <= last if first <= last else not last < pid <= first))


def _last() -> int:
    """The pid that was assigned last; 0 if unknown."""
    return int((read("loadavg").split() or [b"0"])[-1])


def _starts() -> int:
    """How many processes and threads were started so far; 0 if unknown."""
    return int((read("stat").partition(b"\nprocesses ")[2].split() or [b"0"])[0])


@cache
def _pids() -> int:
    """How many pids are assigned until they wrap around."""
    return int(read("sys/kernel/pid_max") or 0) - _RESERVED


def from_proc(pid: int) -> Process | None:
    """The process *pid* by its folder in `/proc`; None also for a thread, which has such a folder, too."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the name in brackets, which may contain brackets and blanks: count from its end.
    state, parent, group, session, *others = stat[stat.rindex(b")") + 1 :].split()
    if others[31:32] == [b"-1"]:  # the signal that its end sends
        return None
    used = sum(map(int, others[7:11])) / _TICKS
    return Process(pid, int(parent), int(group), int(session), state.decode(), others[15].decode(), used)


def _from_ps(*which: str) -> Iterator[Process]:
    said = subprocess.run(
        ["ps", *which, "-o", "pid=,ppid=,pgid=,stat=,time=,lstart="],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C", "TZ": "UTC"},
    )
    return from_ps(said.stdout)


def from_ps(lines: str) -> Iterator[Process]:
    """The processes in the *lines* of `ps`."""
    for line in lines.splitlines():
        pid, parent, group, state, used, began = line.split(None, 5)
        yield Process(int(pid), int(parent), int(group), 0, state[:1], " ".join(began.split()), _seconds(used))


def _seconds(used: str) -> float:
    """The seconds of *used*, `[DAYS-][HOURS:]MINUTES:SECONDS[.HUNDREDTHS]`."""
    days, _, rest = used.rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = 60 * seconds + float(part)
    return 86_400 * int(days or 0) + seconds


def environment(pid: int) -> bytes:
    """The variables with which *pid* was started, each followed by a null byte; empty if they cannot be read.

    That is so for most processes of other users, and on macOS for programs that Apple ships.
    """
    if HAS_PROC:
        return read(f"{pid}/environ")
    return environment_in(_arguments(pid)) if sys.platform == "darwin" else b""


def environment_in(arguments: bytes) -> bytes:
    """The variables in what macOS says of a process (`KERN_PROCARGS2`).

    That is the number of arguments, the path of the program, null bytes that align what follows, the arguments and the
    variables, each with a null byte, an empty string, and strings of the system.
    """
    count = int.from_bytes(arguments[:4], sys.byteorder)
    _, _, rest = arguments[4:].partition(b"\0")
    texts = rest.lstrip(b"\0").split(b"\0", count)
    variables = b"".join(texts[count:]).partition(b"\0\0")[0].rstrip(b"\0")
    return variables + b"\0" if variables and not texts[count].startswith(b"\0") else b""


def _arguments(pid: int) -> bytes:
    """What the kernel of macOS says of the arguments of *pid*; empty if it refuses."""
    import ctypes

    name, room = (ctypes.c_int * 3)(_CTL_KERN, _KERN_PROCARGS2, pid), ctypes.create_string_buffer(_longest())
    size = ctypes.c_size_t(len(room))
    if ctypes.CDLL(None).sysctl(name, len(name), room, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return b""
    return ctypes.string_at(room, size.value)


@cache
def _longest() -> int:
    """How many bytes the arguments and the environment of a process have at most."""
    return os.sysconf("SC_ARG_MAX")


def is_init(pid: int) -> bool:
    """Whether *pid* is the first process of a pid namespace below that of this process."""
    _, _, line = read(f"{pid}/status").partition(b"\nNSpid:")
    return line.partition(b"\n")[0].split()[1:][-1:] == [b"1"]


def read(name: str) -> bytes:
    """The file *name* of `/proc`; empty if it cannot be read, as those of most processes of other users."""
    try:
        with open(f"/proc/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended or is unreadable
        return b""
