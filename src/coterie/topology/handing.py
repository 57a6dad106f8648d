"""Who hands work to whom in a loop: for whoever shows or draws it."""

from collections.abc import Iterator
from dataclasses import dataclass

from coterie.topology.loop import Loop
from coterie.topology.routing import COORDINATION, JOINED, START, is_pattern, matches, suggested


@dataclass(frozen=True, slots=True, kw_only=True)
class Handing:
    """An event of a role, and where it leads.

    Attributes:
        targets: The roles it leads to; what a pattern may emit leads where the keys do that it fits. Empty when it
            completes the loop.
    """

    role: str
    event: str
    targets: tuple[str, ...] = ()


def handings(loop: Loop) -> Iterator[Handing]:
    """Every event that a role may emit, role by role; those that move nothing are left out."""
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
    """The roles that the loop may begin with."""
    handoff = [(one.event, one.targets) for one in loop.handoff]
    return suggested(handoff, [role.id for role in loop.roles], START)
