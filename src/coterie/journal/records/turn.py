"""Records of turns."""

from typing import Any

from coterie.journal.records.base import NO_USAGE, Record, Usage


class TurnStarted(Record, frozen=True, kw_only=True, tag="turn.started", gc=False):
    """An attempt of a turn is about to start: the intent, durable before the agent hears of it.

    Attributes:
        attempt: From 1.
        inputs: The turns whose results marked it, in the source order of the arrows.
        prompt: SHA-256 of the prompt, in hex; the text itself follows from the journal.
        used: The parts of the prompt that no other record holds, by name: `memory`, `tasks` and `tool` of a loop,
            `file:NAME` for a file that an agent `reads` (null: it is missing), `said` for the output of an attempt
            that was interrupted.
        reserved: US dollars of the budget that are set aside until the attempt has ended.
        session: The agent's session, begun by an earlier attempt, in which this one goes on.
    """

    turn: str
    agent: str
    attempt: int = 1
    inputs: tuple[str, ...] = ()
    prompt: str = ""
    used: dict[str, str | None] = {}
    session: str = ""
    reserved: float = 0.0


class TurnFinished(Record, frozen=True, kw_only=True, tag="turn.finished", gc=False):
    """A turn has its result; it is never run again. *message* is the inbox message that brought it, if one did.

    *promised*: its text completes a loop by the promise; *promise_refused*: why a promise in it did not count.
    """

    turn: str
    attempt: int
    text: str = ""
    outputs: dict[str, Any] = {}
    usage: Usage = NO_USAGE
    message: str = ""
    promised: bool = False
    promise_refused: str = ""


class TurnFailed(Record, frozen=True, kw_only=True, tag="turn.failed", gc=False):
    """A turn failed for good, after all its attempts."""

    turn: str
    kind: str
    reason: str


class TurnCancelled(Record, frozen=True, kw_only=True, tag="turn.cancelled", gc=False):
    """A turn was called off; later replies are ignored.

    *usage*: what the child run that it is had used by then, the runs below it included.
    """

    turn: str
    reason: str = ""
    usage: Usage = NO_USAGE


class OutputsGiven(Record, frozen=True, kw_only=True, tag="outputs.given", gc=False):
    """An agent gave outputs of its turn before it answered; they count unless its answer says otherwise."""

    turn: str
    outputs: dict[str, Any]
    attempt: int = 0
    message: str = ""
