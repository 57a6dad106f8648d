"""Prove a plan with the prover of its kind of coordination."""

from collections.abc import Callable, Iterable, Iterator
from math import inf, isinf

from coterie.diagnostics import Severity
from coterie.planning.loop import LoopPlan
from coterie.planning.pattern import PatternPlan
from coterie.planning.plan import FlowPlan, Plan
from coterie.proofs import bounds
from coterie.proofs.exploration import OverBudget
from coterie.proofs.findings import FlowFacts, endless, findings, joins
from coterie.proofs.flow import Budget, FlowProof
from coterie.proofs.loop import prove_loop
from coterie.proofs.measures import Measures, Prices
from coterie.proofs.options import STATES, ProofOptions
from coterie.proofs.report import BOUND, EXACT, Case, Finding, Report
from coterie.proofs.spans import Places
from coterie.proofs.ways import NEVER, Amounts
from coterie.topology.model import Topology
from coterie.topology.patterns.kinds import KINDS

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
    prove = PROVERS.get(type(plan.coordination))
    if prove is None:
        return _unproved(plan, plan.name)
    return prove(plan, ProofOptions(prices=prices, states=states, topology=topology))


def prove_flow(plan: Plan, options: ProofOptions) -> Report:
    """Prove a flow: by all its states, or by counting when there are too many."""
    assert isinstance(plan.coordination, FlowPlan)
    teams = list(_teams(plan))
    for path, kind in teams:
        if not kind:
            return _unproved(plan, path)
    for path, kind in teams:
        if kind != "flow":
            return _counted(plan, options, Measures(plan, options.prices), "counted", f"{path!r} is a {kind}")
    measures, places = Measures(plan, options.prices), Places(plan.coordination, options.topology)
    budget = Budget(options.states)
    try:
        proof = FlowProof(plan, measures, budget)
    except OverBudget as why:
        return _counted(plan, options, measures, "too-many-states", str(why))
    states = options.states - budget.left
    if found := tuple(endless(proof, places)):
        return Report(plan=plan.name, method=EXACT, states=states, ends=False, worst=None, best=None, findings=found)
    facts = FlowFacts(proof, places)
    most, longest = proof.longest(halts=proof.halts)
    fewest, shortest = proof.shortest(lambda step: step.over == "completed")
    return Report(
        plan=plan.name,
        method=EXACT,
        states=states,
        ends=not any(each.space.again for each in proof.all()),
        worst=Case(turns=int(most[0]), agents=_agents(measures, most), script=longest().script()),
        best=None if isinf(fewest) else Case(turns=int(fewest), script=shortest().script()),
        cost=options.cost(most),
        joins=tuple(joins(facts)),
        findings=tuple(_by_severity(findings(facts))),
    )


def prove_pattern(plan: Plan, options: ProofOptions) -> Report:
    """Prove a pattern by the turn counts of its kind."""
    from coterie.proofs.pattern import prove_pattern  # few plans are one

    return prove_pattern(plan, options)


def _counted(plan: Plan, options: ProofOptions, measures: Measures, code: str, why: str) -> Report:
    most = bounds.at_most(plan, measures)
    is_bounded = most is not NEVER and most[0] < inf
    message = f"{why}: the numbers are counted from the arrows, and nothing is said of what can or cannot happen"
    note = Finding(code=code, severity=Severity.NOTE, message=message)
    return Report(
        plan=plan.name,
        method=BOUND,
        states=options.states if code == "too-many-states" else 0,
        ends=is_bounded,
        worst=Case(turns=int(most[0]), agents=_agents(measures, most)) if is_bounded else None,
        best=None,
        cost=options.cost(most) if is_bounded else None,
        findings=(note,),
    )


def _teams(plan: Plan, above: str = "") -> Iterator[tuple[str, str]]:
    """The nodes of teams, `node/node` below each other, and their kinds; empty for one that cannot be analysed."""
    for name, agent in plan.agents.items():
        if agent.child is not None:
            match agent.child.coordination:
                case FlowPlan():
                    yield above + name, "flow"
                case LoopPlan():
                    yield above + name, "loop"
                case PatternPlan(type=type) if type in KINDS:
                    yield above + name, "pattern"
                case _:
                    yield above + name, ""
            yield from _teams(agent.child, f"{above}{name}/")


def _unproved(plan: Plan, what: str) -> Report:
    message = f"nothing can be proved: what {what!r} does is known only when it runs"
    found = Finding(code="not-proved", severity=Severity.NOTE, message=message)
    return Report(plan=plan.name, method=BOUND, states=0, ends=False, worst=None, best=None, findings=(found,))


def _agents(measures: Measures, most: Amounts) -> dict[str, int]:
    return {path: int(most[n]) for n, path in enumerate(measures.paths, 1) if most[n] < inf}


def _by_severity(found: Iterable[Finding]) -> list[Finding]:
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


PROVERS: dict[type, Prover] = {FlowPlan: prove_flow, LoopPlan: prove_loop, PatternPlan: prove_pattern}
"""The prover of plans with a coordination of that class."""
