"""How a program's words and its end are read: its output as text, its exit status as a result."""

import codecs
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.backends.base import Failure, Text
from coterie.backends.classify import classify
from coterie.backends.secrets import Secrets, Veil
from coterie.errors import shortage

_LINE = 300
"""How much of a line of standard error is quoted, in characters."""


class Voice:
    """One output of a program: decoded, secrets hidden, and passed on as it comes; its end is kept.

    Args:
        channel: As `Text` names it.
        most: How many bytes of the end to keep; up to twice as many are in memory.
    """

    def __init__(self, channel: str, secrets: Secrets, say: Callable[[Text], None], most: int) -> None:
        self._channel, self._say, self._most = channel, say, most
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._veil = Veil(secrets)
        self._kept, self._size = bytearray(), 0

    @property
    def text(self) -> str:
        """What was said; of more than is kept the end, after a note on how much is left out."""
        kept = self._kept[-self._most :].decode("utf-8", "ignore")
        left_out = self._size - self._most
        return f"(the first {left_out} bytes of this output are left out)\n{kept}" if left_out > 0 else kept

    @property
    def last_line(self) -> str:
        """The last line that says anything."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1][:_LINE] if lines else ""

    def hear(self, data: bytes, final: bool = False) -> None:
        """Take in what the program wrote."""
        text = self._veil.feed(self._decoder.decode(data, final), final)
        if not text:
            return
        said = text.encode()
        self._size += len(said)
        self._kept += said
        if len(self._kept) > 2 * self._most:
            del self._kept[: -self._most]
        self._say(Text(text=text, channel=self._channel))

    def end(self) -> None:
        """Nothing more comes: let out what was held back."""
        self.hear(b"", final=True)


def exit_of(status: int) -> dict[str, Any]:
    """The fields of a failure that say how a program ended with *status*; below 0 it is the signal that ended it."""
    if status >= 0:
        return {"exit_code": status}
    return {"exit_code": 128 - status, "signal": _signal_name(-status)}


def failure_of(command: str, status: int, answer: Voice, log: Voice, *, of_agent: bool) -> Failure:
    """What it means that *command* ended with *status*, which is not 0; below 0 it is the signal that ended it.

    Args:
        of_agent: Whether what it printed may tell the kind. What an action or a gate prints is about the work.
    """
    if status < 0:
        what = f"`{command}` was ended by {_signal_name(-status)} ({-status})"
    else:
        what = f"`{command}` ended with status {status}"
    kind = "exit"
    if status == os.EX_TEMPFAIL:
        kind = "transient"
    elif status > 0 and of_agent:
        kind = classify(answer.text, log.text) or kind
    reason = f"{what}: {log.last_line}" if log.last_line else what
    return Failure(kind=kind, reason=reason, **exit_of(status))


def cannot_start(program: str, cwd: Path, error: OSError | ValueError) -> Failure:
    """Why *program* could not be started in *cwd*, and what to do."""
    if lacks := shortage(error, starting=True):
        return Failure(kind="shortage", reason=f"`{program}` cannot be started: {lacks}")
    if isinstance(error, ValueError):
        return Failure(kind="failed", reason=f"`{program}` cannot be started: an argument or variable holds a NUL")
    if not cwd.is_dir():
        return Failure(kind="not_found", reason=f"the working directory {cwd} is not there: create it, or change `cwd`")
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            kind = "not_found"
            why = "there is no such program: install it, or write its path (or its first line names no interpreter)"
        case errno.EACCES | errno.EPERM:
            kind, why = "not_found", "it may not be executed: `chmod +x` it, or name its interpreter first"
        case errno.ENOEXEC:
            kind, why = "not_found", "it is no program: begin it with a `#!` line, or name its interpreter first"
        case errno.E2BIG:
            kind, why = "failed", "its arguments and environment are too long: give the prompt on stdin or in a file"
        case _:
            kind, why = "failed", str(error)
    return Failure(kind=kind, reason=f"`{program}` cannot be started: {why}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
