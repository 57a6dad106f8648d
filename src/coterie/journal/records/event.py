"""Records of the events that agents emit."""

from coterie.journal.records.base import Record


class EventEmitted(Record, frozen=True, kw_only=True, tag="event.emitted", gc=False):
    """An agent emitted an event and it was allowed."""

    turn: str
    event: str
    payload: str = ""
    attempt: int = 0
    message: str = ""


class EventInvalid(Record, frozen=True, kw_only=True, tag="event.invalid", gc=False):
    """An agent emitted an event that was not allowed at that point.

    In a loop *recent* is the event that led to the turn, *suggested* the roles it led to.
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
    """An agent emitted an event that anyone may emit at any time: it leads nowhere."""

    turn: str
    event: str
    payload: str = ""
    attempt: int = 0
    message: str = ""
