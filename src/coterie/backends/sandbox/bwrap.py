"""Confine a program with bubblewrap: a mount of the file system for it alone, and no sight of other processes.

The program runs in separate namespaces for users, processes, mounts and IPC, without capabilities, as root too. The
network is that of the machine, abstract Unix sockets included, or none: bubblewrap cannot choose hosts. All ends at
once with bubblewrap, and with the process that started it.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from coterie.backends.sandbox.policy import CONFINED, SESSION, Access, SandboxPolicy

NAME = "bwrap"
PROTECTS = True
_KERNEL = ("/dev/", "/proc/", "/sys/")


def missing() -> str:
    """Why it cannot be tried on this machine; empty if it can."""
    return "" if shutil.which("bwrap") else "bwrap is not installed"


def gaps(policy: SandboxPolicy) -> list[str]:
    """What of *policy* does not hold: nothing."""
    return []


def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
    """*argv* as a command that runs it under *policy* in *cwd*."""
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    words += _without_namespaces()
    if not policy.network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *_kernel_files()]
    hidden: list[str] = []
    for path, access in sorted(policy.access.items(), key=lambda rule: len(rule[0].parts)):
        name = os.fspath(path)
        if name == "/" or (name + "/").startswith(_KERNEL):
            continue
        match access:
            case Access.WRITE:  # always a mount, so that it cannot be moved away from what is protected in it
                words += ["--bind", name, name]
            case Access.READ:
                if policy.of(path.parent) is not Access.READ:
                    words += ["--ro-bind", name, name]
            case Access.HIDE if path in policy.private:
                words += ["--bind", os.fspath(policy.private[path]), name]
            case Access.HIDE if path.is_dir():
                words += ["--perms", "0700", "--tmpfs", name]
                hidden += ["--remount-ro", name]
            case Access.HIDE:
                words += ["--ro-bind", "/dev/null", name]
    if policy.bell is not None and policy.hider(link := policy.bell[0].parent.resolve() / policy.bell[0].name):
        words += ["--symlink", os.fspath(policy.bell[1]), os.fspath(link)]
    for link, target in policy.aliases.items():
        words += ["--symlink", os.fspath(target), os.fspath(link)]
    words += [*hidden, "--chdir", os.fspath(cwd), "--setenv", "TMPDIR", "/tmp"]
    for variable, value in {
        **CONFINED,
        **policy.caches,
        **{name: os.fspath(path) for name, path in policy.moved.items()},
    }.items():
        words += ["--setenv", variable, value]
    for variable in ("TMP", "TEMP", *SESSION):
        words += ["--unsetenv", variable]
    return [shutil.which("bwrap") or "bwrap", *words, "--", *argv]


@cache
def _without_namespaces() -> list[str]:
    """The option that keeps it from new user namespaces, in which it would have capabilities; none if it fails here."""
    words = [shutil.which("bwrap") or "bwrap", "--unshare-user", option := "--disable-userns", "--ro-bind", "/", "/"]
    done = subprocess.run([*words, "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return [] if done.returncode else [option]


@cache
def _kernel_files() -> list[str]:
    """Options that make the files of the kernel in `/proc` read-only which root writes without capabilities."""
    found = (entry for entry in os.scandir("/proc") if os.geteuid() == 0 and not entry.name.isdecimal())
    paths = sorted(entry.path for entry in found if _has_writable(entry))
    return [word for path in paths for word in ("--ro-bind", path, path)]


def _has_writable(entry: os.DirEntry[str]) -> bool:
    """Whether *entry*, no link, is a file that may be written by someone, or contains one."""
    if entry.is_dir(follow_symlinks=False):
        try:
            with os.scandir(entry) as entries:
                return any(map(_has_writable, entries))
        except OSError:
            return True
    return not entry.is_symlink() and bool(entry.stat().st_mode & 0o222)
