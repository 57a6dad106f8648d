"""What comes before an iteration: a reason to stop, a review, or nothing."""

from coterie.engines.loop.state import State
from coterie.planning.loop import LoopPlan

MOMENT = 0.001
"""Seconds that are too few to begin anything in."""


def most_iterations(plan: LoopPlan, state: State) -> int:
    """Iterations the run may have."""
    return max(0, plan.max_iterations) + state.added


def limit_reached(plan: LoopPlan, state: State) -> str:
    """Why there is to be no further iteration; empty if nothing speaks against one."""
    if state.iteration >= most_iterations(plan, state):
        return "max_iterations"
    if plan.max_runtime and state.time.seconds >= plan.max_runtime - MOMENT:
        return "max_runtime"
    if plan.max_cost and state.cost >= plan.max_cost:
        return "cost_budget"
    if plan.stall and state.same >= plan.stall:
        return "stalled"
    return ""


def review_is_due(plan: LoopPlan, state: State) -> bool:
    """Whether a review comes before the next iteration: every so many of them, never before the first."""
    done = state.iteration
    if plan.review is None or not done or state.reviewed == done + 1:
        return False
    return done % max(1, plan.review.every) == 0
