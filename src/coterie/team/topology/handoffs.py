"""Handoffs between the roles of a loop, for outlines and drawings."""

from collections.abc import Iterator

from coterie.team.topology.events import COORDINATION, JOINED, START, is_pattern, matches, suggested
from coterie.team.topology.loop import Handoff, Loop, Role


def handoffs(loop: Loop, role: Role) -> Iterator[Handoff]:
    """The events that *role* may emit and the roles each leads to, except events that cause no handoff.

    An event pattern leads to the roles of every key it matches; the event that completes the loop to none.
    """
    ids = [role.id for role in loop.roles]
    keys = [(one.event, one.targets) for one in loop.handoff]
    for event in dict.fromkeys(role.emits):
        if event == loop.completion:
            yield Handoff(event=event)
        elif event not in COORDINATION and not event.endswith(JOINED):
            fits = [key for key, _ in keys if is_pattern(event) and not is_pattern(key) and matches(event, key)]
            found = dict.fromkeys(to for each in fits or [event] for to in suggested(keys, ids, each))
            yield Handoff(event=event, targets=tuple(found))


def starters(loop: Loop) -> tuple[str, ...]:
    """The roles that may start the loop."""
    keys = [(one.event, one.targets) for one in loop.handoff]
    return suggested(keys, [role.id for role in loop.roles], START)
