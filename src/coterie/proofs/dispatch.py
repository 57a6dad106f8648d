"""Prove a plan with the prover of its kind of coordination."""

from collections.abc import Callable
from pkgutil import resolve_name

from coterie.kinds import kind_of
from coterie.planning.plan import Plan
from coterie.proofs.measures import Prices
from coterie.proofs.options import STATES, ProofOptions
from coterie.proofs.report import Report, unproved
from coterie.topology.model import Topology

Prover = Callable[[Plan, ProofOptions], Report]
"""Proves plans of one kind of coordination: pure, deterministic, and never more than what was computed."""


def check(
    plan: Plan, prices: Prices | None = None, *, states: int = STATES, topology: Topology | None = None
) -> Report:
    """Prove what can be proved of *plan*. Nothing is run, read or written.

    Args:
        prices: The price of a turn; without it the report has no cost.
        states: The most states to explore. Beyond that, numbers are bounds, and no run is shown.
        topology: The source of the plan, for the places of findings.
    """
    prover = kind_of(plan).prover
    if not prover:
        return unproved(plan, plan.name)
    prove: Prover = resolve_name(prover)
    return prove(plan, ProofOptions(prices=prices, states=states, topology=topology))
