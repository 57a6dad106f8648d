from typing import Any

import pytest
from planned import arrows, planned, team

from coterie.history.engines.commands import Ask, Finish
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal.records import RunStarted, TurnFailed, TurnFinished, TurnStarted
from coterie.team.planning.plan import Plan, Wanted
from coterie.team.topology.graph import FlowGraph

BACK = "on-fail: bounce-back retry: 2"


def gates(**fields: str) -> str:
    """A block with these gates; each runs `check`."""
    lines = [f"gate {name} {{ run: check {text} }}" for name, text in fields.items()]
    return f"  gates {{ {' '.join(lines)} }}"


def mentions(plan: Plan) -> tuple[str, ...]:
    assert plan.coordination is not None
    return plan.coordination.mentions


def entries(plan: Plan) -> tuple[str, ...]:
    assert plan.coordination is not None
    return plan.coordination.entries


def test_a_blocking_gate_fails_the_run() -> None:
    """Its arrow onward needs no condition: where it fails, nothing goes on."""
    plan = planned(team("a -> b", gates(g="after: a before: b retry: 1")))

    assert arrows(plan) == ["a -> g", "g -> b"]
    assert mentions(plan) == ("a", "g", "b")
    gate = plan.agents["g"]
    assert (gate.kind, gate.backend, gate.steps) == ("gate", "command", (("check",),))
    assert (gate.verdict, gate.outputs, gate.on_fail, gate.retry) == (False, (), "halt", 1)


def test_a_gate_that_bounces_back_is_a_loop() -> None:
    """Of at most `retry` rounds; then the run fails."""
    plan = planned(team("a -> b", gates(g=f"after: a before: b {BACK}")))

    assert arrows(plan) == [
        "a -> g",
        "g -> b when g.passed == true",
        "g -> a when g.passed == false max 2 on-max fail",
    ]
    gate = plan.agents["g"]
    assert (gate.verdict, gate.outputs, gate.retry) == (True, (Wanted(name="passed", type="boolean"),), 0)


@pytest.mark.parametrize("retry", ["", "retry: 0"])
def test_bouncing_back_without_a_round_is_halting(retry: str) -> None:
    """There is nobody to send it to."""
    plan = planned(team("a -> b", gates(g=f"after: a before: b on-fail: bounce-back {retry}")))

    assert arrows(plan) == ["a -> g", "g -> b"]
    assert (plan.agents["g"].verdict, plan.agents["g"].on_fail) == (False, "halt")


def test_an_advisory_gate_never_withholds() -> None:
    """Its verdict is an output that nothing waits for."""
    plan = planned(team("a -> b", gates(g=f"after: a before: b behavior: advisory {BACK}")))

    assert arrows(plan) == ["a -> g", "g -> b"]
    assert plan.agents["g"].verdict


def test_several_gates_on_one_arrow_stand_in_source_order() -> None:
    """Each sends the work back to where it came from."""
    plan = planned(
        team("a -> b", gates(g="after: a before: b", h=f"after: a before: b {BACK}", i="after: a before: b"))
    )

    assert arrows(plan) == [
        "a -> g",
        "g -> h",
        "h -> i when h.passed == true",
        "h -> a when h.passed == false max 2 on-max fail",
        "i -> b",
    ]
    assert mentions(plan) == ("a", "g", "h", "i", "b")


def test_the_other_targets_of_a_fan_out_stay_in_their_group() -> None:
    """The gate takes the place of its target only."""
    plan = planned(team("a -> [b, c, d] [max 3]", gates(g="after: a before: c")))

    assert arrows(plan) == ["a -> [b, g, d] max 3", "g -> c"]


def test_conditions_and_bounds_stay_in_front_of_the_gate() -> None:
    """They are judged and counted when the arrow fires, as without a gate."""
    plan = planned(team("a -> b [when a.v == x, max 3]  a -> b [when a.v == y]", gates(g="after: a before: b")))

    assert arrows(plan) == ['a -> g when a.v == "x" max 3', "g -> b", 'a -> g when a.v == "y"']


def test_a_gate_on_a_way_back_leaves_it_a_way_back() -> None:
    """Nobody waits for what comes along a loop arrow, so the second half is one too."""
    plan = planned(team("s -> a -> b  b -> a [when b.v == x, max 3, per s]", gates(g="after: b before: a")))

    assert arrows(plan) == [
        "s -> a",
        "a -> b",
        'b -> g when b.v == "x" max 3 per s',
        "g -> a max 3 per s",
    ]
    assert plan.coordination is not None
    assert FlowGraph(plan.coordination.mentions, plan.coordination.groups).is_loop(3, "a")


