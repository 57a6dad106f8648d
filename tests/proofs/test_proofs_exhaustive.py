"""What is proved of a flow is what the engine does when every order and every answer is tried."""

from collections import Counter

import pytest
from exhaustive import Endless, Everything, TooMany, everything
from parts import parts
from proof_flows import mapped_proof_plan, proof_plan

from coterie.proofs.bounds import at_most
from coterie.proofs.findings import FlowFacts
from coterie.proofs.flow import Budget, FlowProof
from coterie.proofs.measures import Measures
from coterie.proofs.sets import why_counted
from coterie.proofs.spans import Places
from coterie.proofs.system import FlowSystem
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

pytestmark = pytest.mark.once

EACH = 40
STEPS = 160
"""Flows that do more than this are left to the long sweep."""


def compared(plan: Plan, most: int) -> str:
    """Compare what is proved of *plan* with what it does; say how that went."""
    try:
        does = everything(plan, most)
    except TooMany:
        return "too many"
    except Endless:
        assert FlowProof(plan, Measures(plan), Budget(10**6)).space.endless is not None
        return "endless"
    assert proved(plan) == summary(plan, does)
    return "equal"


def proved(plan: Plan) -> object:
    """What is proved, in the form of `summary`."""
    assert isinstance(plan.coordination, FlowPlan)
    measures = Measures(plan)
    proof = FlowProof(plan, measures, Budget(10**6))
    assert proof.space.endless is None
    facts = FlowFacts(proof, Places(plan.coordination, None))
    most, _ = proof.longest()
    best, _ = proof.shortest(lambda step: step.over == "completed")
    exhausted = {i for step in facts.steps for i in step.exhausted}
    agents = {path: int(most[n]) for n, path in enumerate(measures.paths, 1) if most[n]}
    return int(most[0]), agents, best, {facts.name(n) for n in facts.ran}, arrows(plan, facts.fired | exhausted)


def summary(plan: Plan, does: Everything) -> object:
    """The most turns in total and of each agent, the fewest turns, which nodes run, which arrows fire or are spent."""
    agents = {name: count for name, count in does.worst.items() if name}
    return does.worst.get("", 0), agents, does.best, does.ran, arrows(plan, does.fired | does.exhausted)


def arrows(plan: Plan, groups: set[int]) -> set[tuple[str, tuple[str, ...]]]:
    """*groups* as records name them: two that lead from one node to the same targets are not told apart."""
    assert isinstance(plan.coordination, FlowPlan)
    return {(plan.coordination.groups[i].source, plan.coordination.groups[i].targets) for i in groups}


@parts(50, default=2)
def test_a_proof_is_what_the_engine_does(part: int) -> None:
    """2,000 random flows of up to 7 nodes: every number is exact, nothing that happens is called impossible."""
    went: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    seed = part * 100_000
    while went["equal"] + went["endless"] < EACH:
        plan = proof_plan(seed)
        how = compared(plan, STEPS)
        went[how] += 1
        sizes[len(plan.agents)] += how != "too many"
        seed += 1
    assert went["equal"] > EACH * 0.9
    assert sum(sizes[size] > 0 for size in range(2, 8)) > 3


def with_any_input(plan: Plan, most: int) -> Everything:
    """All that *plan* can do with the lists of any size in its input."""
    assert isinstance(plan.coordination, FlowPlan)
    of_input = [one.at_most * (one.by or 1) for one in plan.coordination.maps.values() if one.agent == "input"]
    found: list[Everything] = []
    for size in range(max(of_input, default=0) + 1):
        found.append(everything(plan, most, {"l": list(range(size))}))
    whole = found[0]
    for other in found[1:]:
        for name, count in other.worst.items():
            whole.worst[name] = max(whole.worst.get(name, 0), count)
        whole.best = min(whole.best, other.best)
        whole.ran |= other.ran
        whole.fired |= other.fired
        whole.exhausted |= other.exhausted
    return whole


@parts(50, default=1)
def test_what_is_proved_of_sets_is_what_the_engine_does(part: int) -> None:
    """2,000 random flows with maps and lists of up to two items: numbers are exact, and where counted never passed."""
    went: Counter[str] = Counter()
    seed = part * 100_000
    while went["equal"] + went["counted"] < EACH:
        plan = mapped_proof_plan(seed)
        seed += 1
        try:
            does = with_any_input(plan, 3000)
        except TooMany:
            went["too many"] += 1
            continue
        except Endless:
            continue
        bound = at_most(plan, measures := Measures(plan))
        assert does.worst.get("", 0) <= bound[0], seed - 1
        for path, most in zip(measures.paths, bound[1:], strict=True):
            assert does.worst.get(path, 0) <= most, seed - 1
        if why_counted(plan):
            went["counted"] += 1
            continue
        assert proved(plan) == summary(plan, does), seed - 1
        went["equal"] += 1
    assert went["equal"] > EACH / 10, went


def test_a_phase_is_entered_from_any_source_outside() -> None:
    """A join of a node inside and one outside begins the counts anew: `b` runs twice before it and twice after."""
    groups = (
        ArrowGroup(source="a", targets=("b", "o")),
        ArrowGroup(source="b", targets=("b",), when=Condition("b", "v", Operator.EQ, "x"), max=1, per="phase"),
        ArrowGroup(source="b", targets=("j",), when=Condition("b", "v", Operator.EQ, "y")),
        ArrowGroup(source="o", targets=("j",)),
        ArrowGroup(source="j", targets=("b",), max=1),
    )
    phases = {"a": None, "b": 1.0, "j": 1.0, "o": 2.0}
    wanted = {"b": (Wanted(name="v", type="enum", values=("x", "y")),)}
    agents = {name: AgentPlan(name=name, phase=phases[name], outputs=wanted.get(name, ())) for name in phases}
    plan = Plan(name="t", agents=agents, coordination=FlowPlan(mentions=tuple(phases), groups=groups))

    assert compared(plan, 10_000) == "equal"
    assert everything(plan, 10_000).worst["b"] == 4


@parts(10, default=0)
def test_a_proof_is_what_the_engine_does_in_larger_flows(part: int) -> None:
    """1,000 further flows that may do a hundred times as much."""
    went = Counter(compared(proof_plan(seed), 30_000) for seed in range(10**7 + part * 100, 10**7 + (part + 1) * 100))
    assert went["equal"] > 85


def test_the_comparison_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that forgets how often arrows have fired is found out."""
    looked_at = FlowSystem._looked_at

    def forgetful(self: FlowSystem, in_flight: int) -> tuple[int, int, tuple[int, ...], int]:
        truth, known, _, alive = looked_at(self, in_flight)
        return truth, known, tuple(self._slot.values()), alive

    monkeypatch.setattr(FlowSystem, "_looked_at", forgetful)
    different = 0
    for seed in range(50):
        try:
            compared(proof_plan(seed), STEPS)
        except AssertionError:
            different += 1
    assert different > 1
