"""Confine a program with bubblewrap: it has its own view of the file system and does not see other processes.

The program runs in separate namespaces for users, processes, mounts and IPC, without capabilities, even as root. The
network is that of the machine, including abstract Unix sockets, or none: bubblewrap cannot filter hosts. Everything
ends at once with bubblewrap, and with the process that started it.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from coterie.agents.backends.sandbox.policy import CONFINED, MEMORY, SESSION, Access, SandboxPolicy

NAME = "bwrap"
PROTECTS = True
_KERNEL = ("/dev/", "/proc/", "/sys/")


def missing() -> str:
    """Why it cannot work on this machine; empty if it may."""
    return "" if shutil.which("bwrap") else "bwrap is not installed"


def gaps(policy: SandboxPolicy) -> list[str]:
    """The parts of *policy* that are not enforced: none."""
    return []


def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
    """Wrap *argv* in a command that runs it under *policy* in *cwd*."""
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    words += _without_namespaces()
    if not policy.network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *_kernel_files()]
    for top in sorted(policy.in_memory(cwd.absolute())):
        words += ["--ro-bind", top, top]  # `/dev` is a new one, with no files in memory
    hidden: list[str] = []
    for path, access in sorted(policy.access.items(), key=lambda rule: len(rule[0].parts)):
        name = os.fspath(path)
        if name == "/" or ((name + "/").startswith(_KERNEL) and MEMORY not in path.parents):
            continue
        match access:
            case Access.WRITE:  # always a mount, so that it cannot be moved together with protected files in it
                words += ["--bind", name, name]
            case Access.READ if path in policy.shown:
                words += ["--ro-bind", os.fspath(policy.shown[path]), name]
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
        **policy.variables,
        **{name: os.fspath(path) for name, path in policy.moved.items()},
    }.items():
        words += ["--setenv", variable, value]
    for variable in ("TMP", "TEMP", *SESSION):
        words += ["--unsetenv", variable]
    return [shutil.which("bwrap") or "bwrap", *words, "--", *argv]


@cache
def _without_namespaces() -> list[str]:
    """The option against new user namespaces, in which it would have capabilities; empty if unsupported here."""
    words = [shutil.which("bwrap") or "bwrap", "--unshare-user", option := "--disable-userns", "--ro-bind", "/", "/"]
    done = subprocess.run([*words, "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return [] if done.returncode else [option]


@cache
def _kernel_files() -> list[str]:
    """Options that make kernel files in `/proc` read-only that this user could write; root could write many."""
    with os.scandir("/proc") as entries:
        paths = sorted(entry.path for entry in entries if not entry.name.isdecimal() and _has_writable(entry))
    return [word for path in paths for word in ("--ro-bind", path, path)]


def _has_writable(entry: os.DirEntry[str]) -> bool:
    """Whether *entry* is not a link and is, or contains, a file that this user may write by its mode."""
    if entry.is_dir(follow_symlinks=False):
        try:
            with os.scandir(entry) as entries:
                return any(map(_has_writable, entries))
        except OSError:
            return True
    return not entry.is_symlink() and bool(entry.stat().st_mode & 0o222) and os.access(entry.path, os.W_OK)
