"""Confine a program with bubblewrap: a mount of the file system for it alone, and no sight of other processes.

The program runs in separate namespaces for users, processes, mounts and IPC. The network is that of the machine,
abstract Unix sockets included, or none: bubblewrap cannot choose hosts. All ends at once with bubblewrap, and with the
process that started it.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from coterie.backends.sandbox.policy import CONFINED, SESSION, Access, SandboxPolicy

NAME = "bwrap"
_PRIVATE = (Path("/tmp"), Path("/var/tmp"))
_KERNEL = (Path("/dev"), Path("/proc"), Path("/sys"))


def missing() -> str:
    """Why it cannot be tried on this machine; empty if it can."""
    return "" if shutil.which("bwrap") else "bwrap is not installed"


def gaps(policy: SandboxPolicy) -> list[str]:
    """What of *policy* does not hold: nothing."""
    return []


def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
    """*argv* as a command that runs it under *policy* in *cwd*."""
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
    if not policy.network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    hidden: list[str] = []
    for path, access in sorted(policy.access.items(), key=lambda rule: len(rule[0].parts)):
        name = os.fspath(path)
        if path.parent == path or path in _KERNEL or any(one in path.parents for one in _KERNEL):
            continue
        match access:
            case Access.WRITE:  # always a mount, so that it cannot be moved away from what is protected in it
                words += ["--bind", name, name]
            case Access.READ:
                if policy.of(path.parent) is not Access.READ:
                    words += ["--ro-bind", name, name]
            case Access.HIDE if path in _PRIVATE:
                words += ["--bind", os.fspath(policy.temporary), name]
            case Access.HIDE if path.is_dir():
                words += ["--perms", "0700", "--tmpfs", name]
                hidden += ["--remount-ro", name]
            case Access.HIDE:
                words += ["--ro-bind", "/dev/null", name]
    if policy.bell is not None and policy.hider(link := policy.bell[0].parent.resolve() / policy.bell[0].name):
        words += ["--symlink", os.fspath(policy.bell[1]), os.fspath(link)]
    words += [*hidden, "--chdir", os.fspath(cwd), "--setenv", "TMPDIR", "/tmp"]
    for variable, value in {**CONFINED, **policy.caches}.items():
        words += ["--setenv", variable, value]
    for variable in ("TMP", "TEMP", *SESSION):
        words += ["--unsetenv", variable]
    return [shutil.which("bwrap") or "bwrap", *words, "--", *argv]
