"""Attack the sandbox from inside: `python -IS trial.py FOLDER OUTSIDE SECRET INSIDE`; exit status 1 if an attack works.

It acts like an agent, first directly, then in new namespaces if it can create them. It imports only the standard
library, so that it starts fast.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

_NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x02000000
"""Flags for namespaces of users, mounts and control groups."""
_REMOUNT, _BIND, _PRIVATE, _RECURSIVE = 32, 4096, 1 << 18, 16384
_DETACH = 2
_KERNEL = (
    *("/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger", "/proc/mtrr"),
    *("/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/power/state"),
)
_LIBC = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> bool:
    words = (source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None)
    return int(_LIBC.mount(*words)) == 0


def _can(act: Callable[[], object]) -> bool:
    try:
        return act() is not False
    except OSError:
        return False


def _opens_kernel_file() -> bool:
    """Whether a file of the kernel opens for writing; nothing is written."""
    for path in _KERNEL:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            return True
    return False


def _reads(path: str) -> bool:
    with open(path, "rb") as file:
        return bool(file.read(1))


def _writes(path: str) -> bool:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return True


def _remounts(path: str, outside: str) -> bool:
    return _mount("none", path, flags=_REMOUNT | _BIND) and _writes(outside)


def _enters_process(path: str) -> bool:
    """Whether *path* can be read through the root of some process."""
    return any(_can(partial(_reads, f"/proc/{n}/root{path}")) for n in os.listdir("/proc") if n.isdecimal())


def _controls_groups(folder: str) -> bool:
    """Whether it can mount control groups and write to them, which stops or ends processes outside."""
    return any(
        _mount("none", folder, kind, 0, data) and os.access(f"{folder}/cgroup.procs", os.W_OK)
        for kind, data in (("cgroup2", ""), ("cgroup", "freezer"))
    )


def fallen(folder: str, outside: str, secret: str, inside: str) -> Iterator[str]:
    """The forbidden actions that an agent can perform.

    In *folder* are *outside*, a file that does not exist, *secret*, a hidden file, and *inside*, a writable file.
    """
    attacks: dict[str, Callable[[], object]] = {
        "it can write outside of its folders": lambda: _writes(outside),
        "it can read a hidden file": lambda: _reads(secret),
        "it can write to files of the kernel": _opens_kernel_file,
        "it can remount the file system": lambda: _remounts("/", outside) or _remounts(folder, outside),
        "it can remove mounts": lambda: any(_LIBC.umount2(path.encode(), _DETACH) == 0 for path in (secret, folder)),
        "it can look into a process outside": lambda: _enters_process(secret),
        "it can mount control groups": lambda: _controls_groups(inside),
    }
    for space in ("", " in a new namespace"):
        if space:
            if _LIBC.unshare(_NEW_NAMESPACES):
                return
            _mount("none", "/", flags=_PRIVATE | _RECURSIVE)
        for name, attack in attacks.items():
            if _can(attack):
                yield name + space


if __name__ == "__main__":
    _writes(f"{sys.argv[4]}/file")
    sys.exit("; ".join(fallen(*sys.argv[1:])) or 0)
