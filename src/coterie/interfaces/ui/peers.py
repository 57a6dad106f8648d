"""Decide by the process behind a local connection, which the kernel knows, whether it may act on runs.

A browser of this user may. A process of another user may not, nor a process of an attempt: an agent is refused even if
it has read the secret from the browser's files. Without `/proc`, the secret alone decides.
"""

import ipaddress
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from coterie.agents.backends.processes import attempt_of, marks_of
from coterie.errors import CoterieError
from coterie.execution.runs.run_stream import RunStream
from coterie.history.views.live import LiveRun
from coterie.interfaces.ui.places import ServedRuns

Address = tuple[str, int]
_ESTABLISHED = "01"
_IN_A_SANDBOX = ("required", "no-network")
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def refusal(client: Address, port: int, outside: Callable[[], str]) -> str:
    """The reason why the process at *client* may not act through its connection to this *port*; empty: it may.

    Args:
        outside: Names an attempt of this machine that may run outside a sandbox; empty: there is none.
    """
    if sys.platform != "linux" or not ipaddress.ip_address(client[0]).is_loopback:
        return ""
    found = _socket(client, port)
    if found is None:
        return "the kernel does not know this connection: try again"
    uid, inode = found
    if uid != os.getuid():
        return f"the connection belongs to another user (uid {uid}): each user runs `coterie ui`"
    pids = list(_owners(inode))
    for pid in pids:
        marks = marks_of(pid)
        if marks is None:
            return "the process behind this connection has ended"
        if attempt := (attempt_of(pid) or next(iter(marks), "")):
            return f"process {pid} belongs to an attempt of an agent ({attempt}), which may not act on runs"
    if not pids and (attempt := outside()):
        return f"the process behind this connection cannot be seen, and {attempt} may run outside a sandbox"
    return ""


def attempt_outside(places: ServedRuns) -> str:
    """An attempt of this machine that may run outside a sandbox; empty if there is none."""
    for home, entry in places.entries():
        runs, run = home.open(entry)
        if not (runs.is_here and runs.is_owned(run)):
            continue
        live = LiveRun(run)
        try:
            for name, record in RunStream(runs, run, text=False).records():
                live.apply(name, record)
        except (OSError, CoterieError):
            return f"an attempt of run {run}"
        for known in live.runs.values():
            plan = known.plan.plan
            for turn in known.working():
                agent = plan.agents.get(turn.agent) if plan is not None else None
                if agent is None or agent.options.get("sandbox") not in _IN_A_SANDBOX:
                    return f"{turn.id} of run {known.id}"
    return ""


def _socket(client: Address, port: int) -> tuple[int, str] | None:
    """The user and the inode of the client's end of a connection to *port*."""
    wanted = _plain(client)
    for table in TABLES:
        with suppress(OSError), open(table, encoding="ascii") as lines:
            next(lines)
            for line in lines:
                _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
                if state == _ESTABLISHED and _decoded(local) == wanted and _decoded(remote)[1] == port:
                    return int(uid), inode
    return None


def _owners(inode: str) -> Iterator[int]:
    """The processes that have the socket with this inode open, as far as this user can see them."""
    link = f"socket:[{inode}]"
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):  # another user's, or gone
                if any(_target(f"/proc/{name}/fd/{fd}") == link for fd in os.listdir(f"/proc/{name}/fd")):
                    yield int(name)


def _target(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _plain(address: Address) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    ip = ipaddress.ip_address(address[0].partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip, int(address[1])


def _decoded(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Decode an address of the kernel's table: words of four bytes, each in the byte order of the machine."""
    host, _, port = text.partition(":")
    words = bytes.fromhex(host)
    swapped = sys.byteorder == "little"
    data = b"".join(words[k : k + 4][::-1] if swapped else words[k : k + 4] for k in range(0, len(words), 4))
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address = (
        ipaddress.IPv4Address(data) if len(data) == 4 else ipaddress.IPv6Address(data)
    )
    return _plain((str(ip), int(port, 16)))
