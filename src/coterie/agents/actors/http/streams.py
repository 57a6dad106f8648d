"""Streamed replies as server-sent events.

The cursor of a stream is the seq of a record in the journal of the system, so a client that reconnects continues after
its last event, even if the process was restarted.
"""

import re
from typing import Any

from coterie.agents.actors.plain import written
from coterie.agents.actors.reply_streams import ReplyRecord
from coterie.history.journal.records import ReplyPiece

_CURSOR = re.compile(r"(\d{1,18})-([0-9a-f]{32})")


def cursor(seq: int, ask: str) -> str:
    """The id of an event, which a client that reconnects sends as `Last-Event-ID`."""
    return f"{seq}-{ask}"


def read_cursor(text: str) -> tuple[int, str] | None:
    """The seq and the ask of a `Last-Event-ID`; None if it is not of this form."""
    found = _CURSOR.fullmatch(text.strip())
    return (int(found[1]), found[2]) if found else None


def crashed(agent: str) -> str:
    """The text about a crash for clients; the text of the exception is only for the journal."""
    return f"agent {agent!r} crashed"


def event(kind: str, id: str, data: Any) -> bytes:
    """A server-sent event with JSON as its data."""
    return b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), id.encode(), written(data, "an event"))


def event_of(record: ReplyRecord | None) -> bytes:
    """The event of a record: `piece`, `reply` or `error`; None is a comment."""
    if record is None:
        return b": still here\n\n"
    id = cursor(record.seq, record.ask)
    if isinstance(record, ReplyPiece):
        return event("piece", id, record.payload)
    if record.kind:
        reason = crashed(record.agent) if record.kind == "crashed" else record.reason or record.kind
        return event("error", id, {"error": reason, "kind": record.kind})
    return event("reply", id, record.payload)
