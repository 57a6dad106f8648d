"""Interpret a program's output as text, and its exit status as a result."""

import codecs
import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.agents.backends.base import Failure, Text
from coterie.agents.backends.secrets import Secrets, StreamRedactor
from coterie.base.shortages import shortage

_LINE = 300
"""How many characters of a line of standard error are quoted."""


class OutputReader:
    """Decodes one output of a program, redacts secrets, and passes it on as it comes; keeps its end.

    Args:
        channel: The channel, as in `Text`.
        most: How many bytes of the end are kept; up to twice as many are in memory.
    """

    def __init__(self, channel: str, secrets: Secrets, say: Callable[[Text], None], most: int) -> None:
        self._channel, self._say, self._most = channel, say, most
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._redactor = StreamRedactor(secrets)
        self._kept, self._size = bytearray(), 0

    @property
    def text(self) -> str:
        """The output; if it is longer than the limit, its end, after a note about how much is left out."""
        kept = self._kept[-self._most :].decode("utf-8", "ignore")
        left_out = self._size - self._most
        return f"(the first {left_out} bytes of this output are left out)\n{kept}" if left_out > 0 else kept

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1][:_LINE] if lines else ""

    def feed(self, data: bytes, final: bool = False) -> None:
        """Add output of the program."""
        text = self._redactor.feed(self._decoder.decode(data, final), final)
        if not text:
            return
        said = text.encode()
        self._size += len(said)
        self._kept += said
        if len(self._kept) > 2 * self._most:
            del self._kept[: -self._most]
        self._say(Text(text=text, channel=self._channel))

    def skip(self, size: int) -> None:
        """Skip *size* lost bytes."""
        self._size += size

    def end(self) -> None:
        """End the output, and pass on withheld text."""
        self.feed(b"", final=True)


def exit_of(status: int) -> dict[str, Any]:
    """The exit fields of a failure for a program that ended with *status*; negative: the signal that ended it."""
    if status >= 0:
        return {"exit_code": status}
    return {"exit_code": 128 - status, "signal": _signal_name(-status)}


def failure_of(command: str, status: int, answer: OutputReader, log: OutputReader, *, of_agent: bool) -> Failure:
    """The failure of *command*, which ended with *status*, not 0; negative: the signal that ended it.

    Args:
        of_agent: Whether to classify the failure by its output; the output of an action or a gate is about the work.
    """
    from coterie.agents.backends.classify import classify, end_of  # their expressions take 4 ms; few programs fail
    from coterie.agents.backends.coding.limits import until_reset

    if status < 0:
        what = f"`{command}` was ended by {_signal_name(-status)} ({-status})"
    else:
        what = f"`{command}` ended with status {status}"
    kind, wait = "exit", 0.0
    if status == os.EX_TEMPFAIL:
        kind = "transient"
    elif status > 0 and of_agent:
        kind = classify(answer.text, log.text) or kind
    if kind in ("rate_limited", "quota"):
        wait = until_reset(end_of(answer.text, log.text), time.time())
    reason = f"{log.last_line} ({what})" if log.last_line else what  # a row of a terminal may only show its beginning
    return Failure(kind=kind, reason=reason, wait=wait, **exit_of(status))


def cannot_start(program: str, cwd: Path, error: OSError | ValueError) -> Failure:
    """The failure to start *program* in *cwd*, with advice."""
    if lacks := shortage(error, starting=True):
        return Failure(kind="shortage", reason=f"`{program}` cannot be started: {lacks}")
    if isinstance(error, ValueError):
        return Failure(kind="failed", reason=f"`{program}` cannot be started: an argument or variable holds a NUL")
    if not cwd.is_dir():
        return Failure(
            kind="not_found", reason=f"the working directory {cwd} does not exist: create it, or change `cwd`"
        )
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            kind = "not_found"
            why = "program not found: install it, or write its path (or correct the interpreter in its first line)"
        case errno.EACCES | errno.EPERM:
            kind, why = "not_found", "it is not executable: `chmod +x` it, or name its interpreter first"
        case errno.ENOEXEC:
            kind, why = "not_found", "it is not a program: begin it with a `#!` line, or name its interpreter first"
        case errno.E2BIG:
            kind, why = "failed", "its arguments and environment are too long: pass the prompt on stdin or in a file"
        case _:
            kind, why = "failed", str(error)
    return Failure(kind=kind, reason=f"`{program}` cannot be started: {why}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
