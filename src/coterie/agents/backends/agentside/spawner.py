"""The process that starts the programs of one owner's attempts: `python -IS spawner.py`, with a socket as its input.

On Linux it is a subreaper: a process that one of the programs has started, and that has lost its parent, becomes its
child, whatever session, environment and limits it gave itself, and however often it forked. One that also has
no mark of an attempt hides, and is killed when an attempt ends. Neither the owner nor the process that embeds this
package becomes a subreaper, since that would change for which processes it has to wait. When the owner has ended, this
process kills what must end with it, and what hides, until nothing is left below it.

A request is its length, and behind it argv, environment, working directory, marks (limit and value) and whether the
program ends with the owner, by `marshal`. With it come the descriptors of standard input, output and error, and of a
pipe for the report: the pid of the program and the error that kept it from being started, or 0; then its exit status,
below 0 the signal that ended it, and whether it is certain that nothing is left of it. The request None, with only the
pipe, is reported once no process hides.
"""

import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

MARK = "COTERIE_ATTEMPT_ID"
"""The environment variable that marks the processes of an attempt: `<run>/<turn>.<attempt>`.

A marker that ends in `/` matches every attempt of that run and of its child runs.
"""
TAG = 1 << 62
"""A bit that is set in each mark in a limit; a lower limit was set by a user."""
LENGTH = struct.Struct("!I")
FILES = 4
"""How many descriptors come with a request."""
TRIAL = "trial"
"""The argument with which this process only says, by its status, whether it would find what hides."""

