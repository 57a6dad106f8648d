"""Find the event that completes a loop soonest, which a role emits in a rehearsal without a script.

A state is the routing event with the missing required events; a step emits one allowed event.
"""

from collections.abc import Iterable

from coterie.history.engines.loop.verdict import View
from coterie.team.planning.loop import LoopPlan
from coterie.team.topology.events import COORDINATION, JOINED, PARALLEL, allowed, is_pattern, matches_any, suggested

Missing = frozenset[str]
FAR = 1 << 30
HARNESS = (PARALLEL, JOINED)
"""Suffixes of events that open a wave, or that only the harness emits."""


def default_event(plan: LoopPlan, view: View) -> str:
    """The event allowed by *view* from which the run completes in the fewest turns; empty if none is allowed.

    If several do, the first declared one; if none does, the first allowed one.
    """
    if view.review or view.over:
        return ""
    missing = frozenset(view.missing)
    choices = events_of(plan, view.allowed, view.anything)
    return min(choices, key=lambda event: turns_after(plan, event, missing), default="")


def events_of(plan: LoopPlan, allowed: Iterable[str], anything: bool = False) -> tuple[str, ...]:
    """The *allowed* events, each once; a pattern gives the events of the plan that it matches."""
    routed = (key for key, _ in plan.handoff if not is_pattern(key))
    named = tuple(dict.fromkeys((*plan.required, *routed, *([plan.completion] if plan.completion else ()))))
    if anything:
        return named
    found: dict[str, None] = {}
    for event in allowed:
        found |= dict.fromkeys([one for one in named if matches_any((event,), one)] if is_pattern(event) else [event])
    return tuple(event for event in found if event not in COORDINATION and not event.endswith(HARNESS))


def after(plan: LoopPlan, position: str) -> tuple[str, ...]:
    """The events allowed in a turn that *position* routes."""
    ids = [role.id for role in plan.roles]
    roles = suggested(plan.handoff, ids, position)
    return events_of(plan, allowed({role.id: role.emits for role in plan.roles}, roles), not ids)


def turns_after(plan: LoopPlan, event: str, missing: Missing) -> int:
    """The fewest turns from the one that emits *event* to the end, including it; `FAR` if the run cannot end."""
    reached, steps = {(event, missing)}, [(event, missing)]
    turns = 0
    while steps:
        turns += 1
        following: list[tuple[str, Missing]] = []
        for emitted, wanted in steps:
            if emitted == plan.completion:
                if not wanted:
                    return turns
                continue  # it is rejected
            left = wanted - {emitted}
            for next_event in after(plan, emitted):
                if (state := (next_event, left)) not in reached:
                    reached.add(state)
                    following.append(state)
        steps = following
    return FAR
