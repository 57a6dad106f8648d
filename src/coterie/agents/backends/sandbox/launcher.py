"""Restrict this process with Landlock, then become another program: `python -IS launcher.py SETTINGS COMMAND …`.

SETTINGS is JSON: `rules`, an access by path, and variables to `set` and `unset`. The granted paths are listed here and
not by the caller, because there may be too many beside a hidden one for a command line. It imports only the standard
library, so that it starts fast.
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping, Set

HIDE, READ, WRITE = "hide", "read", "write"
"""The access of a rule."""
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITIES = 64
_READ_DIR = 1 << 3
_READ = 1 << 0 | 1 << 2 | _READ_DIR
"""Execute, read a file, list a folder."""
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""The rights that apply to files: execute, write, read, truncate, control a device."""
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights on files, by the first version of Landlock that has them."""
_MOUNTS, _USERS = 0x20000, 0x10000000
"""Flags for new namespaces."""
_FOLLOWING = 1 << 19 | 1 << 14
"""Mounts that come later appear in the new namespace, and none that is made there outside of it."""
_NOSUID = 1 << 1
_SHARED = {
    "/dev/pts": (b"devpts", b"newinstance,ptmxmode=0666,mode=0620"),
    "/dev/shm": (b"tmpfs", b"mode=1777"),
}
"""The folders that programs share, with what is mounted there for one alone."""
_SCOPES = 1 << 0 | 1 << 1
"""Limits abstract sockets and signals to processes in the same domain; since version 6."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """The version of Landlock that the kernel has; 0 or less: none."""
    return int(ctypes.CDLL(None).syscall(_CREATE, None, 0, 1))


def granted(rules: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """The paths on which *rules* grant rights, and whether they may be written."""
    above = set()
    for path in (path for path, access in rules.items() if access == HIDE):
        while path != "/":
            above.add(path := os.path.dirname(path))
    for path, access in rules.items():
        if access == WRITE:
            yield path, True
        elif access == READ:
            yield from ((one, False) for one in _readable(path, above, rules.keys()))


def _readable(path: str, above: Set[str], decided: Set[str]) -> Iterator[str]:
    """*path*, or the paths below it without the hidden ones; *above* are the folders above those."""
    if path not in above:
        yield path
        return
    try:
        children = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
    except OSError:
        return
    for child in children:
        if child not in decided:
            yield from _readable(child, above, decided)


def separate(rules: Mapping[str, str]) -> None:
    """Give this process separate terminals and files in memory, where the kernel lets it.

    A right on their folder covers those of all programs of the user. It is tried in another process, since one that
    gets only a part of it has lost the name of its user.
    """
    if (child := os.fork()) == 0:
        os._exit(not _is_separated(rules))
    if os.waitpid(child, 0)[1] == 0:
        _is_separated(rules)


def _is_separated(rules: Mapping[str, str]) -> bool:
    libc, user, group = ctypes.CDLL(None), os.getuid(), os.getgid()
    try:
        if libc.unshare(_MOUNTS):
            if libc.unshare(_MOUNTS | _USERS):
                return False
            for name, line in {
                "setgroups": "deny",
                "uid_map": f"{user} {user} 1",
                "gid_map": f"{group} {group} 1",
            }.items():
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(line)
        if libc.mount(b"none", b"/", None, _FOLLOWING, None):
            return False
        return all(
            not libc.mount(kind, place.encode(), kind, _NOSUID, options)
            for place, (kind, options) in _SHARED.items()
            if rules.get(place) == WRITE
        )
    except OSError:
        return False


def confine(rules: Mapping[str, str]) -> None:
    """Restrict this process, and everything that it starts, to *rules*.

    Folders can still be listed everywhere. The program that this process becomes has no privileges, not even as root.

    Raises:
        OSError: If the kernel refuses.
    """
    libc, has = ctypes.CDLL(None, use_errno=True), version()

    def call(*arguments: object) -> int:
        result = int(libc.syscall(*arguments))
        if result < 0:
            raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
        return result

    rights = _RIGHTS[max(first for first in _RIGHTS if first <= has)]
    wanted = _Ruleset(rights, 0, _SCOPES if has >= 6 else 0)
    ruleset = call(_CREATE, ctypes.byref(wanted), 24 if has >= 6 else 8 if has < 4 else 16, 0)
    for path, writable in [*granted(rules), ("/", None)]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if os.readlink(f"/proc/self/fd/{fd}") != path:  # an agent that lives has just put a link there
            os.close(fd)
            continue
        allowed = _READ_DIR if writable is None else rights if writable else _READ
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            allowed &= _OF_FILES
        rule = _Rule(allowed & rights, fd)
        call(_ADD, ruleset, 1, ctypes.byref(rule), 0)
        os.close(fd)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
    for capability in range(_CAPABILITIES):  # root's capabilities would allow it to read the memory of other processes
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    call(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def main(settings: str, *command: str) -> None:
    """Confine this process as *settings* say, and become *command*."""
    import json
    import signal

    parent = os.getppid()
    given = json.loads(settings)
    separate(given["rules"])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
    os.environ.update(given["set"])
    for variable in given["unset"]:
        os.environ.pop(variable, None)
    confine(given["rules"])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
