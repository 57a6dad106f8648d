"""Records of streamed replies: their pieces in order, so that a reader can continue after an interruption."""

from typing import Any

from coterie.history.journal.records.base import Record


class ReplyPiece(Record, frozen=True, kw_only=True, tag="reply.piece", gc=False):
    """An agent streamed a piece of its reply (`stream`) to a request for a stream.

    Attributes:
        ask: The key of the request, with which a reader continues the stream. It cannot be guessed.
    """

    ask: str
    agent: str
    payload: Any = None


class ReplyEnded(Record, frozen=True, kw_only=True, tag="reply.ended", gc=False):
    """A streamed reply is complete, or has failed.

    Attributes:
        ask: The key of the request.
        payload: The reply.
        kind: Empty: the reply is complete; else `crashed`, `stopped`, `unknown`, `lost`, `timeout` or `failed`.
        reason: Why it failed.
    """

    ask: str
    agent: str
    payload: Any = None
    kind: str = ""
    reason: str = ""
