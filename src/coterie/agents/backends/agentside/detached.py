"""The supervisor process of a detached command, which outlives the run's owner: output and exit status go to files.

It is started as a separate program by its path: `python -IS detached.py FOLDER MERGED COMMAND …`. It leads the session
and the process group of the command. While it lives it holds a lock on `keeper.pid`, which shows later owners that it
lives. It survives signals that ask a process to end, and notes them, so that the command can end first. Then it durably
renames the exit status into place.

Each output goes to segments of at least `SEGMENT` bytes, of which the last two are kept: `kept.out`, then
`kept.out.OFFSET`, where OFFSET is the number of bytes before it.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # no Unix: no run can be owned there
    fcntl = None  # type: ignore[assignment]

PID = "keeper.pid"
"""The file with the pid of this process, which holds a lock on it."""
OUTPUT = "kept.out"
ERRORS = "kept.err"
STATUS = "kept.status"
"""Five numbers: the exit status (below 0 the signal that ended the command), the error that kept it from being started
or 0, the seconds that it took, the first signal that asked this process to end or 0, and the error by which some of the
output was lost or 0."""
SEGMENT = 8_000_000
"""The size in bytes after which output continues in another file."""

_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_AT_ONCE = 1 << 16
_LINGER = 1.0
"""Seconds that another process may hold the outputs open after the command has ended."""


def owns(name: str) -> bool:
    """Whether the file *name* in the folder of an attempt belongs to a detached command."""
    return name == PID or name.removeprefix(".").startswith((OUTPUT, ERRORS, STATUS))


class Segments:
    """The files of one output; if one cannot be written, the output is dropped and the command continues.

    Attributes:
        error: The number of the first error that lost output; 0: none.
    """

    def __init__(self, path: str) -> None:
        self._name, self._path, self._before = path, path, ""
        self._start = self._size = self.error = 0
        self._fd = os.open(path, _NEW, 0o600)

    def write(self, data: bytes) -> None:
        """Append *data*, and begin another file when this one is full."""
        with self._noting():
            written = 0
            while written < len(data):  # a nearly full disk accepts only a part
                written += os.write(self._fd, data[written:])
            self._size += len(data)
            if self._size >= SEGMENT:
                self._start, self._size = self._start + self._size, 0
                path = f"{self._name}.{self._start}"
                fd = os.open(path, _NEW, 0o600)
                os.fsync(self._fd)
                os.close(self._fd)
                if self._before:
                    os.unlink(self._before)
                self._before, self._path, self._fd = self._path, path, fd

    def sync(self) -> None:
        """Make the last file durable."""
        with self._noting():
            os.fsync(self._fd)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = self.error or error.errno or -1


def main(folder: str, merged: str, *command: str) -> None:
    """Run *command*, which inherits standard input, with its files in *folder*."""
    began = time.monotonic()
    own = os.open(os.path.join(folder, PID), _NEW, 0o600)
    fcntl.flock(own, fcntl.LOCK_EX)
    os.write(own, b"%d\n" % os.getpid())
    asked: list[int] = []
    for number in _ASKING:  # the command starts with the default handlers, except for signals that are ignored here
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: asked.append(number))
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    output, to_output = os.pipe()
    outputs = {output: Segments(os.path.join(folder, OUTPUT))}
    to_errors = to_output
    if merged != "1":
        errors, to_errors = os.pipe()
        outputs[errors] = Segments(os.path.join(folder, ERRORS))
    status = error = 0
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, to_output, 1), (os.POSIX_SPAWN_DUP2, to_errors, 2)],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as failure:
        error = failure.errno or 0
    else:
        for fd in {0, to_output, to_errors}:
            os.close(fd)
        status = _follow(pid, ended, outputs)
    for one in outputs.values():
        one.sync()
    lost = next((one.error for one in outputs.values() if one.error), 0)
    _write(folder, f"{status} {error} {time.monotonic() - began:.6f} {(*asked, 0)[0]} {lost}\n".encode())


def _follow(pid: int, ended: int, outputs: dict[int, Segments]) -> int:
    """Write *outputs* to their files until the process *pid* has ended and closed them; return its exit status.

    Args:
        ended: A descriptor that becomes readable when a child process has ended.
    """
    status, until, is_open = None, float("inf"), set(outputs)
    poller = select.poll()
    for fd in (ended, *outputs):
        poller.register(fd, select.POLLIN)
    while status is None or (is_open and time.monotonic() < until):
        left = max(until - time.monotonic(), 0.0) * 1000 if status is not None else None
        for fd, _ in poller.poll(left):
            if fd != ended:
                if data := os.read(fd, _AT_ONCE):
                    outputs[fd].write(data)
                else:
                    poller.unregister(fd)
                    is_open.discard(fd)
            elif os.read(ended, _AT_ONCE) and status is None:
                found, how = os.waitpid(pid, os.WNOHANG)
                if found:
                    status, until = os.waitstatus_to_exitcode(how), time.monotonic() + _LINGER
    return status


def _write(folder: str, text: bytes) -> None:
    part = os.path.join(folder, f".{STATUS}.part")
    fd = os.open(part, _NEW, 0o600)
    os.write(fd, text)
    os.fsync(fd)
    os.rename(part, os.path.join(folder, STATUS))
    os.fsync(os.open(folder, os.O_RDONLY))


if __name__ == "__main__":
    main(*sys.argv[1:])
