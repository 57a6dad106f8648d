"""The worst case of a run that has begun: the most turns of its plan, at the prices that its own turns had so far."""

from collections.abc import Mapping

from msgspec import Struct

from coterie.planning.plan import Plan
from coterie.proofs.dispatch import check
from coterie.proofs.measures import Prices
from coterie.proofs.report import EXACT

STATES = 5_000
"""So many states are explored; with more the number is a bound."""


class WorstCase(Struct, frozen=True, kw_only=True):
    """The most that a run can take.

    Attributes:
        turns: None: unbounded, or not proved.
        cost: US dollars, if each turn costs as much as the most expensive one of its agent did; of an agent that has
            not run, of any. None without a cost so far.
        is_exact: Some run takes as many turns; else it may be fewer.
    """

    turns: int | None
    cost: float | None = None
    is_exact: bool = False


def worst_case(plan: Plan, prices: Mapping[str, float]) -> WorstCase:
    """The worst case of *plan*, with the price of a turn of each agent by its path."""
    known = Prices(turn=max(prices.values()), agents=dict(prices)) if any(prices.values()) else None
    report = check(plan, known, states=STATES)
    return WorstCase(
        turns=report.worst.turns if report.worst is not None else None,
        cost=report.cost.turns if report.cost is not None and report.worst is not None else None,
        is_exact=report.method == EXACT,
    )
