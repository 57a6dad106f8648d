import pytest

from coterie.topology.conditions import Condition, Operator
from coterie.topology.drawing import Arrow, Phase, draw
from coterie.topology.model import Agent, ArrowGroup, Flow, Gate, Human, Output, Topology

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