_LIMITS = (b"Max file locks", b"Max resident set")
"""The names in `/proc` of the limits that carry marks: of the attempt, and of the enclosing attempt."""
_KILL_SECONDS = 5.0
_LOOK_EVERY = 1.0
"""Seconds between two searches for what hides, once the owner has ended."""
_PR_SET_CHILD_SUBREAPER = 36
_AT_ONCE = 1 << 12
_ASKING = [one for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
"""The signals that ask a process to end, except those that the owner ignores. This process outlives them."""
_DEFAULTS = [signal.SIGPIPE, signal.SIGXFSZ, *_ASKING]


def marks_in(limits: bytes) -> list[int]:
    """The marks in the *limits* of a process, as `/proc` has them; the innermost attempt first."""
    values = (limits.partition(name)[2].split(None, 1)[:1] for name in _LIMITS)
    return [int(one[0]) for one in values if one and one[0].isdigit() and is_mark(int(one[0]))]


def is_mark(limit: int) -> bool:
    """Whether the value *limit* is a mark."""
    return TAG <= limit < 2 * TAG


def become_subreaper() -> bool:
    """Let orphans below this process become its children from now on; False if that cannot be had here."""
    import ctypes

    return sys.platform == "linux" and not ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Spawner:
    """The programs that were started and still run: *reports* has the pipe for the report of each pid."""

    def __init__(self) -> None:
        self._reports: dict[int, int] = {}
        self._dying: set[int] = set()
        self._out_of_reach: set[int] = set()
        self._ended, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(self._ended, False)
        signal.set_wakeup_fd(wakeup)
        self._path = ""
        self._reaps = become_subreaper()

    def serve(self, channel: socket.socket) -> None:
        """Carry out the requests that come over *channel*, until the owner and all programs have ended."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _ASKING:
            signal.signal(number, lambda *_: None)
        poller = select.poll()
        poller.register(self._ended, select.POLLIN)
        poller.register(channel, select.POLLIN)
        owned = True
        while owned or self._left():
            for fd, _ in poller.poll(None if owned else 1000 * _LOOK_EVERY):
                if fd == self._ended:
                    self._reap()
                elif not self._answer(channel):
                    owned = False
                    poller.unregister(channel)
                    for pid in self._dying:
                        os.kill(pid, signal.SIGKILL)
            if not owned:
                self._sweep()

    def _answer(self, channel: socket.socket) -> bool:
        """Carry out the next request; return False if the owner has ended."""
        head, fds, _, _ = socket.recv_fds(channel, LENGTH.size, FILES)
        for fd in fds:
            os.set_inheritable(fd, False)
        try:
            head += _exactly(channel, LENGTH.size - len(head))
            data = _exactly(channel, *LENGTH.unpack(head))
        except EOFError:
            return False
        *files, report = fds
        request = marshal.loads(data)
        try:
            if request is None:
                self._sweep()
                os.close(report)
                return True
            pid = self._start(files, *request)
        except OSError as error:
            os.write(report, b"0 %d\n" % (error.errno or -1))
            os.close(report)
        else:
            os.write(report, b"%d 0\n" % pid)
            self._reports[pid] = report
        for fd in files:
            os.close(fd)
        return True

    def _start(
        self,
        files: Sequence[int],
        argv: list[str],
        env: Mapping[str, str],
        cwd: str,
        marks: Mapping[int, int],
        dies: bool,
    ) -> int:
        import resource

        before = {limit: resource.getrlimit(limit) for limit in marks}
        if self._path != (path := env.get("PATH", os.defpath)):
            os.environ["PATH"] = self._path = path  # where the program is searched for
        os.chdir(cwd)
        try:
            for limit, value in marks.items():
                with suppress(ValueError, OSError):  # the hard limit is lower: only the environment is marked
                    resource.setrlimit(limit, (value, before[limit][1]))
            pid = os.posix_spawnp(
                argv[0],
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files)],
                setsid=True,
                setsigdef=_DEFAULTS,
            )
        finally:
            for limit, values in before.items():
                resource.setrlimit(limit, values)
            os.chdir("/")
        if dies:
            self._dying.add(pid)
        return pid

    def _reap(self) -> None:
        """Report the programs that have ended."""
        with suppress(BlockingIOError):
            os.read(self._ended, _AT_ONCE)
        reports: list[tuple[int, int]] = []
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._dying.discard(found[0])
                if (report := self._reports.pop(found[0], None)) is not None:
                    reports.append((report, os.waitstatus_to_exitcode(found[1])))
        except ChildProcessError:
            pass
        is_over = self._reaps and bool(reports) and not self._left()
        for report, status in reports:
            with suppress(OSError):  # the owner has ended
                os.write(report, b"%d %d\n" % (status, is_over))
            os.close(report)

    def _sweep(self) -> None:
        """Kill the processes that hide; their children hide, too, once they are orphans."""
        until = time.monotonic() + _KILL_SECONDS
        while (hidden := self._hidden()) and time.monotonic() < until:
            for pid in hidden:  # a child of this process, which alone waits for it: the pid is not reused
                try:
                    os.kill(pid, signal.SIGKILL)
                except PermissionError:  # it now runs as another user
                    self._out_of_reach.add(pid)
            select.select([self._ended], [], [], 0.01)

    def _hidden(self) -> list[int]:
        """The children of this process that it did not start, and that carry no mark."""
        self._reap()
        if not self._reaps or not self._left():
            return []
        adopted = set(_children(os.getpid())) - self._reports.keys() - self._out_of_reach
        return [pid for pid in adopted if not _is_marked(pid)]

    def _left(self) -> bool:
        """Whether there is any process below this one."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True


def _exactly(channel: socket.socket, size: int) -> bytes:
    """Read *size* bytes and not one more, since the descriptors of the next request come with its first byte."""
    data = bytearray()
    while len(data) < size:
        if not (more := channel.recv(size - len(data))):
            raise EOFError
        data += more
    return bytes(data)


def _children(parent: int) -> list[int]:
    if found := _read(f"{parent}/task/{parent}/children"):
        return [int(pid) for pid in found.split()]
    pids = [name for name in os.listdir("/proc") if name.isdecimal()]  # the kernel has no such file
    return [int(pid) for pid in pids if _read(f"{pid}/stat").rpartition(b")")[2].split()[1:2] == [b"%d" % parent]]


def _is_marked(pid: int) -> bool:
    variables = b"\0" + _read(f"{pid}/environ")
    return f"\0{MARK}=".encode() in variables or bool(marks_in(_read(f"{pid}/limits")))


def _read(name: str) -> bytes:
    try:
        with open(f"/proc/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    if sys.argv[1:] == [TRIAL]:
        sys.exit(not become_subreaper())
    Spawner().serve(socket.socket(fileno=0))
