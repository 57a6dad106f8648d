"""What is counted from the arrows is never less than what can happen."""

from math import inf

import pytest
from parts import parts
from proof_flows import nested_plan, proof_plan

from coterie.proofs import Prices, check
from coterie.proofs.bounds import at_most
from coterie.proofs.measures import Measures
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

pytestmark = pytest.mark.once


def bound(plan: Plan) -> dict[str, float]:
    measures = Measures(plan)
    counted = at_most(plan, measures)
    return dict(zip(["", *measures.paths], counted, strict=True))


@parts(3)
def test_counting_never_says_too_little(part: int) -> None:
    """Random flows, nested ones too: for each agent and in total at least the exact worst case."""
    exact = 0
    for seed in range(part * 80, (part + 1) * 80):
        plan = nested_plan(seed) if seed % 5 == 0 else proof_plan(seed)
        report, counted = check(plan), bound(plan)
        if report.worst is None:
            assert counted[""] == inf
            continue
        worst = {"": report.worst.turns, **report.worst.agents}
        assert {name: n for name, n in worst.items() if n > counted[name]} == {}, seed
        exact += counted[""] == report.worst.turns
    assert exact > 16


def flow(*groups: ArrowGroup) -> Plan:
    """A flow of *groups*."""
    names = tuple(dict.fromkeys(name for group in groups for name in (group.source, *group.targets)))
    agents = {name: AgentPlan(name=name) for name in names}
    return Plan(name="t", agents=agents, coordination=FlowPlan(mentions=names, groups=groups))


@pytest.mark.parametrize(
    ("plan", "agent", "starts"),
    [
        (
            flow(
                ArrowGroup(source="a", targets=("b", "d")),
                ArrowGroup(source="d", targets=("c",)),
                ArrowGroup(source="b", targets=("b",), max=1, per="c"),
            ),
            "b",
            3,
        ),
        (
            flow(
                ArrowGroup(source="c", targets=("d",)),
                ArrowGroup(source="a", targets=("c",), when=Condition("a", "v", Operator.EQ, "x")),
                ArrowGroup(source="c", targets=("b",), max=2),
                ArrowGroup(source="b", targets=("c",), max=2),
            ),
            "d",
            3,
        ),
    ],
    ids=["a scope before its agent starts", "a node that does not wait for a cycle before it"],
)
def test_the_most_starts_of_a_node_are_counted(plan: Plan, agent: str, starts: int) -> None:
    """As often as it can start."""
    worst = check(plan).worst

    assert worst is not None
    assert worst.agents[agent] == bound(plan)[agent] == starts


def test_too_many_states_are_counted_instead_and_it_says_so() -> None:
    """The numbers are bounds then, no run is shown, and nothing is called impossible."""
    plan = next(plan for plan in map(proof_plan, range(100)) if check(plan).states > 20)
    exact, report = check(plan, Prices(turn=0.5)), check(plan, Prices(turn=0.5), states=5)

    assert report.method == "bound"
    assert report.worst is not None
    assert exact.worst is not None
    assert report.worst.turns >= exact.worst.turns
    assert (report.worst.script, report.best, report.joins) == (None, None, ())
    assert [finding.code for finding in report.findings] == ["too-many-states"]
    assert report.cost is not None
    assert report.cost.turns == report.worst.turns * 0.5


def test_too_many_steps_are_counted_instead_too() -> None:
    """Few states with many ways between them: what is looked at is bounded, not only what is kept."""
    sizes = range(40)
    pairs = [(i, j) for i in sizes for j in sizes if i != j]
    groups = tuple(
        ArrowGroup(
            source=f"a{i}", targets=(f"a{j}",), when=Condition(f"a{i}", "to", Operator.EQ, j), max=3 if j < i else None
        )
        for i, j in pairs
    )
    plan = Plan(
        name="dense",
        agents={f"a{i}": AgentPlan(name=f"a{i}") for i in sizes},
        coordination=FlowPlan(mentions=tuple(f"a{i}" for i in sizes), groups=groups),
    )
    report = check(plan, states=1_000)

    assert report.method == "bound"
    assert report.findings[0].message.startswith("too many steps to explore")


def test_answers_without_number_are_counted_too() -> None:
    """Twenty conditions on twenty outputs of one agent: a million answers are not written down."""
    fields = [f"f{i}" for i in range(20)]
    outputs = tuple(Wanted(name=field, type="boolean") for field in fields)
    groups = tuple(
        ArrowGroup(source="a", targets=(f"n{i}",), when=Condition("a", field, Operator.EQ, True))
        for i, field in enumerate(fields)
    )
    names = ("a", *(f"n{i}" for i in range(20)))
    plan = Plan(
        name="many",
        agents={"a": AgentPlan(name="a", outputs=outputs)},
        coordination=FlowPlan(mentions=names, groups=groups),
    )
    report = check(plan)

    assert report.method == "bound"
    assert report.findings[0].message.startswith("'a' can answer in 1048576 ways")
    assert report.worst is not None
    assert report.worst.turns == 21
