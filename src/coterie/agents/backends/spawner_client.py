"""The connection to the spawner of this process, which starts the programs of attempts and finds those that hide."""

import asyncio
import atexit
import marshal
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from coterie.agents.backends.agentside import spawner

_SECONDS = 30.0
"""How long the spawner may take to accept a request. It hangs only if it is stopped."""
_PATIENCE = 0.1


async def sweep() -> None:
    """End the processes that hide from their attempts: they have lost their parent, and carry no mark."""
    if not _SPAWNER.is_running:
        return
    swept, to_report = os.pipe()
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    try:
        try:
            send(marshal.dumps(None), [to_report])
        finally:
            os.close(to_report)
        loop.add_reader(swept, done.set)
        await done.wait()
    finally:
        loop.remove_reader(swept)
        os.close(swept)


class _Spawner:
    """The spawner of this process, which is started for the first request."""

    _channel: socket.socket | None = None
    _process: subprocess.Popen[bytes] | None = None

    def __init__(self) -> None:
        self._sending = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether it was started."""
        return self._channel is not None

    def send(self, request: bytes, fds: Sequence[int]) -> None:
        """Send *request* with *fds*; a spawner that was killed is replaced."""
        with self._sending:
            try:
                self._send(request, fds)
            except (BrokenPipeError, ConnectionResetError):
                self.close()
                self._send(request, fds)

    def _send(self, request: bytes, fds: Sequence[int]) -> None:
        if self._channel is None:
            self._channel = self._start()
        try:
            whole = spawner.LENGTH.pack(len(request)) + request
            sent = socket.send_fds(self._channel, [whole], fds)
            if sent < len(whole):
                self._channel.sendall(whole[sent:])
        except TimeoutError:  # it has read a part of the request
            self.close()
            raise

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-IS", spawner.__file__],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in (spawner.MARK, "LD_LIBRARY_PATH") if name in os.environ},
                start_new_session=True,
            )
        return ours

    def close(self) -> None:
        """End it, once the programs that it has started have ended."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            with suppress(subprocess.TimeoutExpired):  # programs outlive this process
                self._process.wait(_PATIENCE)
        self._channel = self._process = None

    def forget(self) -> None:
        """Begin without one in a fork of the process that has one."""
        if self._channel is not None:
            self._channel.close()
        self._channel = self._process = None
        self._sending = threading.Lock()


_SPAWNER = _Spawner()
send = _SPAWNER.send
atexit.register(_SPAWNER.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SPAWNER.forget)
