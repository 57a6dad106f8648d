"""Agents of patterns that draw what they say: the same at the same turn, whoever is asked first and answers first."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from pattern_play import Performance, Says

from coterie.agents.backends.base import Request, Result
from coterie.history.engines.patterns.engine import calls_of
from coterie.history.engines.patterns.registry import Calls
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import Plan

Drawn = Callable[[Random, Request], Result]
"""What an agent says to a request, drawn at random."""


def chance(seed: int, drawn: Drawn, pace: int = 0) -> Says:
    """Says what *drawn* draws; *pace* says who is slow."""

    def says(path: str, request: Request) -> tuple[Result, float]:
        turn = f"{path} {request.turn}"
        return drawn(Random(f"{seed} {turn}"), request), Random(f"{pace} {turn}").uniform(0.1, 2)

    return says


def calls(plan: Plan) -> Calls:
    """How many turns each slot of *plan* has, by its formula."""
    assert isinstance(plan.coordination, PatternPlan)
    found = calls_of(plan.coordination, plan.agents)
    assert found is not None
    return found


def told(performance: Performance) -> dict[str, str]:
    """What was asked in each turn."""
    return {f"{path} {request.turn}": request.prompt for path, request in performance.asked}


def same_at_any_pace(plan: Plan, given: Mapping[str, Any], seed: int, drawn: Drawn) -> Performance:
    """A run with agents that draw what they say; it must not matter who is slow: same questions, same end."""
    one, other = (Performance(plan, given, chance(seed, drawn, pace)) for pace in (seed, seed + 1))
    assert told(one) == told(other)
    assert (one.ended.status, one.ended.reason, one.ended.result) == (
        other.ended.status,
        other.ended.reason,
        other.ended.result,
    )
    return one
