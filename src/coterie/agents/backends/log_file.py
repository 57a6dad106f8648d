"""The file for what a foreign program writes on its standard error or logs: private, bounded, without secrets."""

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from coterie.agents.backends.base import Event, Text
from coterie.agents.backends.outcome import OutputReader
from coterie.agents.backends.secrets import Secrets
from coterie.base import files

MOST = 4 << 20
"""The largest file in bytes; what a program writes afterwards is counted."""


class LogFile:
    """Keeps the beginning of a log, and how many bytes are left out. A write error ends it, since nothing reads it.

    Args:
        path: The file, which is continued; None: nothing is kept.
    """

    def __init__(self, path: Path | None, secrets: Secrets, most: int = MOST) -> None:
        self._file: BinaryIO | None = None
        self._left_out = 0
        if path is not None:
            files.make_folder(path.parent)
            self._file = files.open_private(path, "ab")
        self._room = most - (self._file.tell() if self._file is not None else 0)
        self._lines = OutputReader("log", secrets, self.hear, 0)

    def write(self, text: str) -> None:
        """Append *text*, which may contain secrets; one that is split between two texts is found, too."""
        self._lines.feed(text.encode("utf-8", "replace"))

    def hear(self, event: Event) -> None:
        """Append the text of *event*, in which secrets are redacted."""
        if not isinstance(event, Text) or self._file is None:
            return
        data = event.text.encode("utf-8", "replace")
        kept = data[: max(self._room, 0)]
        self._room -= len(kept)
        self._left_out += len(data) - len(kept)
        self._append(kept)

    def close(self) -> None:
        """Add how much is left out."""
        self._lines.end()
        if self._left_out:
            self._append(f"\n(the last {self._left_out} bytes of this log are left out)\n".encode())
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _append(self, data: bytes) -> None:
        try:
            if data and self._file is not None:
                self._file.write(data)
                self._file.flush()
        except OSError:
            self._file = None
