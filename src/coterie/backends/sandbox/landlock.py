"""Confine a program with Landlock, which the kernel offers to every process: it needs no privilege and no program.

Landlock only allows: a right on a folder holds for all below it. To leave out what may not be read, all beside it is
named; what is protected within a folder that may be written cannot be left out, and is a gap, but for the few files
that are put back after the attempt. It covers neither sockets in the file system nor, of the network, anything but TCP.
`launcher.py` lists what is beside it, takes the rights, and becomes the program.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from coterie.backends.sandbox import launcher
from coterie.backends.sandbox.policy import CONFINED, SESSION, Access, SandboxPolicy

NAME = "landlock"
PROTECTS = False
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
_SHOWN = 3
_LEAST = 3
_SIGNALS = 6
"""Versions of Landlock in the kernel: the first that covers truncation, and the first that covers signals."""


def missing() -> str:
    """Why it cannot be tried on this machine; empty if it can."""
    if sys.platform != "linux":
        return "it is a part of Linux"
    version = launcher.version()
    return "" if version >= _LEAST else f"the kernel has {f'version {version}' if version > 0 else 'none'} of it"


def gaps(policy: SandboxPolicy) -> list[str]:
    """What of *policy* does not hold."""
    found = []
    for access, verb in ((Access.READ, "writing"), (Access.HIDE, "reading and writing")):
        paths = [
            str(path)
            for top, allowed in policy.access.items()
            if allowed is Access.WRITE
            for path, wanted in policy.below(top)
            if wanted is access and _writer(policy, path) == top and path not in policy.links
        ]
        if paths:
            more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
            found.append(f"it cannot be kept from {verb} {', '.join(paths[:_SHOWN])}{more}")
    sockets = [
        f"/run/user/{os.getuid()}/bus",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/dbus/system_bus_socket",
    ]
    if reachable := [name for name in sockets if os.access(name, os.W_OK)]:
        found.append(f"it cannot be kept from using {', '.join(reachable)}")
    if not policy.network:
        found.append("it cannot be kept from the network")
    if launcher.version() < _SIGNALS:
        found.append("it cannot be kept from sending signals to other processes")
    return found


def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
    """*argv* as a command that runs it under *policy*; *cwd* is where it is started."""
    rules = {os.fspath(path): access.value for path, access in policy.access.items()}
    rules |= dict.fromkeys(map(os.fspath, policy.private.values()), launcher.WRITE)
    rules |= {f"/dev/{name}": launcher.WRITE for name in _DEVICES}
    values = {"TMPDIR": str(policy.temporary), **CONFINED, **policy.caches}
    values |= {variable: _assembled(policy, own) for variable, own in policy.moved.items()}
    settings = json.dumps({"rules": rules, "set": values, "unset": ["TMP", "TEMP", *SESSION]})
    return [sys.executable, "-IS", launcher.__file__, settings, *argv]


def _assembled(policy: SandboxPolicy, own: Path) -> str:
    """The private folder for *own*, a folder of an agent's state: with links to what the agent may use of it."""
    place = policy.private.get(own, own)
    for path in policy.access:
        if path.parent == own and not os.path.lexists(place / path.name):
            (place / path.name).symlink_to(policy.private.get(path, path))
    return os.fspath(place)


def _writer(policy: SandboxPolicy, path: Path) -> Path | None:
    """The nearest folder above *path* that may be written."""
    return next((one for one in path.parents if policy.access.get(one) is Access.WRITE), None)
