import pytest

from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import Action, Agent, AgentGroup, ArrowGroup, Flow, Gate, Human, Output, Topology
from coterie.team.topology.outline import Outline, OutlinedArrow, OutlinedNode, outline
from coterie.team.topology.patterns.model import Pattern, Slot

pytestmark = pytest.mark.once

REVISE = Condition("reviewer", "verdict", Operator.EQ, "revise")
TEAM = Topology(
    name="review",
    patterns=("pipeline",),
    meta={"description": "Reviews."},
    nodes=(
        Agent(name="spare", model="m"),
        Agent(name="writer", model="opus", description="Writes."),
        Agent(name="reviewer", outputs=(Output(name="verdict", type="enum", values=("approve", "revise")),)),
        Human(name="boss"),
        Action(name="ship"),
        Gate(name="lint"),
    ),
    flow=Flow(
        mentions=("writer", "reviewer", "boss", "ship", "ghost"),
        groups=(
            ArrowGroup(source="writer", targets=("reviewer",)),
            ArrowGroup(source="reviewer", targets=("writer",), when=REVISE),
            ArrowGroup(source="reviewer", targets=("boss", "ship"), max=2, per="writer"),
        ),
    ),
)


def test_an_outline_follows_the_flow_and_then_names_the_rest() -> None:
    """Nodes in order of first mention with their arrows; what the flow does not mention comes last and says so."""
    shown = outline(TEAM, {"reviewer": "command: lint"})

    assert isinstance(shown, Outline)
    assert (shown.name, shown.patterns, shown.description) == ("review", ("pipeline",), "Reviews.")
    assert [(node.name, node.kind, node.thinks, node.in_flow) for node in shown.nodes] == [
        ("writer", "agent", "opus", True),
        ("reviewer", "agent", "command: lint", True),
        ("boss", "human", "", True),
        ("ship", "action", "", True),
        ("ghost", "undeclared", "", True),
        ("spare", "agent", "m", False),
        ("lint", "gate", "", False),
    ]


def test_an_outline_shows_the_bound_that_the_file_leaves_out() -> None:
    """A conditional way back that nothing bounds counts as `max 10`, and the outline says that it is implied."""
    reviewer = next(node for node in outline(TEAM).nodes if node.name == "reviewer")

    assert reviewer == OutlinedNode(
        name="reviewer",
        kind="agent",
        outputs=("verdict: approve | revise",),
        arrows=(
            OutlinedArrow(targets=("writer",), when='reviewer.verdict == "revise"', max=10, implied=True, loop=True),
            OutlinedArrow(targets=("boss", "ship"), max=2, per="writer"),
        ),
    )


def test_a_team_without_a_flow_has_an_outline_too() -> None:
    """Its nodes in declaration order, none of them in a flow."""
    shown = outline(Topology(name="t", nodes=(Agent(name="b"), Agent(name="a"))))

    assert [(node.name, node.in_flow) for node in shown.nodes] == [("b", False), ("a", False)]


def test_who_fills_no_slot_of_a_pattern_says_for_whom_it_stands_in() -> None:
    """By the slot, which is what a reader knows."""
    team = Topology(
        name="news",
        nodes=(Agent(name="ada", on_fail="fallback bob"), Agent(name="bob"), Agent(name="eve")),
        pattern=Pattern(type="pipeline", config={}, slots=(Slot(name="draft", node="ada"),)),
    )

    assert [(node.name, node.place) for node in outline(team, {}).nodes] == [
        ("draft", ""),
        ("bob", "fallback of draft"),
        ("eve", "fills no slot"),
    ]


def test_who_is_asked_only_in_a_team_within_is_seen_there() -> None:
    """Of all agents of a file, the outline of each team has its own."""
    within = Topology(
        name="w", nodes=(Agent(name="bob"),), pattern=Pattern(type="pipeline", slots=(_slot("a", "bob"),))
    )
    team = Topology(
        name="news",
        nodes=(
            Agent(name="bob"),
            Agent(name="ada", on_fail="fallback cid"),
            Agent(name="cid"),
            Agent(name="w", topology=within),
        ),
        pattern=Pattern(type="pipeline", slots=(_slot("one", "w"), _slot("two", "ada"))),
    )

    assert [node.name for node in outline(team).nodes] == ["one", "two", "cid"]


def _slot(name: str, node: str) -> Slot:
    return Slot(name=name, node=node)


def test_a_node_says_what_it_uses_and_what_happens_when_it_fails() -> None:
    """Tools, what it reads, retries and times as a file writes them; None leaves the tools to whoever thinks."""
    nodes = (
        Agent(name="a", tools=(), reads=("b",), retry=2, timeout=90.0, on_fail="skip", phase=1.5),
        Human(name="b", timeout=7200.0),
        Gate(name="c", after="a", before="b", behavior="advisory"),
        AgentGroup(name="d", members=("a", "b")),
    )
    shown = outline(Topology(name="t", nodes=nodes)).nodes

    assert [node.rules for node in shown] == [
        ("retry 2", "timeout 90s", "on-fail skip"),
        ("timeout 2h", "on-timeout halt"),
        ("advisory",),
        ("members a, b",),
    ]
    assert (shown[0].tools, shown[0].reads, shown[0].phase) == ((), ("b",), 1.5)
    assert outline(TEAM).nodes[0].tools is None


def test_where_a_flow_starts_and_turns_back_is_said() -> None:
    """And a team that answers at a node hangs below it."""
    inner = outline(Topology(name="inner"))
    shown = outline(TEAM, teams={"boss": inner})

    assert [node.name for node in shown.nodes if node.starts] == ["writer", "ghost"]
    assert [arrow.targets for node in shown.nodes for arrow in node.arrows if arrow.loop] == [("writer",)]
    assert {node.name: node.team for node in shown.nodes if node.team} == {"boss": inner}
