"""The output of a command: results go to standard output, everything else to standard error.

A closed pipe (`coterie runs | head -1`), a full disk and a closed terminal do not make a command fail: further output
is dropped, and a command that only prints what comes ends. A full disk or a closed terminal is reported once.
"""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from coterie.base.escapes import printable, printable_json
from coterie.base.waits import WaitNotices, mark_shown, waiting

if TYPE_CHECKING:
    from coterie.base.diagnostics import Diagnostic
    from coterie.interfaces.cli.json_log import JsonLog


def say(text: str) -> None:
    """Print *text*, which ends in no newline, as a result."""
    _write(sys.stdout, text + "\n")


def say_json(value: Any) -> None:
    """Print *value*, plain data or values of coterie, as one line of JSON."""
    import msgspec

    try:
        line = msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:  # half a surrogate pair, as in a file name that is not UTF-8: written as \\udcff
        import json

        line = json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"))
    say(printable_json(line))


def print_result(as_json: bool, value: Any, text: Callable[[], str]) -> None:
    """Print *value* as JSON if *as_json*, else the result of *text*."""
    if as_json:
        say_json(value)
    else:
        say(text())


def report(diagnostics: "Iterable[Diagnostic]", text: str) -> None:
    """Print *diagnostics* of a file that contains *text* on standard error."""
    for diagnostic in diagnostics:
        complain(diagnostic.render(text).rstrip("\n"))


_is_dropped = False


def is_dropped() -> bool:
    """Whether results are dropped, since the reader of standard output has gone, or it cannot be written."""
    return _is_dropped


def announce(line: str, *, on_stdout: bool = False) -> None:
    """Print *line* of a command that serves until it is ended: it waits for nothing any more."""
    (say if on_stdout else complain)(line)
    mark_shown()


def draws(stream: TextIO | None) -> bool:
    """Whether *stream* is a terminal that can replace what it shows, as in an editor's shell it cannot."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def rewrite(line: str) -> None:
    """Replace the last line on standard error with *line* if it is a terminal that can."""
    mark_shown()
    if draws(sys.stderr):
        sys.stderr.write(f"\r\x1b[K{printable(line)}")
        sys.stderr.flush()


def width() -> int | None:
    """Return the width of standard output in characters; None if it is not a terminal."""
    return _width(sys.stdout)


def fitting_width() -> int | None:
    """Return the width of standard output, or that which COLUMNS demands of a pipe, too."""
    demanded = os.environ.get("COLUMNS", "")
    return width() or (int(demanded) or None if demanded.isdecimal() else None)


def error_width() -> int | None:
    """Return the width of standard error in characters; None if it is not a terminal."""
    return _width(sys.stderr)


def _width(stream: TextIO | None) -> int | None:
    if stream is None or not stream.isatty():
        return None
    from shutil import get_terminal_size  # loads several decompressors

    return get_terminal_size().columns


def complain(text: str) -> None:
    """Print *text*, which ends in no newline, on standard error."""
    if _log is not None:
        _log.notice(text)
    else:
        _write(sys.stderr, text + "\n")


_log: "JsonLog | None" = None


def choose_log(log_format: str) -> "JsonLog | None":
    """Let standard error have lines of JSON, if *log_format* is `json`; return the log then."""
    global _log
    if _log is not None:
        _log.end()
    if log_format == "json":
        from coterie.interfaces.cli.json_log import JsonLog

        _log = JsonLog(lambda line: _write(sys.stderr, line + "\n"))
    else:
        _log = None
    return _log


def write(text: str) -> None:
    """Print *text* as a part of a result, and no newline."""
    _write(sys.stdout, text)


def prompt(text: str) -> None:
    """Print *text* on standard error, and no newline."""
    _write(sys.stderr, text)


def at_terminal() -> bool:
    """Whether the user can be asked: both sides of the dialogue are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def confirm(question: str) -> bool:
    """Whether the user answers *question* with yes."""
    prompt(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def prepare() -> None:
    """Escape characters that the terminal's encoding lacks, so that they do not make a command fail."""
    global _is_dropped
    _is_dropped = False
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Flush both streams, so that the interpreter does not complain about them when it exits."""
    for stream in (sys.stdout, sys.stderr):
        _write(stream, "")


waits = WaitNotices(lambda notice: complain(notice))
"""Says on standard error what a command waits for, if that takes long."""


def say_waits(command: str) -> AbstractContextManager[object]:
    """Name slow steps within the context on standard error, if it is a terminal; *command* is the outermost step."""
    if sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    context = ExitStack()
    context.enter_context(waiting(f"`coterie {command}` to finish"))
    context.enter_context(waits.watch())
    return context


def _write(stream: TextIO | None, text: str) -> None:
    global _is_dropped
    waits.note_output()
    if stream is None:  # closed by the caller: `coterie … >&-`
        return
    try:
        stream.write(printable(text))
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        _is_dropped |= stream is sys.stdout
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            complain(f"coterie: cannot write to standard output: {error.strerror}; further output is dropped")
