"""Handoffs between the roles of a loop, for outlines and drawings."""

from collections.abc import Iterator
from dataclasses import dataclass

from coterie.topology.events import COORDINATION, JOINED, START, is_pattern, matches, suggested
from coterie.topology.loop import Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Handing:
    """An event of a role and the roles it leads to.

    Attributes:
        targets: The roles it leads to. An event pattern leads to the roles of every key it matches. Empty for the
            event that completes the loop.
    """

    role: str
    event: str
    targets: tuple[str, ...] = ()


def handings(loop: Loop) -> Iterator[Handing]:
    """Every event a role may emit, role by role, except events that cause no handoff."""
    ids = [role.id for role in loop.roles]
    handoff = [(one.event, one.targets) for one in loop.handoff]
    for role in loop.roles:
        for event in dict.fromkeys(role.emits):
            if event == loop.completion:
                yield Handing(role=role.id, event=event)
            elif event not in COORDINATION and not event.endswith(JOINED):
                fits = [key for key, _ in handoff if is_pattern(event) and not is_pattern(key) and matches(event, key)]
                found = dict.fromkeys(to for each in fits or [event] for to in suggested(handoff, ids, each))
                yield Handing(role=role.id, event=event, targets=tuple(found))


def starters(loop: Loop) -> tuple[str, ...]:
    """The roles that may start the loop."""
    handoff = [(one.event, one.targets) for one in loop.handoff]
    return suggested(handoff, [role.id for role in loop.roles], START)