def test_an_implied_bound_stands_on_both_halves() -> None:
    """Bounds are implied before gates are set on the arrows."""
    plan = planned(team("s -> a -> b  b -> a [when b.v == x]", gates(g="after: b before: a")))

    assert arrows(plan)[2:] == ['b -> g when b.v == "x" max 10', "g -> a max 10"]


def test_a_gate_without_before_is_a_branch() -> None:
    """It runs beside whatever follows."""
    plan = planned(team("a -> b", gates(g="after: a", h=f"after: b {BACK}")))

    assert arrows(plan) == ["a -> b", "a -> g", "b -> h", "h -> b when h.passed == false max 2 on-max fail"]


def test_a_gate_that_the_flow_names_stands_there_once() -> None:
    """Wherever it says it stands."""
    plan = planned(team("a -> g -> b", gates(g="after: a before: b")))

    assert arrows(plan) == ["a -> g", "g -> b"]


def test_a_gate_that_the_flow_names_bounces_back_too() -> None:
    """Unless the flow draws that arrow itself."""
    named = gates(g=f"after: a before: b {BACK}")

    assert arrows(planned(team("a -> g -> b", named))) == [
        "a -> g",
        "g -> b when g.passed == true",
        "g -> a when g.passed == false max 2 on-max fail",
    ]
    own = planned(team("a -> g -> b  g -> a [when g.passed == false, max 5]", named))
    assert arrows(own) == ["a -> g", "g -> b", "g -> a when g.passed == false max 5"]


def test_a_gate_whose_verdict_the_flow_reads_does_not_fail() -> None:
    """The flow decides what follows."""
    plan = planned(team("a -> g  g -> b [when g.passed == true]  g -> c [when g.passed == false]", gates(g="")))

    assert plan.agents["g"].verdict


def test_a_gate_belongs_to_the_phase_it_stands_in() -> None:
    """Otherwise each round through it would enter the phase anew, and its counts begin anew."""
    text = team("a -> b", gates(g="after: a before: b"), a="model: m phase: 1", b="model: m phase: 1")

    assert planned(text).agents["g"].phase == 1


def play(plan: Plan, replies: dict[str, list[Any]]) -> list[str]:
    """Run *plan* one turn after the other: a reply is the turn's outputs, or None for a failure."""
    assert plan.coordination is not None
    engine, order, seq = FlowEngine(plan.coordination, plan.agents), list[str](), 1
    todo = list(engine.step(RunStarted(seq=1, run="r", engine="flow")))
    while todo:
        command = todo.pop(0)
        if isinstance(command, Finish):
            return [*order, command.outcome]
        if isinstance(command, Ask):
            seq += 2
            engine.step(TurnStarted(seq=seq, turn=command.turn, agent=command.agent))
            answers = replies.get(command.agent, [{}])
            outputs = answers.pop(0) if len(answers) > 1 else answers[0]
            order.append(command.turn)
            ended = (
                TurnFailed(seq=seq + 1, turn=command.turn, kind="exit", reason="1")
                if outputs is None
                else TurnFinished(seq=seq + 1, turn=command.turn, attempt=1, text="", outputs=outputs)
            )
            todo += engine.step(ended)
    return order


BOUNCING = team("[a, b] -> c", gates(g=f"after: a before: c {BACK}"))
FAILS, PASSES = {"passed": False}, {"passed": True}


def test_the_way_back_keeps_nobody_from_starting() -> None:
    """`a` has an incoming arrow now, and starts all the same."""
    plan = planned(BOUNCING)

    assert entries(plan) == ("a", "b")
    assert play(plan, {"g": [FAILS, PASSES]}) == ["b#1", "a#1", "g#1", "a#2", "g#2", "c#1", "completed"]


def test_after_its_rounds_a_gate_fails_the_run() -> None:
    """Two rounds, three judgements."""
    assert play(planned(BOUNCING), {"g": [FAILS]}) == ["b#1", "a#1", "g#1", "a#2", "g#2", "a#3", "g#3", "failed"]


def test_a_halting_gate_stops_the_flow() -> None:
    """What stands behind it never runs."""
    plan = planned(team("a -> b", gates(g="after: a before: b")))

    assert play(plan, {"g": [None]}) == ["a#1", "g#1", "failed"]
    assert play(plan, {}) == ["a#1", "g#1", "b#1", "completed"]
