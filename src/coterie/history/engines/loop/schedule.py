"""Decide before an iteration whether to stop, review or go on."""

from coterie.history.engines.loop.state import State
from coterie.team.planning.loop import LoopPlan

MOMENT = 0.001
"""Seconds that are too few to begin a turn."""


def most_iterations(plan: LoopPlan, state: State) -> int:
    """The most iterations of the run."""
    return max(0, plan.max_iterations) + state.added


def limit_reached(plan: LoopPlan, state: State) -> str:
    """The limit that prevents a further iteration; empty if there is none."""
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
    """Whether a review precedes the next iteration: one every `review.every` iterations, never before the first."""
    done = state.iteration
    if plan.review is None or not done or state.reviewed == done + 1:
        return False
    return done % max(1, plan.review.every) == 0
