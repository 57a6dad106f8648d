"""Prove what can be proved of a plan before it runs."""

from coterie.planning.plan import Plan
from coterie.proofs import STATES, Prices, Report
from coterie.proofs.question import Question
from coterie.runs.kinds import kind_of
from coterie.topology.model import Topology


def check(
    plan: Plan, prices: Prices | None = None, *, states: int = STATES, topology: Topology | None = None
) -> Report:
    """Prove what can be proved of *plan*, by the prover of its kind. Nothing is run, read or written.

    Args:
        prices: What a turn costs; without it nothing is said of cost.
        states: How many states may be looked at. Beyond that, numbers are bounds, and no run is shown.
        topology: What the plan was made of, for the places of findings.
    """
    return kind_of(plan).prove(Question(prices=prices, states=states, topology=topology))
