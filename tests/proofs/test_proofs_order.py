"""Leaving out orders that do not matter leaves nothing else out."""

from typing import Any

import pytest
from parts import parts
from proof_flows import proof_plan

from coterie.proofs.findings import FlowFacts
from coterie.proofs.flow import Budget, FlowProof, answered
from coterie.proofs.measures import Measures
from coterie.proofs.order import Order
from coterie.proofs.spans import Places
from coterie.team.planning.plan import FlowPlan, Plan

pytestmark = pytest.mark.once


def known(plan: Plan, *, every_order: bool) -> Any:
    """All that is proved of *plan*: numbers, what can happen, and what single steps show."""
    assert isinstance(plan.coordination, FlowPlan)
    proof = FlowProof(plan, Measures(plan), Budget(10**5), may_fail=every_order)
    if proof.space.endless is not None:
        return "endless"
    facts = FlowFacts(proof, Places(plan.coordination, None))
    lasts = set(facts.lasts())

    def completes(step: Any) -> bool:
        return bool(step.over == "completed")

    def without_lasts(step: Any) -> bool:
        return answered(step) and not any(turn.node in lasts for turn in step.started)

    return (
        proof.longest()[0],
        proof.shortest(completes)[0],
        proof.shortest(completes, without_lasts)[0],
        facts.ran,
        facts.fired,
        facts.held,
        facts.known,
        set(facts.shown),
        {(turn.node, facts.partial(turn)) for turn in facts.starts},
    )


def different(seeds: range) -> list[int]:
    plans = {seed: proof_plan(seed, most=9) for seed in seeds}
    return [s for s, plan in plans.items() if known(plan, every_order=True) != known(plan, every_order=False)]


@parts(6)
def test_one_order_shows_what_every_order_shows(part: int) -> None:
    """600 random flows of up to 9 nodes, with conditions on others' outputs, shared loops, phases and scopes."""
    assert different(range(part * 100, (part + 1) * 100)) == []


def test_an_order_too_few_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """In many of these flows the order does matter."""
    monkeypatch.setattr(Order, "_is_free", lambda self, node, state: True)
    assert len(different(range(60))) > 2


def test_branches_that_only_meet_are_played_in_one_order() -> None:
    """40 branches side by side are 42 states, not a million million."""
    from coterie.proofs import check
    from coterie.team.topology.model import ArrowGroup

    branches = tuple(f"b{i}" for i in range(40))
    groups = (ArrowGroup(source="a", targets=branches), *(ArrowGroup(source=b, targets=("z",)) for b in branches))
    report = check(Plan(name="wide", coordination=FlowPlan(mentions=("a", *branches, "z"), groups=groups)))

    assert (report.method, report.states) == ("exact", 42)
    assert [join.whole for join in report.joins] == [True]
