"""Take from this Python what `LACKS` names: calls of a file system, the user's home, a library.

A folder for PYTHONPATH: `LACKS=link,flock PYTHONPATH=tests/support/lacking coterie doctor`.
"""

import errno
import fcntl
import os
import pwd
import socket
import stat
import sys

WHAT = os.environ.get("LACKS", "").split(",")


def refuse(number):  # type: ignore[no-untyped-def]
    def call(*words, **more):  # type: ignore[no-untyped-def]
        raise OSError(number, os.strerror(number))

    return call


def without_folders(sync):  # type: ignore[no-untyped-def]
    def call(fd):  # type: ignore[no-untyped-def]
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return sync(fd)

    return call


class Socket(socket.socket):
    def bind(self, address):  # type: ignore[no-untyped-def]
        if self.family == socket.AF_UNIX:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        return super().bind(address)


def unknown(number):  # type: ignore[no-untyped-def]
    raise KeyError(number)


if "link" in WHAT:
    os.link = refuse(errno.EPERM)
if "symlink" in WHAT:
    os.symlink = refuse(errno.EPERM)
if "chmod" in WHAT:
    os.fchmod = os.chmod = refuse(errno.EPERM)
if "flock" in WHAT:
    fcntl.flock = refuse(errno.ENOLCK)
if "sync of folders" in WHAT:
    os.fsync = without_folders(os.fsync)
if "socket" in WHAT:
    socket.socket = Socket  # type: ignore[misc]
if "home" in WHAT:
    os.environ.pop("HOME", None)
    pwd.getpwuid = unknown
if "re2" in WHAT:
    sys.modules["re2"] = None  # type: ignore[assignment]
