"""A command in a pseudo-terminal, and what a person sees there."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

_PART = re.compile(
    r"\x1b\[(?P<numbers>[?\d;]*)(?P<verb>[A-Za-z])|(?P<other>[\x00-\x1f\x7f])|(?P<text>[^\x00-\x1f\x7f])"
)


class Screen:
    """A run of `coterie` in a terminal of *columns* columns, with all that it wrote there.

    Attributes:
        shown: What was written since the last `until`.
        written: Everything.
    """

    def __init__(self, folder: Path, columns: int, *words: str, environment: Mapping[str, str] | None = None) -> None:
        self.columns = columns
        self._terminal, line = pty.openpty()
        ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        size = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coterie", *words],
            stdin=line,
            stdout=line,
            stderr=line,
            cwd=folder,
            env={**os.environ, **size, **(environment or {})},
        )
        os.close(line)
        self.shown = self.written = ""

    def until(self, text: str) -> str:
        """Read until *text* is shown, and return what was written up to then since the last call."""
        deadline = time.monotonic() + 300
        while text not in self.shown:
            ready, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} was never shown: {self.shown[-2000:]!r}"
            self.shown += os.read(self._terminal, 65536).decode("utf-8", "replace")
        before, _, self.shown = self.shown.partition(text)
        self.written += before + text
        return before + text

    def type(self, line: str) -> None:
        """Type *line* and press Enter."""
        os.write(self._terminal, f"{line}\n".encode())

    def picture(self) -> str:
        """What is on the screen, scrolled lines included."""
        return picture(self.written, self.columns)

    def close(self) -> None:
        """End the command and the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


def picture(written: str, columns: int) -> str:
    """What a terminal of *columns* columns shows after *written*, without colours; scrolled lines are kept.

    Raises:
        ValueError: For a control sequence that it does not know.
    """
    lines, row, column = [""], 0, 0
    for part in _PART.finditer(written):
        number = int(part["numbers"]) if (part["numbers"] or "").isdigit() else 1
        match part["verb"] or part["other"] or "":
            case "":
                if column == columns:
                    row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
                lines[row] = lines[row].ljust(column)[:column] + part["text"] + lines[row][column + 1 :]
                column += 1
            case "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            case "\r":
                column = 0
            case "A":
                row = max(row - number, 0)
            case "K":
                lines[row] = "" if part["numbers"] == "2" else lines[row][:column]
            case "m" | "h" | "l":
                pass  # colours, and whether the cursor is visible
            case other:
                raise ValueError(f"unknown control sequence: {other!r}")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")
