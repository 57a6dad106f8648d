"""Become a program that cannot make itself a subreaper: `python without_subreaper.py COMMAND…`.

A filter of the kernel refuses this process, and all that it starts, the call, as a kernel that does not have it.
"""

import ctypes
import errno
import os
import struct
import sys

PRCTL = {"x86_64": 157, "aarch64": 167}.get(os.uname().machine)
"""The number of the system call; None: not known for this machine."""
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 36, 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _FIRST = 0, 16
"""Where the system call and its first argument are."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse() -> None:
    """Install the filter."""
    steps = (
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, PRCTL),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 0, 1, _SET_CHILD_SUBREAPER),
        (_RETURN, 0, 0, _ERROR | errno.EINVAL),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program, prctl = _Program(len(steps), code), ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
