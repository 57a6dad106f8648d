"""Where what a command says goes: results to standard output, everything else to standard error.

A reader that goes away (`coterie runs | head -1`), a disk that is full and a terminal that was closed do not disturb a
command: what is said after that is dropped, and but for the first case that is told once.
"""

import os
import shutil
import sys
from typing import Any, TextIO

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
"""What an agent says may not steer the terminal that shows it: control characters are shown, not sent."""


def say(text: str) -> None:
    """Print *text*, which ends in no newline, as a result."""
    _write(sys.stdout, text + "\n")


def say_json(value: Any) -> None:
    """Print *value*, plain data or values of coterie, as one line of JSON."""
    import msgspec

    try:
        line = msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:  # half a surrogate pair: a file name that is not UTF-8, say; it is written as \\udcff
        import json

        line = json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"))
    say(line)


def width() -> int | None:
    """How wide standard output is, in characters; None where it is no terminal and nothing has to fit."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def complain(text: str) -> None:
    """Print *text*, which ends in no newline, on standard error."""
    _write(sys.stderr, text + "\n")


def prepare() -> None:
    """Make sure that no character a terminal cannot show ends a command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Hand over what was said, before the interpreter would do so and complain."""
    for stream in (sys.stdout, sys.stderr):
        _write(stream, "")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed by the caller: `coterie … >&-`
        return
    try:
        stream.write(text.translate(_CONTROL))
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            complain(f"coterie: standard output cannot be written: {error.strerror}; what is left of it is dropped")
