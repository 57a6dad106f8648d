from itertools import pairwise

import pytest

from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.teams import as_topology
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.drawing import Arrow, Box, Graph, Phase, draw, placed
from coterie.team.topology.model import Agent, ArrowGroup, Flow, Gate, Human, Output, Topology

pytestmark = pytest.mark.once

REVISE = Condition("reviewer", "verdict", Operator.EQ, "revise")
TEAM = Topology(
    name="review",
    meta={"description": "Reviews."},
    nodes=(
        Agent(name="spare", model="haiku"),
        Agent(name="reviewer", phase=2, outputs=(Output(name="verdict", type="enum", values=("ok", "revise")),)),
        Agent(name="writer", model="opus", description="Writes.", phase=1),
        Human(name="boss", phase=2),
        Gate(name="lint", after="writer", before="reviewer"),
        Gate(name="log", after="boss"),
    ),
    flow=Flow(
        mentions=("writer", "reviewer", "boss"),
        groups=(
            ArrowGroup(source="writer", targets=("reviewer",)),
            ArrowGroup(source="reviewer", targets=("writer",), when=REVISE),
            ArrowGroup(source="reviewer", targets=("boss",), max=2, per="writer", on_max="end"),
        ),
    ),
)


def test_boxes_come_by_rank_and_say_who_thinks() -> None:
    """Where the flow starts is known; what no arrow leads to comes last."""
    boxes = draw(TEAM, {"reviewer": "lint.py"}).boxes

    assert [(box.name, box.kind, box.note, box.starts, box.in_flow) for box in boxes] == [
        ("writer", "agent", "opus", True, True),
        ("lint", "gate", "", False, True),
        ("reviewer", "agent", "lint.py", False, True),
        ("boss", "human", "", False, True),
        ("log", "gate", "", False, True),
        ("spare", "agent", "haiku", False, False),
    ]
    assert boxes[0].about == ("Writes.",)
    assert boxes[2].about == ("gives verdict: ok | revise",)


def test_arrows_say_their_condition_and_their_bound() -> None:
    """A gate stands on its arrow, or behind a node; a bound that the file leaves out is said to be implied."""
    assert draw(TEAM).arrows == (
        Arrow(source="writer", target="lint"),
        Arrow(source="reviewer", target="writer", label='verdict == "revise", max 10', back=True, implied=True),
        Arrow(source="reviewer", target="boss", label="max 2 per writer, on-max end"),
        Arrow(source="lint", target="reviewer"),
        Arrow(source="boss", target="log"),
    )


def test_phases_hold_their_boxes() -> None:
    """In the order of the phases, and by rank within."""
    assert draw(TEAM).phases == (
        Phase(label="phase 1", boxes=("writer",)),
        Phase(label="phase 2", boxes=("reviewer", "boss")),
    )


def test_a_team_without_a_flow_is_drawn_too() -> None:
    """Its boxes, and no arrow."""
    graph = draw(Topology(name="t", nodes=(Agent(name="b"), Agent(name="a"))))

    assert ([box.name for box in graph.boxes], graph.arrows) == (["b", "a"], ())


def test_a_role_that_emits_nothing_is_drawn_where_an_event_leads_to_it() -> None:
    """It has no arrow of its own, but it is one of the team."""
    roles = (RolePlan(id="maker", emits=("made",)), RolePlan(id="reader"))
    loop = LoopPlan(roles=roles, handoff=(("loop.start", ("maker",)), ("made", ("reader",))))
    agents = {name: AgentPlan(name=name) for name in ("maker", "reader")}
    graph = draw(as_topology(Plan(name="loop", agents=agents, coordination=loop)))

    assert [box.name for box in graph.boxes] == ["maker", "reader"]
    assert [(one.source, one.target, one.label) for one in graph.arrows] == [("maker", "reader", "made")]


@pytest.mark.parametrize(("n", "rows"), [(6, 1), (24, 4), (60, 10)])
def test_a_wide_layer_is_wrapped(n: int, rows: int) -> None:
    """Each row is about as wide as a screen; the arrows pass between the boxes of the rows that they cross."""
    names = [f"n{k}" for k in range(n)]
    boxes = tuple(Box(name=name, kind="agent") for name in ("first", *names, "last"))
    arrows = [Arrow(source="first", target=name, label=f"when {name}") for name in names]
    arrows += [Arrow(source=name, target="last") for name in names]
    found = placed(Graph(name="wide", boxes=boxes, arrows=tuple(arrows)), least=72.0)

    at = found.boxes
    tops = {at[name].y for name in names}
    assert len(tops) == rows
    assert at["first"].bottom < min(tops)
    assert max(at[name].bottom for name in names) < at["last"].y
    for y in tops:
        row = sorted((at[name] for name in names if at[name].y == y), key=lambda one: one.x)
        assert sum(one.width + 28 for one in row) < 1100 + row[0].width + 28
        assert all(left.right < right.x for left, right in pairwise(row))
    labels = [route.label for route in found.routes if route.label is not None]
    assert len(labels) == n
    assert not any(
        label.x < box.right and box.x < label.right and label.y < box.bottom and box.y < label.bottom
        for label in labels
        for box in at.values()
    )
