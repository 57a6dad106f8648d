"""`coterie` as a process, at a tenth of its price: forked from one that has loaded the command line already.

Starting `coterie` costs a quarter of a second of imports, and hundreds of tests only run a command and look at what it
said. Here every process of tests has one server (`preforking`) that forks a child for each command. The child is a
process like any: its own session, folder, environment, standard streams and exit status.

What is about start-up or terminals starts a real process instead. So does everything here where the
variable `COTERIE_TESTS_REAL` is set, where the system has no process descriptors (`os.pidfd_open`), and for a command
whose environment tells Python how to start. `tests/interfaces/cli/test_cli_preforked.py` holds the two to the same.
"""

import atexit
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import killed
import preforking
from programs import program

REAL = [sys.executable, "-m", "coterie"]
"""The command line as a process of its own."""

_AFTER_START = {"PYTHONUNBUFFERED"}
"""What the environment can tell Python that a forked child can still do."""

_SHIM = """import _signal, _socket, os, select

words = [os.fsencode(word) for word in __import__("sys").argv[1:]]
lists = [[{path!r} or os.getcwdb(), os.getcwdb()], words, [name + b"=" + value for name, value in os.environb.items()]]
asked = b"\\0".join(b"\\0".join([b"%d" % len(one), *one]) for one in lists)
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
streams = b"".join(number.to_bytes(4, {order!r}) for number in range(3))
server.sendmsg([len(asked).to_bytes(8, {order!r})], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(asked)
signalled, wakeup = os.pipe()
os.set_blocking(wakeup, False)
_signal.set_wakeup_fd(wakeup)
poller = select.poll()
poller.register(server, select.POLLIN)
poller.register(signalled, select.POLLIN)


def told():
    while server.fileno() not in dict(poller.poll()):  # a signal just before a `recv` would wait for its end
        os.read(signalled, 99)
    return int.from_bytes(server.recv(8, _socket.MSG_WAITALL), {order!r}, signed=True)


child = told()
for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
    _signal.signal(number, lambda number, frame: os.kill(child, number))
_signal.signal(_signal.SIGUSR2, lambda number, frame: os.kill(child, _signal.SIGKILL))
status = told()
if status < 0:
    if -status != _signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def run(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 120.0, kill: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run `coterie` with *words* in *cwd*, with nothing to read, and return what it said once both outputs are closed.

    With *kill* it dies there, as `killed` says.

    Raises:
        TimeoutExpired: If that takes longer than *timeout*, in seconds; the command is killed.
    """
    environment = dict(os.environ if env is None else env)
    if not can_fork(environment):
        return really(*words, cwd=cwd, env=environment, timeout=timeout, kill=kill)
    if kill:
        environment[preforking.KILL] = kill
    asked = preforking.packed(str(cwd), words, str(cwd), list(environment.items()))
    with socket.socket(socket.AF_UNIX) as server, open(os.devnull, "rb") as nothing:
        server.connect(_address())
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            streams = [nothing.fileno(), out_end, err_end]
            socket.send_fds(server, [preforking.NUMBER.pack(len(asked))], streams)
            server.sendall(asked)
        finally:
            os.close(out_end)
            os.close(err_end)
        said = _read([out, err], [*words], timeout)
        server.settimeout(timeout)
        _, status = (preforking.NUMBER.unpack(server.recv(8, socket.MSG_WAITALL))[0] for _ in range(2))
    return subprocess.CompletedProcess(["coterie", *words], status, *said)


def really(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 120.0, kill: str = ""
) -> "subprocess.CompletedProcess[str]":
    """The same with a process of its own."""
    return subprocess.run(
        [*_real(kill), *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # whatever the tests themselves ignore
    )


class _Forked(subprocess.Popen[str]):
    """A stand-in for a forked `coterie`; `kill` kills that, so that it is dead once this has ended."""

    def send_signal(self, sig: int) -> None:
        super().send_signal(signal.SIGUSR2 if sig == signal.SIGKILL else sig)


def start(*words: str, env: Mapping[str, str] | None = None, kill: str = "", **options: Any) -> "subprocess.Popen[str]":
    """Start `coterie` with *words* and the *options* of `subprocess.Popen`, with nothing to read.

    With *kill* it dies there, as `killed` says. With a `preexec_fn` or an input it is a process of its own; signals are
    as a shell hands them on.
    """
    environment = dict(os.environ if env is None else env)
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    plain = options["stdin"] == subprocess.DEVNULL and "preexec_fn" not in options
    if plain and can_fork(environment):
        environment |= {preforking.KILL: kill} if kill else {}
        return _Forked([_module(), *words], env=environment, text=True, **options)
    options = {"preexec_fn": partial(signal.signal, signal.SIGHUP, signal.SIG_DFL), **options}
    return subprocess.Popen([*_real(kill), *words], env=environment, text=True, **options)


def start_quietly(*words: str, cwd: Path, kill: str = "") -> "subprocess.Popen[str]":
    """As `start`, without its output."""
    return start(*words, cwd=cwd, kill=kill, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _real(kill: str) -> list[str]:
    return [sys.executable, killed.__file__, kill] if kill else REAL


def shim(folder: Path) -> Path | None:
    """A `coterie` in *folder*, to be put on the path, that has its commands forked; None where they are to be real."""
    return _stand_in(folder, os.path.dirname(sys.executable)) if can_fork(os.environ) else None


@cache
def _module() -> Path:
    """What stands in for `python -m coterie`."""
    return _stand_in(Path(_address()).parent, "")


def _stand_in(folder: Path, path: str) -> Path:
    """A program in *folder*; *path* is where Python looks first for modules, the working directory if empty."""
    file = folder / "coterie"
    text = program(_SHIM.format(path=os.fsencode(path), address=_address(), order=sys.byteorder), "-IS")
    file.write_text(text)
    file.chmod(0o755)
    return file


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a command with *environment* need not be a process of its own."""
    told = {name for name in environment.keys() | os.environ.keys() if name.startswith("PYTHON")} - _AFTER_START
    differs = any(environment.get(name) != os.environ.get(name) for name in told)
    return hasattr(os, "pidfd_open") and not os.environ.get("COTERIE_TESTS_REAL") and not differs


def _read(pipes: list[int], words: list[str], timeout: float) -> list[str]:
    """All that is written to *pipes*, which are closed."""
    said = {pipe: bytearray() for pipe in pipes}
    end = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        try:
            while selector.get_map():
                ready = selector.select(end - time.monotonic())
                if not ready:
                    late = subprocess.TimeoutExpired(["coterie", *words], timeout)
                    late.add_note(b"\n".join(said.values()).decode(errors="replace"))
                    raise late
                for key, _ in ready:
                    if more := os.read(key.fd, 1 << 16):
                        said[key.fd] += more
                    else:
                        selector.unregister(key.fd)
        finally:
            for pipe in pipes:
                os.close(pipe)
    return [text.decode().replace("\r\n", "\n") for text in said.values()]


def start_server() -> None:
    """Start the server of this process now, if it can fork, rather than at the first command; wait until it answers."""
    if can_fork(os.environ):
        run("--version", cwd=Path("/"))


@cache
def _address() -> str:
    """Where the server of this process listens; it is started when it is first wanted, and ends with this process."""
    folder = tempfile.mkdtemp(prefix="coterie-")
    address = os.path.join(folder, "server")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, preforking.__file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        server.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return address
