"""The envelope of all messages to actors."""

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

RUNTIME = "_runtime"
"""The sender of messages that do not come from an agent."""

TURN = "turn"
"""The type of a message with a turn of a run; only the run repeats it, so `on_error` cannot."""

TURN_FAILED = "turn.failed"
"""The type of a reply to a failed turn; its payload has the keys `kind` and `reason`."""

STEER, INTERRUPT, STATUS = "turn.steer", "turn.interrupt", "turn.status"
TURN_CONTROLS = frozenset({STEER, INTERRUPT, STATUS})
"""Types of messages about a queued or current turn (`turn` in the payload); the process answers them itself."""

REFUSED = "_refused"
"""The type of a reply with an error, an `AskRefusal`."""

CORRECTION, TERMINATED = "_correction", "_terminated"
"""Types of messages that call `on_correction` and `on_child_terminated` instead of `handle`."""

EVAL_EVENT = "_eval"
"""The type of a message with an event for an eval agent."""

MONITOR = "_monitor"
"""The type of an ask between nodes that is answered when the recipient's incarnation ends."""

BETWEEN_NODES = frozenset({CORRECTION, EVAL_EVENT, TERMINATED})
"""The reserved types that another node of the system may send."""

AHEAD = 1 << 20
"""The priority of messages of the runtime itself; agents use lower ones."""


class Message(Struct, frozen=True, repr_omit_defaults=True, array_like=True):
    """A message from one actor to another. Within a process the payload is passed without a copy.

    Attributes:
        id: 16 hexadecimal digits, also the id of the span between sending and the end of handling.
        sender: The name of an agent, or `_runtime`.
        sent_at: Unix seconds.
        trace_id: The id of the message that began the chain of messages.
        parent_span_id: The id of the message during whose handling this one was sent.
        correlation_id: In a reply, the id of the message that it answers.
        reply_to: The node that waits for a reply; None: nothing waits.
        attempt: Above 1 if `on_error` chose RETRY, or a transport delivered it again.
        priority: Messages above 0 go ahead of others, the highest first.
        stream: For an ask that wants a streamed reply, the key of the records of its pieces.
        origin: An id that stays the same if the message is sent again after a kill because its sender handles its own
            message again: the origin of that message, and the number of this one within its handling. Empty: the chain
            of messages did not begin with a recorded one.
    """

    id: str
    type: str
    sender: str
    recipient: str
    payload: Any = None
    sent_at: float = 0.0
    trace_id: str = ""
    parent_span_id: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    attempt: int = 1
    priority: int = 0
    stream: str = ""
    origin: str = ""

    @property
    def span_id(self) -> str:
        """The id of its span, equal to that of the message."""
        return self.id


class Asker(Struct, frozen=True):
    """The asker of a question.

    Attributes:
        name: The sender: an agent, or `_runtime`.
        waiting: The agent whose handler waits for the reply, if the caller is not that handler itself.
        stream: The key of the records of the reply's pieces, if a stream is wanted.
        origin: An id that stays the same if this ask is repeated after a kill; empty: it has none.
    """

    name: str = RUNTIME
    waiting: str = ""
    stream: str = ""
    origin: str = ""


OUTSIDE = Asker()
"""The asker of messages that do not come from an agent."""


class AskRefusal(Struct, frozen=True, omit_defaults=True):
    """Why an ask has no answer, as plain data, which the asker's node turns into an error.

    Attributes:
        kind: `crashed`, `stopped`, `unknown` or `lost`.
        agent: The recipient of the ask.
        reason: The error, or why the agent stopped.
    """

    kind: str
    agent: str
    reason: str = ""
    trace: str = ""


IN_HAND: ContextVar[Message | None] = ContextVar("IN_HAND", default=None)
"""The message that the running code is handling; tasks that a handler starts inherit it."""

NUMBERS: ContextVar[Iterator[int]] = ContextVar("NUMBERS")
"""Numbers of the messages sent while handling a message with an origin."""


def origin_in(held: Message | None) -> str:
    """The origin of the next message that is sent while *held* is being handled."""
    return f"{held.origin}/{next(NUMBERS.get())}" if held is not None and held.origin else ""
