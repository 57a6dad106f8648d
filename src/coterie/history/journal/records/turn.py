"""Records of turns."""

from typing import Any

from coterie.history.journal.records.base import NO_USAGE, Record, Usage


class TurnStarted(Record, frozen=True, kw_only=True, tag="turn.started", gc=False):
    """An attempt of a turn is about to start. This intent is durable before the agent is called.

    Attributes:
        attempt: Its number, from 1.
        inputs: The turns whose results marked it, in the source order of the arrows.
        prompt: SHA-256 of the prompt, in hex; the text itself follows from the journal.
        used: The parts of the prompt that no other record holds, by name: `memory`, `tasks` and `tool` of a loop,
            `file:NAME` for a file that an agent `reads` (null: it is missing), `said` for the output of an attempt
            that was interrupted.
        reserved: US dollars of the budget that are set aside until the attempt has ended.
        session: The agent's session, begun by an earlier attempt, in which this one goes on.
        asked: SHA-256 of the question of a pattern, in hex: its agent, texts, values and wanted outputs. A resumed
            pattern must ask it again.
        question: The beginning and the end of the text of that question, for people.
        set: The set whose item it works on, if it does.
        item: The number of that item, from 1, and how many items the set has; *item_hash* is SHA-256 of its value as
            JSON, in hex, and *item_name* what people call it: a short text, or the `name`, `id` or `path` of an object.
    """

    turn: str
    agent: str
    attempt: int = 1
    inputs: tuple[str, ...] = ()
    prompt: str = ""
    used: dict[str, str | None] = {}
    session: str = ""
    reserved: float = 0.0
    asked: str = ""
    question: str = ""
    set: str = ""
    item: tuple[int, int] | None = None
    item_hash: str = ""
    item_name: str = ""


class TurnFinished(Record, frozen=True, kw_only=True, tag="turn.finished", gc=False):
    """A turn has its result and never runs again. *message* is the inbox message that brought it, if any.

    *promised*: its text has the promise that completes a loop; *promise_refused*: why a promise in it did not count.
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
    """A turn was cancelled; later replies are ignored.

    *usage*: the usage of its child run by then, including the runs below it.
    """

    turn: str
    reason: str = ""
    usage: Usage = NO_USAGE


class OutputsGiven(Record, frozen=True, kw_only=True, tag="outputs.given", gc=False):
    """An agent gave outputs of its turn before its answer; they count unless the answer replaces them."""

    turn: str
    outputs: dict[str, Any]
    attempt: int = 0
    message: str = ""
