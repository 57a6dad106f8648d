"""Make this Python look like one of macOS: names that CPython does not have there are removed."""

import ctypes
import fcntl
import multiprocessing
import os
import platform
import resource
import select
import selectors
import signal
import socket
import struct
import sys
import sysconfig
import time
from asyncio import unix_events

sysconfig.get_config_vars()  # before the platform changes
sys.platform = "darwin"
ABSENT = {
    os: """posix_fadvise posix_fallocate fdatasync sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler
        sched_setparam sched_setscheduler sched_rr_get_interval sched_param pidfd_open memfd_create splice getrandom
        copy_file_range eventfd eventfd_read eventfd_write timerfd_create getresuid getresgid setresuid setresgid setns
        unshare getxattr setxattr listxattr removexattr pipe2 waitid O_DIRECT O_PATH O_TMPFILE O_NOATIME O_LARGEFILE
        O_RSYNC POSIX_FADV_DONTNEED POSIX_FADV_NORMAL PIDFD_NONBLOCK P_PIDFD RTLD_DEEPBIND GRND_RANDOM GRND_NONBLOCK
        MFD_CLOEXEC SPLICE_F_MOVE CLONE_NEWUSER CLONE_NEWNS EFD_CLOEXEC RWF_HIPRI RWF_NOWAIT RWF_SYNC RWF_DSYNC
        RWF_APPEND SCHED_BATCH SCHED_IDLE plock posix_openpt process_cpu_count""",
    fcntl: """F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_NOTIFY F_SETLEASE
        F_GETLEASE F_SETSIG F_GETSIG""",
    socket: """SO_PEERCRED SO_PASSCRED SCM_CREDENTIALS AF_NETLINK AF_PACKET AF_VSOCK AF_ALG SOCK_CLOEXEC SOCK_NONBLOCK
        TCP_KEEPIDLE TCP_USER_TIMEOUT TCP_QUICKACK SO_BINDTODEVICE SO_DOMAIN SO_PROTOCOL SO_MARK SO_INCOMING_CPU
        MSG_NOSIGNAL MSG_CMSG_CLOEXEC""",
    select: " ".join(name for name in dir(select) if name.lower().startswith("epoll")),
    signal: "sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGPOLL SIGPWR SIGSTKFLT SIGCLD",
    resource: "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_SIGPENDING RLIMIT_OFILE",
    time: "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
}
for module, names in ABSENT.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
fcntl.F_FULLFSYNC = 51  # Linux answers EINVAL, as file systems do on macOS that cannot

# No pidfd and no epoll: a thread waits for each child.
if hasattr(unix_events, "can_use_pidfd"):
    unix_events.can_use_pidfd = lambda: False
if hasattr(unix_events, "PidfdChildWatcher"):
    unix_events.PidfdChildWatcher.is_active = lambda self: False
selectors.DefaultSelector = selectors.PollSelector
multiprocessing.set_start_method("spawn", force=True)

was = os.uname()
os.uname = lambda: os.uname_result(("Darwin", was.nodename, "24.5.0", "Darwin Kernel Version 24.5.0", "arm64"))
platform.system, platform.machine = lambda: "Darwin", lambda: "arm64"
platform.mac_ver = lambda *args, **settings: ("15.5", ("", "", ""), "arm64")

LONGEST_ADDRESS = 103
"""How many bytes the path of a Unix socket has at most."""
SOL_LOCAL, LOCAL_PEERPID = 0, 2


class Socket(socket.socket):
    """A socket with the bounds and the options of macOS."""

    def bind(self, address: object) -> None:
        if self.family == socket.AF_UNIX and isinstance(address, str) and len(os.fsencode(address)) > LONGEST_ADDRESS:
            raise OSError("AF_UNIX path too long")
        return super().bind(address)


real_option = socket.socket.getsockopt


def getsockopt(self: socket.socket, level: int, name: int, *size: int) -> object:
    """As of a socket; the process at the other end is asked for as on macOS."""
    if (level, name) == (SOL_LOCAL, LOCAL_PEERPID) and self.family == socket.AF_UNIX:
        return struct.unpack("3i", real_option(self, 1, 17, 12))[0]
    return real_option(self, level, name, *size)


socket.socket.getsockopt = getsockopt
socket.socket = Socket


class Libc:
    """The C library, with the call of macOS that tells the arguments and the environment of a process."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        self._libc = libc

    def __getattr__(self, name: str) -> object:
        return getattr(self._libc, name)

    def sysctl(self, name, length, room, size, new, new_size) -> int:  # type: ignore[no-untyped-def]
        """Answer `KERN_PROCARGS2` of a process of this user, and fail for all else."""
        if length != 3 or list(name)[:2] != [1, 49] or new is not None or new_size.value:
            return -1
        folder = f"{os.environ['REAL_PROC']}/{name[2]}"
        try:
            with open(f"{folder}/cmdline", "rb") as line, open(f"{folder}/environ", "rb") as environ:
                arguments, variables = line.read(), environ.read()
        except OSError:
            return -1
        path = arguments.partition(b"\0")[0]
        count = arguments.count(b"\0").to_bytes(4, sys.byteorder)
        told = count + path + b"\0" * (8 - len(path) % 8) + arguments + variables + b"\0ptr_munge=\0main_stack=\0"
        if not arguments or len(told) > size._obj.value:
            return -1
        ctypes.memmove(room, told, len(told))
        size._obj.value = len(told)
        return 0


real_library = ctypes.CDLL
ctypes.CDLL = lambda name=None, *args, **settings: (
    Libc(real_library(name, *args, **settings)) if name is None else real_library(name, *args, **settings)
)
