"""A program that speaks JSON on its standard input and output, one object per line."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from coterie.agents.backends.base import OnEvent, Text
from coterie.agents.backends.child import Child, spawn
from coterie.agents.backends.outcome import OutputReader
from coterie.agents.backends.processes import GRACE
from coterie.agents.backends.secrets import Secrets
from coterie.base import files

LONGEST_LINE = 64 << 20
"""The longest line that is read, in bytes; a longer one is left out, which is logged."""
TRANSCRIPT_MOST = 256 << 20
"""The largest size of a transcript in bytes, and the line that replaces the rest."""
LOG_LIMIT = 4_000
"""How many bytes of standard error are kept, from its end."""
LINGER = 1.0
"""Seconds that another process may keep the program's output open after it has ended."""
_QUOTED = 200
"""How many characters of a line that is not JSON the log quotes."""


class Transcript:
    """The append-only, private file with the lines of one attempt in order, without secrets."""

    def __init__(self, path: Path | None, secrets: Secrets) -> None:
        self._path, self._secrets = path, secrets.in_json()
        self._file: BinaryIO | None = None
        self._room = 0

    def add(self, line: str) -> None:
        """Append *line*. A write error is ignored, since no decision depends on the file."""
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
        """Stop storing lines."""
        self._path = None
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


class WireProcess:
    """A running program that speaks JSON lines; its standard error is passed on as text of the channel `log`.

    A line that is not a JSON object, such as a banner, is also passed on as log. Use `start` to make one.

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
        cls, argv: Sequence[str], *, env: dict[str, str], cwd: Path, marker: str, secrets: Secrets, on_event: OnEvent
    ) -> "WireProcess":
        """Start *argv* with processes marked with *marker*.

        Raises:
            OSError: If it cannot be started.
            ValueError: If an argument or a variable holds a NUL.
        """
        process = cls(marker, secrets, on_event)
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            spawn(argv, stdin=None, env=env, cwd=cwd, marker=marker, on_event=on_event, on_output=process._feed)
        )
        try:
            process.child = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # If cancelled during the start, asyncio would kill the process, but not its descendants, and wait for it.
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
        """Describe how the program ended before *missed*."""
        how = f"ended with status {self.child.status}" if self.child.exited.done() else "closed its output"
        last = self.log.last_line
        return f"the agent {how} before {missed}" + (f": {last}" if last else "")

    def attach(self, on_event: OnEvent, transcript: Transcript) -> None:
        """From now on pass its log to *on_event*, and store its lines in *transcript*."""
        self._on_event, self.transcript = on_event, transcript

    def send(self, message: dict[str, Any]) -> None:
        """Send *message*; it is lost if the program has ended or no longer reads."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self.child.write(line.encode("utf-8", "replace") + b"\n")

    def close_input(self) -> None:
        """Close its standard input, after which most agents end by themselves."""
        self.child.close_input()

    async def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None once the program has ended and nothing is left to read."""
        message = await self._lines.get()
        if message is None:
            self._lines.put_nowait(None)
        return message

    async def end(self, grace: float = GRACE) -> None:
        """End the program and everything it started, in any process group; idempotent.

        If cancelled, the program may be left; its owner must end it by its marker.
        """
        try:
            await self.child.end(grace)
            await self.child.drain(LINGER)
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
        if self._skipping:  # the end of an omitted line
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
        """Mark the end of messages once the program has ended and its output was read."""
        await asyncio.wait({self.child.exited})
        await self.child.drain(LINGER)
        if self._buffer:
            self._take(self._buffer)
            self._buffer.clear()
        self._lines.put_nowait(None)

    def _hear_log(self, text: Text) -> None:
        self._on_event(text)
