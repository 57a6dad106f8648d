"""Records of the gates of an agent: commands that must succeed before its answer or event counts."""

from typing import Any

from coterie.history.journal.records.base import NO_USAGE, Record, Usage


class GatesDue(Record, frozen=True, kw_only=True, tag="gates.due", gc=False):
    """An attempt answered or emitted an event, which counts only if its gates pass; the verdict is a later record.

    Attributes:
        gates: The commands to run, in order, each an argv list.
        event: The emitted event, with its *payload*; empty: the attempt answered with *text* and *outputs*.
        brought_by: The message that brought it.
        usage: The usage of the attempt, if it answered.
    """

    turn: str
    attempt: int
    gates: tuple[tuple[str, ...], ...]
    event: str = ""
    payload: str = ""
    text: str = ""
    outputs: dict[str, Any] | None = None
    usage: Usage = NO_USAGE
    brought_by: str = ""


class GateChecked(Record, frozen=True, kw_only=True, tag="gate.checked", gc=False):
    """A gate has run; after the first that does not pass, no other runs.

    Attributes:
        argv: The command.
        passed: Whether its exit status was 0.
        status: Its exit status, as in a shell; None: it was not started, or took too long.
        reason: Why it did not pass.
        output: The end of its output.
        seconds: How long it ran.
    """

    turn: str
    attempt: int
    argv: tuple[str, ...]
    passed: bool = False
    status: int | None = None
    reason: str = ""
    output: str = ""
    seconds: float = 0.0
