"""Records of the events that agents emit."""

from coterie.history.journal.records.base import Record


class EventEmitted(Record, frozen=True, kw_only=True, tag="event.emitted", gc=False):
    """An agent emitted an allowed event."""

    turn: str
    event: str
    payload: str = ""
    attempt: int = 0
    message: str = ""


class EventInvalid(Record, frozen=True, kw_only=True, tag="event.invalid", gc=False):
    """An agent emitted an event that was not allowed at that point.

    In a loop, *recent* is the event that led to the turn, and *suggested* has the roles that it led to.
    """

    turn: str
    event: str
    allowed: tuple[str, ...] = ()
    reason: str = ""
    attempt: int = 0
    message: str = ""
    recent: str = ""
    suggested: tuple[str, ...] = ()


class EventNoted(Record, frozen=True, kw_only=True, tag="event.noted", gc=False):
    """An agent emitted an event that is always allowed and does not route the loop."""

    turn: str
    event: str
    payload: str = ""
    attempt: int = 0
    message: str = ""
