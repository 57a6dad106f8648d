"""The worst case of a run that has begun: the maximum turns of its plan, at the prices of its turns so far."""

from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from coterie.history.views.costs import Costs, costs, dearest
from coterie.history.views.live import LiveRun
from coterie.history.views.rows import run_row
from coterie.proofs.dispatch import check
from coterie.proofs.measures import Prices
from coterie.proofs.report import EXACT
from coterie.team.planning.plan import Plan

STATES = 5_000
"""The maximum number of states to explore; with more the number is a bound."""


class WorstCase(Struct, frozen=True, kw_only=True):
    """The maximum turns and cost of a run.

    Attributes:
        turns: The maximum number of turns; None: unbounded, or not proved.
        cost: The maximum cost in US dollars, if each turn costs as much as the most expensive one so far of its agent,
            or of any agent if its agent has not run. None without a cost so far.
        is_exact: Whether some run takes as many turns; otherwise the true maximum may be lower.
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
    """The costs of a run, and the proved worst case of its plan."""

    worst: WorstCase | None


def costs_and_bound(
    live: LiveRun, bound: Callable[[Plan, Mapping[str, float]], WorstCase] = worst_case
) -> CostsAndBound:
    """The cost of the root run of *live*, and by *bound* the worst case of its plan at the prices of its turns."""
    known = live.runs[live.run]
    found = costs(live.costs.values(), live.run, run_row(known).max_cost)
    worst = bound(known.plan.plan, dearest(found)) if known.plan.plan is not None else None
    return CostsAndBound(**structs.asdict(found), worst=worst)
