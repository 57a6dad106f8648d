"""Events of roles that teams play: a team cannot call `emit`, so its outputs select the event."""

from collections.abc import Mapping
from typing import Any

from coterie.team.planning.loop import LoopPlan


def event_of(plan: LoopPlan, role: str, outputs: Mapping[str, Any]) -> str:
    """The first event of *role* whose condition holds for the *outputs* of its team; empty if there is none.

    As on an arrow, a missing output satisfies no condition.
    """
    for one in plan.roles:
        for event, when in (one.events or ()) if one.id == role else ():
            if when is None or (when.field in outputs and when.holds(outputs[when.field])):
                return event
    return ""


def is_team(plan: LoopPlan, role: str) -> bool:
    """Whether a team plays *role*."""
    return any(one.id == role and one.events is not None for one in plan.roles)
