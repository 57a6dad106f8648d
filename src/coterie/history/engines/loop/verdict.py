"""Whether an event that an agent emits is allowed: one function for the harness, for `coterie emit` and for tests."""

from msgspec import Struct

from coterie.history.engines.commands import Emit
from coterie.history.engines.loop.objectives import NoObjectives, objectives
from coterie.history.journal.records import EventEmitted, EventInvalid, EventNoted
from coterie.team.topology.events import COORDINATION, EXPLORE, JOINED, PARALLEL, matches_any

NAME_MOST = 200
"""The most characters of an event's name, which every later prompt shows."""
Verdict = EventEmitted | EventInvalid | EventNoted


class View(Struct, frozen=True, kw_only=True):
    """The input of a verdict, fixed at the start of the turn except for events accepted since.

    Attributes:
        recent: The event that led to this turn.
        suggested: The roles that it routes to.
        allowed: The events they may emit; `/…/` is a regular expression. Empty allows none.
        anything: Whether every event is allowed, because there are no roles.
        completion: The event that completes the run; empty if there is none.
        missing: The required events that were not accepted yet.
        branches: The most branches of a wave; 0 if waves are off.
        waving: Whether a wave was opened in this turn.
        review: Whether the turn is a review.
        over: Whether the turn has ended or never began.
    """

    recent: str = ""
    suggested: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    anything: bool = False
    completion: str = ""
    missing: tuple[str, ...] = ()
    branches: int = 0
    waving: bool = False
    review: bool = False
    over: bool = False


def verdict(view: View, emit: Emit) -> Verdict:
    """The record of *emit*: accepted, noted, or rejected with the reason and the allowed events."""
    noted = emit.event in COORDINATION
    if not noted and (reason := _rejection(view, emit)):
        return rejected(view, emit, reason)
    kind = EventNoted if noted else EventEmitted
    return kind(turn=emit.turn, event=emit.event, payload=emit.payload, attempt=emit.attempt, message=emit.message)


def rejected(view: View, emit: Emit | EventEmitted, reason: str) -> EventInvalid:
    """The record of an event that is rejected because of *reason*."""
    return EventInvalid(
        turn=emit.turn,
        event=emit.event,
        allowed=view.allowed,
        suggested=view.suggested,
        recent=view.recent,
        reason=reason,
        attempt=emit.attempt,
        message=emit.message,
    )


def _rejection(view: View, emit: Emit) -> str:
    """Why *emit* is rejected; empty if it is accepted."""
    event = emit.event
    if not event:
        return "an event needs a name"
    if len(event) > NAME_MOST:
        return f"the name of an event has at most {NAME_MOST} characters, and this one has {len(event)}"
    if view.over:
        return "the turn it belongs to is over (stale)"
    if view.review:
        return "a review cannot emit events"
    if view.waving:
        return "this turn has opened a wave; its later events do not count"
    if event.endswith(JOINED):
        return f"only the harness emits {event!r}"
    if event.endswith(PARALLEL):
        return _no_wave(view, emit)
    if not _is_allowed(view, event):
        return _not_allowed(view, event)
    if event == view.completion:
        return incomplete(view.missing, emit.open_tasks)
    return ""


def incomplete(missing: tuple[str, ...], open_tasks: tuple[str, ...]) -> str:
    """Why the run cannot complete yet; empty if it can."""
    if missing:
        return f"before completion, these events must be accepted: {', '.join(missing)}"
    if open_tasks:
        return f"before completion, these tasks must be done: {', '.join(open_tasks)}"
    return ""


def _no_wave(view: View, emit: Emit) -> str:
    base = emit.event[: -len(PARALLEL)]
    if not view.branches:
        return "waves are not available here (parallel.enabled is off, or this is a branch of a wave)"
    if not base or base == view.completion or base in COORDINATION or base.endswith((PARALLEL, JOINED)):
        return f"no wave can be opened for {base!r}"
    if base != EXPLORE and not _is_allowed(view, base):
        return _not_allowed(view, base)
    try:
        objectives(emit.payload, view.branches)
    except NoObjectives as why:
        return str(why)
    return ""


def _is_allowed(view: View, event: str) -> bool:
    return view.anything or matches_any(view.allowed, event)


def _not_allowed(view: View, event: str) -> str:
    return (
        f"{event!r} is not allowed after {view.recent!r} (roles: {', '.join(view.suggested) or 'none'}); "
        f"allowed: {', '.join(view.allowed) or 'none'}"
    )
