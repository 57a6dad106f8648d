"""The processes of this machine, as `/proc` tells of them, or `ps` where there is none."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

HAS_PROC = os.path.exists("/proc/self/stat")
AT_ONCE = 50
"""Processes inspected before control returns to the event loop."""


class Process(NamedTuple):
    """A process; its *pid* and when it *started*, as text, identify it."""

    pid: int
    parent: int
    group: int
    session: int
    dead: bool
    started: str


def look_up(pid: int) -> Process | None:
    """The process *pid*; None if there is none."""
    return from_proc(pid) if HAS_PROC else next(_from_ps("-p", str(pid)), None)


def in_proc() -> Iterator[Process]:
    """The processes that `/proc` lists."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := from_proc(int(name))) is not None:
            yield process


async def all_processes() -> list[Process]:
    """All processes, zombies included."""
    if not HAS_PROC:
        return list(_from_ps("-ax"))
    processes = []
    for n, process in enumerate(in_proc(), 1):
        processes.append(process)
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)
    return processes


def from_proc(pid: int) -> Process | None:
    """The process *pid* by its folder in `/proc`."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the name in brackets, which may contain brackets and blanks: count from its end.
    state, parent, group, session, *others = stat[stat.rindex(b")") + 1 :].split()
    return Process(pid, int(parent), int(group), int(session), state in (b"Z", b"X"), others[15].decode())


def _from_ps(*which: str) -> Iterator[Process]:
    lines = subprocess.run(
        ["ps", *which, "-o", "pid=,ppid=,pgid=,stat=,lstart="],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C", "TZ": "UTC"},
    ).stdout.splitlines()
    for line in lines:
        pid, parent, group, state, began = line.split(None, 4)
        yield Process(int(pid), int(parent), int(group), 0, state.startswith("Z"), " ".join(began.split()))


def is_init(pid: int) -> bool:
    """Whether *pid* is the first process of a pid namespace below that of this process."""
    _, _, line = read(pid, "status").partition(b"\nNSpid:")
    return line.partition(b"\n")[0].split()[1:][-1:] == [b"1"]


def read(pid: int, name: str) -> bytes:
    """The file *name* of `/proc/PID`; empty if it cannot be read, as most of those of other users."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended, or may not be read
        return b""
