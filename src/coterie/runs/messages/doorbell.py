"""The doorbell of a run: the Unix socket through which a living owner answers the sender of a message at once.

Its path is in `<run>/control.json`, and the link `<run>/bell` leads to it. The kernel says which process rings.
"""

import asyncio
import errno
import hashlib
import json
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie import files
from coterie.backends.agentside import delivery
from coterie.errors import JournalFailed
from coterie.runs.messages import Verdict

SOCKET_PATH_MOST = 100
"""Bytes; longer socket paths do not bind."""


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
        self._link = folder / delivery.BELL

    async def open(self) -> None:
        """Bind the socket and publish its path; do nothing while the socket is there. Where it fails, nothing rings."""
        if self._server is not None and self._socket.exists():
            return
        if self._server is not None:
            self._server.close()
        with suppress(OSError):
            _clear_dead(self._socket.parent)
            self._server = await asyncio.start_unix_server(self._answer, sock=_listening(self._socket))
            part = self._folder / ".control.part"
            files.write(part, json.dumps({"socket": str(self._socket), "pid": os.getpid()}).encode())
            part.rename(self._folder / "control.json")
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._socket)

    def close(self) -> None:
        """Remove what `open` made, and nothing of another owner's. Idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None
            for writer in self._rings:
                writer.transport.abort()
            with suppress(OSError):
                self._socket.unlink(missing_ok=True)
                (self._folder / "control.json").unlink(missing_ok=True)
                self._link.unlink(missing_ok=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._rings.add(writer)
        try:
            name, _, form = (await reader.readline()).decode().strip().partition(" ")
            verdict = await self._judge(name, _peer(writer.get_extra_info("socket")))
            plain = f"{verdict.status}\n{verdict.detail}".encode()
            writer.write(plain if form == delivery.PLAIN else msgspec.json.encode(verdict) + b"\n")
            await writer.drain()
        except (OSError, ValueError, JournalFailed, asyncio.CancelledError):
            pass  # the sender has gone, sent no id, or this owner is over: the sender sees that itself
        finally:
            writer.close()
            self._rings.discard(writer)


def _peer(bell: socket.socket) -> int:
    """Return the pid of the process at the other end of *bell*; 0 where the system does not tell."""
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
    """A socket at *path*, which is there from the moment on that it listens."""
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


def _clear_dead(folder: Path) -> None:
    """Remove the sockets of owners that were killed. Where the kernel lists those of the living, none of them rings."""
    bound = ""
    with suppress(OSError):
        bound = Path("/proc/net/unix").read_text(errors="replace")
    for path in folder.glob("*.sock"):
        if str(path.with_suffix(".new")) in bound:  # the name that it was bound to
            continue
        with socket.socket(socket.AF_UNIX) as bell, suppress(OSError):
            bell.setblocking(False)
            if bell.connect_ex(str(path)) == errno.ECONNREFUSED:
                path.unlink()


def socket_path(folder: Path) -> Path:
    """A path for the doorbell of the run in *folder*, in the per-user runtime directory, short enough to bind."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16] + ".sock"
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        if not base or not Path(base).is_dir():
            continue
        home = Path(base) / f"coterie-{os.getuid()}"
        if len(os.fsencode(home / name)) > SOCKET_PATH_MOST:
            continue
        try:
            home.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        found = home.lstat()  # /tmp is everybody's: no link that somebody left there, and no folder others write to
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return home / name
    return folder / "bell.sock"
