"""Prove a plan with the prover of its kind of coordination."""

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

from coterie.execution.kinds import kind_of
from coterie.execution.runs.api import load
from coterie.execution.runs.api import plan as planned
from coterie.proofs.measures import Prices
from coterie.proofs.options import STATES, ProofOptions
from coterie.proofs.report import Report, unproved
from coterie.team.planning.plan import Plan
from coterie.team.topology.model import Topology

Prover = Callable[[Plan, ProofOptions], Report]
"""Proves plans of one kind of coordination; pure and deterministic, and claims only computed facts."""


def check(
    team: Plan | Topology | str | Path,
    prices: Prices | None = None,
    *,
    states: int = STATES,
    topology: Topology | None = None,
) -> Report:
    """Prove the properties of *team*, as far as possible: that it ends, what it takes, what never happens.

    No backend is called, and nothing is written.

    Args:
        team: A plan, a team, or the path of a team's file.
        prices: The price of a turn; without it the report has no cost.
        states: The maximum number of states to explore. If there are more, numbers are bounds, and no run is shown.
        topology: The source of the plan, for the places of findings.

    Raises:
        TopologyError: If the team is invalid, or nothing in it can run.
    """
    if isinstance(team, str | Path):
        team = load(team)
    if isinstance(team, Topology):
        topology = topology or team
    plan = team if isinstance(team, Plan) else planned(team)
    prover = kind_of(plan).prover
    if not prover:
        return unproved(plan, plan.name)
    prove: Prover = resolve_name(prover)
    return prove(plan, ProofOptions(prices=prices, states=states, topology=topology))
