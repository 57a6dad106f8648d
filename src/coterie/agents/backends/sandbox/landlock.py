"""Confine a program with Landlock, a feature of the Linux kernel that needs no privilege and no helper program.

Landlock only grants rights, and a right on a folder applies to everything below it. To exclude unreadable files,
everything beside them is granted; protected files within a writable folder cannot be excluded, which is a gap, except
for the few files that are restored after the attempt. It covers neither sockets in the file system nor network
protocols other than TCP. `launcher.py` lists the granted paths, restricts itself, and becomes the program.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from coterie.agents.backends.sandbox import launcher
from coterie.agents.backends.sandbox.policy import CONFINED, MEMORY, SESSION, Access, SandboxPolicy
from coterie.team.options.secret_files import SOCKETS

NAME = "landlock"
PROTECTS = False
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_SERVICES = (
    *("/run/user/{uid}", "/run/docker.sock", "/run/podman", "/run/containerd", "/run/dbus", "/tmp/.X11-unix"),
    "/var/run/docker.sock",
)
"""Sockets, and folders of sockets, of services that act with the user's keys or as root, or that access the screen."""
_SHOWN = 3
_LEAST = 3
_SIGNALS = 6
"""The first versions of Landlock that cover truncation, and signals."""


def missing() -> str:
    """Why it cannot work on this machine; empty if it may."""
    if sys.platform != "linux":
        return "it is a part of Linux"
    version = launcher.version()
    return "" if version >= _LEAST else f"the kernel has {f'version {version}' if version > 0 else 'none'} of it"


def gaps(policy: SandboxPolicy) -> list[str]:
    """The parts of *policy* that are not enforced."""
    found = []
    for access, verb in ((Access.READ, "writing"), (Access.HIDE, "reading and writing")):
        paths = [
            str(path)
            for top, allowed in policy.access.items()
            if allowed is Access.WRITE
            for path, wanted in policy.below(top)
            if wanted is access and _writer(policy, path) == top and path not in (*policy.links, *policy.restored)
        ]
        if paths:
            more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
            found.append(f"it cannot be kept from {verb} {', '.join(paths[:_SHOWN])}{more}")
    hidden = [path for path, access in policy.access.items() if access is Access.HIDE]
    sockets = [Path(name.format(uid=os.getuid())) for name in _SERVICES]
    sockets += [path / name for path in hidden for name in (*SOCKETS, ".gnupg")]
    if reachable := sorted({one for path in sockets for one in _reachable(path)}):
        more = f" and {len(reachable) - _SHOWN} more" if len(reachable) > _SHOWN else ""
        found.append(f"it cannot be kept from using {', '.join(reachable[:_SHOWN])}{more}")
    if not policy.network:
        found.append("it cannot be kept from the network")
    if launcher.version() < _SIGNALS:
        found.append("it cannot be kept from sending signals to other processes")
    return found


def _reachable(path: Path, depth: int = 3) -> Iterator[str]:
    """The sockets at *path*, or in that folder, to which this process may connect."""
    with suppress(OSError):
        if path.is_socket() and os.access(path, os.W_OK):
            yield str(path)
        elif depth and path.is_dir() and not path.is_symlink():
            for name in os.listdir(path):
                yield from _reachable(path / name, depth - 1)


def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
    """Wrap *argv* in a command that runs it under *policy* when started in *cwd*."""
    rules = {os.fspath(path): access.value for path, access in policy.access.items()}
    rules |= dict.fromkeys(map(os.fspath, policy.private.values()), launcher.WRITE)
    devices = [*_DEVICES, *([] if policy.in_memory(cwd.absolute()) else [MEMORY.name])]  # a grant covers all below
    rules |= {os.path.realpath(f"/dev/{name}"): launcher.WRITE for name in devices}
    values = {"TMPDIR": str(policy.temporary), **CONFINED, **policy.variables}
    values |= {variable: _assembled(policy, own) for variable, own in policy.moved.items()}
    settings = json.dumps({"rules": rules, "set": values, "unset": ["TMP", "TEMP", *SESSION]})
    return [sys.executable, "-IS", launcher.__file__, settings, *argv]


def _assembled(policy: SandboxPolicy, own: Path) -> str:
    """The private folder in place of *own*, a folder of an agent's state, with links to the usable parts."""
    place = policy.private.get(own, own)
    for path in policy.access:
        if path.parent == own and not os.path.lexists(place / path.name):
            (place / path.name).symlink_to(policy.private.get(path, path))
    return os.fspath(place)


def _writer(policy: SandboxPolicy, path: Path) -> Path | None:
    """The nearest writable folder above *path*."""
    return next((one for one in path.parents if policy.access.get(one) is Access.WRITE), None)
