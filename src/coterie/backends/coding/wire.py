"""A program that speaks JSON on its standard input and output, one object per line."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from coterie import files
from coterie.backends.base import OnEvent, Text
from coterie.backends.child import Child, spawn
from coterie.backends.outcome import OutputReader
from coterie.backends.processes import GRACE, end_group
from coterie.backends.secrets import Secrets

LONGEST_LINE = 64 << 20
"""Bytes of a line that is read; a longer one is left out, and the log says so."""
TRANSCRIPT_MOST = 256 << 20
"""Bytes of a transcript, and a line that says that the rest is left out."""
LOG_LIMIT = 4_000
"""Bytes of standard error that are kept, from the end."""
LINGER = 1.0
"""Seconds that another process may keep the program's output open after it has ended."""
_QUOTED = 200
"""Characters of a line that is not JSON that the log quotes."""


class Transcript:
    """The file that keeps the lines of one attempt as they came, without secrets. It is private, and only appended."""

    def __init__(self, path: Path | None, secrets: Secrets) -> None:
        self._path, self._secrets = path, secrets.in_json()
        self._file: BinaryIO | None = None
        self._room = 0

    def add(self, line: str) -> None:
        """Append *line*; nothing is decided from the file, so that it cannot be written is no failure."""
        if self._path is None:
            return
        try:
            if self._file is None:
                files.make_folder(self._path.parent)
                self._file = files.open_private(self._path, "ab")
                self._room = TRANSCRIPT_MOST - self._file.tell()
            data = self._secrets.hide(line).encode("utf-8", "replace") + b"\n"
            if len(data) > self._room:
                data = b'{"kind":"log","text":"(the rest is not kept)"}\n' if self._room > 0 else b""
                self._room = 0
            self._room -= len(data)
            self._file.write(data)
            self._file.flush()
        except OSError:
            self.close()

    def close(self) -> None:
        """Keep no more lines."""
        self._path = None
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


class WireProcess:
    """A running program that speaks JSON lines; its standard error is passed on as text of the channel `log`.

    A line that is no JSON object, such as a banner, is passed on as log, too. Use `start` to make one.

    Attributes:
        log: Its standard error.
        child: The process.
    """

    child: Child

    def __init__(self, marker: str, secrets: Secrets, on_event: OnEvent) -> None:
        self._marker, self._on_event = marker, on_event
        self._buffer = bytearray()
        self._lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._skipping = False
        self._closer: asyncio.Task[None] | None = None
        self.log = OutputReader("log", secrets, self._hear_log, LOG_LIMIT)
        self.transcript = Transcript(None, secrets)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: dict[str, str],
        cwd: Path,
        marker: str,
        secrets: Secrets,
        on_event: OnEvent,
    ) -> "WireProcess":
        """Start *argv*; its processes are marked with *marker*.

        Raises:
            OSError: If it cannot be started.
            ValueError: If an argument or a variable holds a NUL.
        """
        process = cls(marker, secrets, on_event)
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            spawn(
                argv,
                stdin=None,
                env=env,
                cwd=cwd,
                marker=marker,
                on_event=on_event,
                on_output=process._feed,
            )
        )
        try:
            process.child = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Cancelled while it starts, asyncio would kill the process, but not what that has started, and wait for it.
            await asyncio.wait({starting})
            if starting.exception() is None:
                process.child = starting.result()
                await process.end(0.0)
            raise
        process._closer = loop.create_task(process._close_lines())
        return process

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return not self.child.exited.done()

    def last_words(self, missed: str) -> str:
        """How the program ended before *missed*."""
        how = f"ended with status {self.child.status}" if self.child.exited.done() else "closed its output"
        last = self.log.last_line
        return f"the agent {how} before {missed}" + (f": {last}" if last else "")

    def attach(self, on_event: OnEvent, transcript: Transcript) -> None:
        """Pass on what it says from now on to *on_event*, and keep it in *transcript*."""
        self._on_event, self.transcript = on_event, transcript

    def send(self, message: dict[str, Any]) -> None:
        """Send *message*; a program that has ended, or reads no longer, does not get it."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self.child.write(line.encode("utf-8", "replace") + b"\n")

    def close_input(self) -> None:
        """Close its standard input: most agents end by themselves then."""
        self.child.close_input()

    async def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None once the program has ended and nothing is left to read."""
        message = await self._lines.get()
        if message is None:
            self._lines.put_nowait(None)
        return message

    async def end(self, grace: float = GRACE) -> None:
        """End the program and everything it started, wherever it is; idempotent.

        Cancelled, it lets go of the program, which its owner has to end by its marker.
        """
        try:
            await end_group(self.child.pid, self._marker, grace=grace)
            await asyncio.wait({self.child.finished}, timeout=LINGER)
        finally:
            self.child.close()
        if self._closer is not None:
            await asyncio.wait({self._closer}, timeout=2 * LINGER)
        self.log.end()

    def _feed(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.log.feed(data)
            return
        self._buffer += data
        if b"\n" in data:
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                self._take(line)
        if len(self._buffer) > LONGEST_LINE:
            self._buffer.clear()
            if not self._skipping:
                self._hear_log(Text(text=f"(a line of more than {LONGEST_LINE} bytes is left out)\n", channel="log"))
            self._skipping = True

    def _take(self, line: bytes | bytearray) -> None:
        if self._skipping:  # the end of a line that was left out
            self._skipping = False
            return
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return
        self.transcript.add(text)
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            self._lines.put_nowait(message)
        else:
            self.log.feed(f"not JSON on standard output: {text[:_QUOTED]}\n".encode())

    async def _close_lines(self) -> None:
        """End the messages once the program has ended and its output was read."""
        await asyncio.wait({self.child.exited})
        await asyncio.wait({self.child.finished}, timeout=LINGER)
        if self._buffer:
            self._take(self._buffer)
            self._buffer.clear()
        self._lines.put_nowait(None)

    def _hear_log(self, text: Text) -> None:
        self._on_event(text)
