"""The process that `preforked` starts: it has loaded the command line once, and forks itself for every command.

It is a program of its own, told the number of a listening socket. Whoever connects sends the lengths and the three
standard streams, then what to run; it is told the process id, and in the end the exit status (negative: the signal).
Whoever hangs up has the command killed. It ends, and every command with it, when its own standard input does.
"""

import atexit
import contextlib
import gc
import importlib
import os
import pkgutil
import resource
import selectors
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from functools import partial

import killed
import unsynced

KILL = "COTERIE_TESTS_KILL"
"""In the environment of what is asked: where to die, as `killed` takes it. The command does not see it."""

LIMITS = "COTERIE_TESTS_LIMITS"
"""In the environment of what is asked: the most memory, in bytes, and processor time, in seconds, that it may take."""

NUMBER = struct.Struct("=q")
"""How a length, a process id and an exit status are sent."""

LEFT_OUT = (
    "coterie.__main__",
    "coterie.agents.backends.models.",
    "coterie.interfaces.lsp",
    "coterie.patterns.rows",
    "coterie.testing",
)
"""What is loaded by the commands that want it: it needs more than coterie itself does, or is for tests."""


def packed(path: str, words: Sequence[str], folder: str, environment: Sequence[tuple[str, str]]) -> bytes:
    """What to run, as it is sent: *path* is where programs look first for modules, *words* follow `coterie`."""
    lists = [[path, folder], words, [f"{name}={value}" for name, value in environment]]
    return b"\0".join(os.fsencode("\0".join([str(len(one)), *one])) for one in lists)


class Server:
    """Forks a child for everyone who connects to *listener*."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Go on until standard input ends."""
        self._selector.register(0, selectors.EVENT_READ, self._end)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        length, streams, _, _ = socket.recv_fds(client, NUMBER.size, 3)
        if not length:  # it was killed before it could ask
            client.close()
            return
        with client.makefile("rb") as sent:
            asked = sent.read(*NUMBER.unpack(length))
        pid = os.fork()
        if pid == 0:
            _become(asked, streams)
        for stream in streams:
            os.close(stream)
        watch = os.pidfd_open(pid)
        self._clients[pid] = client
        self._selector.register(watch, selectors.EVENT_READ, partial(self._ended, pid, watch))
        self._selector.register(client, selectors.EVENT_READ, partial(self._left, pid))
        with contextlib.suppress(OSError):
            client.sendall(NUMBER.pack(pid))

    def _left(self, pid: int) -> None:
        if pid in self._clients:
            self._forget(pid).close()
            os.kill(pid, signal.SIGKILL)

    def _ended(self, pid: int, watch: int) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._selector.unregister(watch)
        os.close(watch)
        if pid in self._clients:
            with self._forget(pid) as client, contextlib.suppress(OSError):
                client.sendall(NUMBER.pack(status))

    def _forget(self, pid: int) -> socket.socket:
        client = self._clients.pop(pid)
        self._selector.unregister(client)
        return client

    def _end(self) -> None:
        for pid in self._clients:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def _become(asked: bytes, streams: Sequence[int]) -> None:
    """Be, in a forked child, what a new process would be that was asked to run this; does not return."""
    status = 1
    try:
        from coterie import __main__

        words = _put_in_place(asked, streams)
        sys.argv = [str(__main__.__file__), *words]
        sys.modules["__main__"] = __main__
        if where := os.environ.pop(KILL, ""):
            killed.arm_at(where)
        if limits := os.environ.pop(LIMITS, ""):
            for kind, most in zip((resource.RLIMIT_AS, resource.RLIMIT_CPU), map(int, limits.split()), strict=True):
                resource.setrlimit(kind, (most, most))
        if "simulate" not in words and not any(word.startswith("--rehearse") for word in words):
            from coterie.execution.kernel import retries

            retries.BACKOFF_FIRST = 0.05  # a run in real time: the tests of retries are in virtual time
        status = __main__.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # what an interpreter does at its end, and in that order
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status & 0xFF)


def _put_in_place(asked: bytes, streams: Sequence[int]) -> list[str]:
    """Take over session, streams, folder, environment and path; return the words."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    parts = iter(os.fsdecode(asked).split("\0"))

    def several() -> list[str]:
        return [next(parts) for _ in range(int(next(parts)))]

    (path, folder), words, pairs = several(), several(), several()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(pair.partition("=")[::2] for pair in pairs)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # for as long as the process lasts
    sys.stdout = _output(1, "strict", at_once)
    sys.stderr = _output(2, "backslashreplace", at_once)
    sys.path.insert(0, path)
    return words


def _output(number: int, errors: str, at_once: bool):  # type: ignore[no-untyped-def]  # what `open` says it is
    lines = number == 2 or os.isatty(number)
    stream = open(number, "w", errors=errors, closefd=False, buffering=1 if lines else -1)  # noqa: SIM115
    stream.reconfigure(write_through=at_once)
    return stream


def load() -> None:
    """Load the command line, and all that its commands load later."""
    import coterie

    for name in ("asyncio", "concurrent.futures.thread", "argparse", "coterie.__main__"):
        importlib.import_module(name)

    def walk(path: Sequence[str], prefix: str) -> None:
        for found in pkgutil.iter_modules(path, prefix):
            if f"{found.name}.".startswith(LEFT_OUT):
                continue
            with contextlib.suppress(Exception):  # the commands that want it fail as they would
                module = importlib.import_module(found.name)
                if found.ispkg:
                    walk(module.__path__, f"{found.name}.")

    walk(coterie.__path__, "coterie.")


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file: no command finds its modules there
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever the tests themselves ignore
    load()
    unsynced.apply()
    gc.collect()  # what is loaded counts as old, which no child lives long enough to look through
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()
