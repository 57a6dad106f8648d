"""The worst case of a run that has begun: the most turns of its plan, at the prices that its own turns had so far."""

from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from coterie.planning.plan import Plan
from coterie.proofs.dispatch import check
from coterie.proofs.measures import Prices
from coterie.proofs.report import EXACT
from coterie.views.costs import Costs, costs, dearest
from coterie.views.live import LiveRun
from coterie.views.rows import run_row

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


class CostsAndBound(Costs, frozen=True, kw_only=True):
    """The costs of a run, and the worst case that is proved of its plan."""

    worst: WorstCase | None


def costs_and_bound(
    live: LiveRun, bound: Callable[[Plan, Mapping[str, float]], WorstCase] = worst_case
) -> CostsAndBound:
    """What the root run of *live* cost, and the worst case of its plan at the prices of its turns, by *bound*."""
    known = live.runs[live.run]
    found = costs(live.costs.values(), live.run, run_row(known).max_cost)
    worst = bound(known.plan.plan, dearest(found)) if known.plan.plan is not None else None
    return CostsAndBound(**structs.asdict(found), worst=worst)
