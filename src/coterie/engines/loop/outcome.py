"""What a team that answered for a role emits: it has no hands of its own, so its outputs choose the event."""

from collections.abc import Mapping
from typing import Any

from coterie.planning.loop import LoopPlan


def event_of(plan: LoopPlan, role: str, outputs: Mapping[str, Any]) -> str:
    """The first event of *role* whose condition holds of its team's *outputs*; empty: none, or no team answers for it.

    As on an arrow, an output that was never given satisfies nothing.
    """
    for one in plan.roles:
        for event, when in (one.events or ()) if one.id == role else ():
            if when is None or (when.field in outputs and when.holds(outputs[when.field])):
                return event
    return ""


def is_team(plan: LoopPlan, role: str) -> bool:
    """Whether a team answers for *role*."""
    return any(one.id == role and one.events is not None for one in plan.roles)
