"""The doorbell of a run: the Unix socket through which a living owner answers the sender of a message at once.

Its path is in `<run>/control.json`, and the link `<run>/bell` leads to it. The operating system identifies the process
that rings.
"""

import asyncio
import errno
import hashlib
import json
import math
import os
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie.agents.backends import wrapper
from coterie.agents.backends.agentside import delivery
from coterie.base import files
from coterie.errors import JournalFailed
from coterie.execution.runs.messages import Verdict

CONTROL = "control.json"
SOCKET_PATH_MOST = 100
"""The longest socket path that can be bound, in bytes."""
SWEEP_EVERY = 60.0
"""Seconds between two searches for what dead owners left, whose cost grows with the sockets of the machine."""
_SWEPT = "swept"
"""The file whose time says when the runtime folder was last searched."""


class Doorbell:
    """Answers each ring with the verdict on the message that it names.

    Args:
        folder: The root run's folder.
        judge: Returns the verdict on a message, given its id and the pid of the process that rings (0: not known).
    """

    def __init__(self, folder: Path, judge: Callable[[str, int], Awaitable[Verdict]]) -> None:
        self._folder, self._judge = folder, judge
        self._server: asyncio.Server | None = None
        self._rings = set[asyncio.StreamWriter]()
        self._socket = socket_path(folder)
        self._link, self._attempts = folder / delivery.BELL, wrapper.link_of(folder)

    async def open(self) -> None:
        """Bind the socket and publish its path, unless it exists. On failure the run has no doorbell."""
        if self._server is not None and self._socket.exists():
            return
        if self._server is not None:
            self._server.close()
        with suppress(OSError):
            _sweep(self._socket.parent)
        with suppress(OSError):
            self._server = await asyncio.start_unix_server(self._answer, sock=_listening(self._socket))
            part = self._folder / ".control.part"
            files.write(part, json.dumps({"socket": str(self._socket), "pid": os.getpid()}).encode())
            part.rename(self._folder / CONTROL)
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._socket)
            wrapper.link(self._folder, self._folder.absolute())

    def close(self) -> None:
        """Remove the files that `open` made, but none of another owner. Idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None
            for writer in self._rings:
                writer.transport.abort()
            with suppress(OSError):
                self._socket.unlink(missing_ok=True)
                (self._folder / CONTROL).unlink(missing_ok=True)
                self._link.unlink(missing_ok=True)
                wrapper.unlink(self._attempts)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._rings.add(writer)
        try:
            name, _, form = (await reader.readline()).decode().strip().partition(" ")
            verdict = await self._judge(name, _peer(writer.get_extra_info("socket")))
            plain = f"{verdict.status}\n{verdict.detail}".encode()
            writer.write(plain if form == delivery.PLAIN else msgspec.json.encode(verdict) + b"\n")
            await writer.drain()
        except (OSError, ValueError, JournalFailed, asyncio.CancelledError):
            pass  # the sender has gone or sent no id, or this owner has ended: the sender notices this itself
        finally:
            writer.close()
            self._rings.discard(writer)


def _peer(bell: socket.socket) -> int:
    """Return the pid of the process at the other end of *bell*; 0 if the system does not provide it."""
    with suppress(OSError):
        if hasattr(socket, "SO_PEERCRED"):
            size = struct.calcsize("3i")
            pid, _, _ = struct.unpack("3i", bell.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
            return int(pid)
        if sys.platform == "darwin":
            local, peer_pid = 0, 2  # SOL_LOCAL, LOCAL_PEERPID
            return bell.getsockopt(local, peer_pid)
    return 0


def _listening(path: Path) -> socket.socket:
    """Make a socket at *path*, which appears only once the socket listens."""
    part = path.with_suffix(".new")
    part.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(str(part))
        made.listen(100)
        part.rename(path)
    except OSError:
        made.close()
        raise
    return made


def _sweep(folder: Path) -> None:
    """Clear *folder* of what dead owners left, unless one has just done so."""
    swept, age = folder / _SWEPT, math.inf
    with suppress(FileNotFoundError):
        age = time.time() - swept.stat().st_mtime
    if not 0 <= age < SWEEP_EVERY:
        files.write(swept, b"")
        _clear_dead(folder)


def _clear_dead(folder: Path) -> None:
    """Remove the sockets of owners that were killed, and links to attempts of runs that were removed."""
    for link in folder.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)
    for path in [*folder.glob("*.sock"), *folder.glob("*.new")]:  # an owner may die before it renames its socket
        # a living socket refuses one of another type, before it rings
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe, suppress(OSError):
            if probe.connect_ex(str(path)) == errno.ECONNREFUSED:
                path.unlink()


def socket_path(folder: Path) -> Path:
    """A path for the doorbell of the run in *folder*, in the runtime folder, short enough to bind."""
    name = hashlib.sha256(os.fsencode(files.real_path(folder))).hexdigest()[:16] + ".sock"
    return (files.runtime_folder() or folder) / name
