"""Records of replies that are streamed: what their readers get, in order, and can continue after an interruption."""

from typing import Any

from coterie.journal.records.base import Record


class ReplyPiece(Record, frozen=True, kw_only=True, tag="reply.piece", gc=False):
    """An agent gave a piece of its reply (`stream`), to an ask that wants pieces.

    Attributes:
        ask: The key of the ask. It cannot be guessed: with it a reader continues the stream.
    """

    ask: str
    agent: str
    payload: Any = None


class ReplyEnded(Record, frozen=True, kw_only=True, tag="reply.ended", gc=False):
    """An ask that wants pieces has its reply, or failed.

    Attributes:
        ask: The key of the ask.
        payload: The reply.
        kind: Empty: it has the reply; else `crashed`, `stopped`, `unknown`, `lost`, `timeout` or `failed`.
        reason: Why it failed.
    """

    ask: str
    agent: str
    payload: Any = None
    kind: str = ""
    reason: str = ""
