"""Prove a flow: the numbers of its runs, and its findings."""

from collections.abc import Iterator
from math import inf, isinf

from coterie.base.diagnostics import Severity
from coterie.proofs import bounds
from coterie.proofs.exploration import OverBudget
from coterie.proofs.findings import FlowFacts, endless, findings, joins
from coterie.proofs.flow import Budget, FlowProof
from coterie.proofs.measures import Measures
from coterie.proofs.options import ProofOptions
from coterie.proofs.report import BOUND, EXACT, Case, Finding, Report, unproved
from coterie.proofs.sets import why_counted
from coterie.proofs.spans import Places
from coterie.proofs.ways import NEVER
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import FlowPlan, Plan
from coterie.team.topology.patterns.kinds import KINDS


def prove_flow(plan: Plan, options: ProofOptions) -> Report:
    """Prove a flow by exploring all its states, or by counting if there are too many."""
    assert isinstance(plan.coordination, FlowPlan)
    teams = list(_teams(plan))
    for path, kind in teams:
        if not kind:
            return unproved(plan, path)
    for path, kind in teams:
        if kind != "flow":
            return _counted(plan, options, Measures(plan, options.prices), "counted", f"{path!r} is a {kind}")
    if why := why_counted(plan):
        return _counted(plan, options, Measures(plan, options.prices), "counted", why)
    measures, places = Measures(plan, options.prices), Places(plan.coordination, options.topology)
    budget = Budget(options.states)
    try:
        proof = FlowProof(plan, measures, budget)
    except OverBudget as error:
        return _counted(plan, options, measures, "too-many-states", str(error))
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
        worst=measures.case(most, longest().script(), least=0),
        best=None if isinf(fewest) else Case(turns=int(fewest), script=shortest().script()),
        cost=options.cost(most),
        joins=tuple(joins(facts)),
        findings=tuple(sorted(findings(facts), key=lambda one: list(Severity).index(one.severity))),
    )


def _counted(plan: Plan, options: ProofOptions, measures: Measures, code: str, why: str) -> Report:
    most = bounds.at_most(plan, measures)
    is_bounded = most is not NEVER and most[0] < inf
    message = f"{why}: the counts come from the arrows alone, and what can or cannot happen is not checked"
    return Report(
        plan=plan.name,
        method=BOUND,
        states=options.states if code == "too-many-states" else 0,
        ends=is_bounded,
        worst=measures.case(most, least=0) if is_bounded else None,
        best=None,
        cost=options.cost(most) if is_bounded else None,
        findings=(Finding(code, Severity.NOTE, message),),
    )


def _teams(plan: Plan, above: str = "") -> Iterator[tuple[str, str]]:
    """The nodes that are teams, each with its kind, which is empty if it cannot be analysed.

    A team in a team is `node/node`.
    """
    for name, agent in plan.agents.items():
        if agent.child is not None:
            match agent.child.coordination:
                case FlowPlan():
                    yield above + name, "flow"
                case LoopPlan():
                    yield above + name, "loop"
                case PatternPlan() as own if own.type in KINDS or own.max_turns is not None:
                    yield above + name, "pattern"
                case _:
                    yield above + name, ""
            yield from _teams(agent.child, f"{above}{name}/")
