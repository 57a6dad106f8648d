"""A user at a terminal of 80 columns and 24 lines, who types ahead."""

import contextlib
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from coterie.interfaces.cli.app import main


class Shown(NamedTuple):
    """What a command returned, what its terminal showed, and its standard output, which is not the terminal."""

    status: int
    screen: str
    out: str


def at_terminal(folder: Path, *words: str, keys: str = "") -> Shown:
    """Run `coterie` with *words* in this process, its input and its standard error at a terminal on which *keys* wait.

    After the keys the input ends, as by Ctrl-D.
    """
    keyboard, line = pty.openpty()
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    mode = termios.tcgetattr(line)
    mode[3] &= ~termios.ECHO  # else what is typed ahead is shown before the question
    termios.tcsetattr(line, termios.TCSANOW, mode)
    os.write(keyboard, keys.encode() + b"\x04")
    screen, out = bytearray(), io.StringIO()
    reading = threading.Thread(target=_read, args=(keyboard, screen))
    reading.start()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), _streams(line):
        status = main(words)
    os.close(line)
    reading.join()
    os.close(keyboard)
    return Shown(status, screen.decode().replace("\r\n", "\n"), out.getvalue())


@contextlib.contextmanager
def _streams(line: int) -> Iterator[None]:
    with (
        open(os.dup(line), encoding="utf-8") as keys,
        open(os.dup(line), "w", encoding="utf-8") as screen,
        patch.object(sys, "stdin", keys),
        patch("coterie.base.waits.SILENCE", inf),  # a busy machine would show what it waits for
        patch.object(sys, "stderr", screen),
        patch.dict(os.environ, {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}),
    ):
        yield


def _read(keyboard: int, screen: bytearray) -> None:
    with contextlib.suppress(OSError):  # nobody holds the other side any longer
        while data := os.read(keyboard, 65536):
            screen += data
