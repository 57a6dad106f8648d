"""Every script that comes with a proof is rehearsed, and shows what it is said to show."""

import random
from typing import Any

import pytest
from parts import parts
from proof_flows import mapped_proof_plan, nested_plan, proof_plan
from replayed import replay

from coterie.proofs import Case, Finding, check
from coterie.proofs.measures import asked_paths
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

pytestmark = pytest.mark.once


def shows(plan: Plan, case: Case | None) -> None:
    if case is not None:
        _, turns = replay(plan, case.script)
        assert turns[""] == case.turns


def holds(plan: Plan, finding: Finding) -> bool:
    """Whether the rehearsal of its script shows *finding*."""
    document, _ = replay(plan, finding.script)
    turns: list[dict[str, Any]] = document["turns"]
    named = finding.message.split("'")
    match finding.code:
        case "spent":
            return any(turn["exhausted"] for turn in turns)
        case "ends-early":
            return document["outcome"] == "completed" and named[1] in document["never_ran"]
        case "path-ends":
            return any(t["agent"] == named[1] and not t["fired"] and not t["exhausted"] for t in turns)
        case "join-in-part":
            alone = finding.message.split(" with ")[1].split(" alone")[0].split(", ")
            # A loop may come in besides: what is left out is what counts.
            missing = finding.message.split("without ")[1].split(", ")
            starts = [turn["marked_by"] for turn in turns if turn["agent"] == named[1]]
            return any(set(alone) <= set(by) and set(by).isdisjoint(missing) for by in starts)
        case "read-too-early":
            reader, asked = finding.message.split(" ->")[0], named[-2]
            first = next(t for t in turns if t["agent"] == reader)
            return not any(t["agent"] == asked and t["finished"] < first["finished"] for t in turns)
    raise AssertionError(finding.code)


@parts(6, default=2)
def test_scripts_of_random_flows_show_what_they_say(part: int) -> None:
    """The worst and the best case to the turn, and every finding."""
    findings = 0
    for seed in range(part * 30, part * 30 + 30):
        plan = proof_plan(seed)
        report = check(plan)
        shows(plan, report.worst)
        shows(plan, report.best)
        for finding in report.findings:
            if finding.script is not None:
                assert holds(plan, finding), (seed, finding)
                findings += 1
    assert findings > 20


@parts(6, default=1)
def test_scripts_of_sets_show_what_they_say(part: int) -> None:
    """The worst and the best case of flows with maps, to the turn: lists of the size, items that fail, fallbacks."""
    seen = 0
    for seed in range(part * 100, part * 100 + 60):
        plan = mapped_proof_plan(seed)
        assert plan.flow is not None
        if any(one.agent == "input" for one in plan.flow.maps.values()):
            continue  # the list is not in the script
        report = check(plan)
        if report.method == "exact":
            shows(plan, report.worst)
            shows(plan, report.best)
            seen += 1
    assert seen > 5


@parts(10)
def test_nested_flows_take_no_more_than_proved(part: int) -> None:
    """The worst case is reached by its script, and never passed by scripts made at random, failures included."""
    seen = 0
    for seed in range(part * 8, part * 8 + 8):
        plan, dice = nested_plan(seed), random.Random(seed)
        report = check(plan)
        if report.worst is None:
            continue
        shows(plan, report.worst)
        shows(plan, report.best)
        most = {"": report.worst.turns, **report.worst.agents}
        for _ in range(4):
            _, turns = replay(plan, {path: entries(dice) for path in asked_paths(plan) if dice.random() < 0.8})
            assert {agent: n for agent, n in turns.items() if n > most.get(agent, 0)} == {}
            seen += 1
    assert seen > 16


def entries(dice: random.Random) -> list[dict[str, Any]]:
    """What an agent may do in a few attempts."""
    return [
        {"fail": "no", "seconds": dice.randint(0, 4)}
        if dice.random() < 0.25
        else {"outputs": dice.choice([{"v": "x"}, {"v": "y"}, {"v": "z"}, {}]), "seconds": dice.randint(1, 5)}
        for _ in range(dice.randint(1, 5))
    ]


def test_times_stay_below_the_time_outs_of_agents() -> None:
    """A way that needs a turn to end late does not let it run into its time-out."""
    agents = {name: AgentPlan(name=name) for name in "acde"} | {"b": AgentPlan(name="b", timeout=2.0)}
    reads = Condition("b", "v", Operator.EQ, "x")
    groups = (
        ArrowGroup(source="a", targets=("b", "c")),
        ArrowGroup(source="c", targets=("d",)),
        ArrowGroup(source="d", targets=("e",), when=reads),
        ArrowGroup(source="b", targets=("e",)),
    )
    plan = Plan(name="quick", agents=agents, coordination=FlowPlan(mentions=tuple("abcde"), groups=groups))
    (late,) = [finding for finding in check(plan).findings if finding.code == "read-too-early"]

    assert late.script is not None
    (entry,) = late.script["b"]
    assert entry["seconds"] < 2.0
    document, _ = replay(plan, late.script)
    assert [turn.get("failure") for turn in document["turns"]] == [None] * 5


def test_a_fallback_gives_what_is_asked_of_the_node() -> None:
    """It stands in for an agent that declares an output, so its entry holds that output."""
    outputs = (Wanted(name="v", type="enum", values=("x", "y")),)
    agents = {"a": AgentPlan(name="a", outputs=outputs, on_fail="fallback", fallback="spare")}
    groups = (ArrowGroup(source="a", targets=("b",)),)
    plan = Plan(name="stand-in", agents=agents, coordination=FlowPlan(mentions=("a", "b"), groups=groups))
    report = check(plan)

    assert report.worst is not None
    assert report.worst.agents == {"a": 1, "b": 1, "spare": 1}
    assert report.worst.script == {"a": [{"fail": "it fails"}], "spare": [{"outputs": {"v": "x"}}]}
    shows(plan, report.worst)


def test_a_script_gives_no_times_where_none_are_needed() -> None:
    """c is judged before b ends, by itself or because b takes longer: only then a script gives times."""
    reads = Condition("b", "v", Operator.EQ, "x")
    agents = {name: AgentPlan(name=name) for name in "abcde"}

    def early(*groups: ArrowGroup) -> Any:
        plan = Plan(name="early", agents=agents, coordination=FlowPlan(mentions=tuple("abcde"), groups=groups))
        (found,) = [finding for finding in check(plan).findings if finding.code == "read-too-early"]
        assert holds(plan, found)
        assert found.script is not None
        return {path: [e["seconds"] for e in each if "seconds" in e] for path, each in found.script.items()}

    beside = ArrowGroup(source="a", targets=("c", "e"))
    reading = ArrowGroup(source="c", targets=("d",), when=reads)
    assert early(beside, ArrowGroup(source="e", targets=("b",)), reading) == {"b": []}
    assert early(ArrowGroup(source="a", targets=("b",)), beside, reading)["b"] > [1.0]
