"""What is proved of loops holds in rehearsals: numbers are reached, and each finding's script shows it."""

from typing import Any

import msgspec
import pytest
from bundles import bundle
from loop_play import HANDOFF, ROLES, loop_plan, plan_of, review, waves
from parts import parts
from random_loops import random_loop_plan

from coterie.execution.runs.rehearsal import rehearse
from coterie.proofs import Prices, Report, check
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import Plan

pytestmark = pytest.mark.once


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def turns(document: dict[str, Any]) -> int:
    """How many turns of agents a rehearsal had, those of branches included."""
    own = sum("child" not in turn for turn in document["turns"])
    return own + sum(turns(turn["child"]) for turn in document["turns"] if "child" in turn)


def test_the_fewest_and_the_most_turns_are_reached() -> None:
    """The most: every iteration opens a wave as wide as may be, and nobody completes it."""
    plan = plan_of(loop_plan(required=("review.passed",), review=review(2), parallel=waves(), max_iterations=6))
    report = check(plan)
    assert report.method == "exact"
    assert report.best is not None
    assert report.worst is not None
    assert report.ends

    best = rehearse(plan, {"prompt": "x"}, report.best.script)
    assert (best["outcome"], turns(best)) == ("completed", report.best.turns) == ("completed", 4 + 1)
    worst = rehearse(plan, {"prompt": "x"}, report.worst.script)
    assert (worst["reason"], turns(worst)) == ("max_iterations", report.worst.turns) == ("max_iterations", 6 * 4 + 2)


def test_branches_ask_whom_the_loop_itself_no_longer_reaches() -> None:
    """A wave in the last iteration asks the role that its event leads to."""
    roles = (RolePlan(id="a", emits=("ready",)), RolePlan(id="b", emits=("task.complete",)))
    handoff = (("loop.start", ("a",)), ("ready", ("b",)))
    plan = plan_of(loop_plan(roles=roles, handoff=handoff, parallel=waves(), max_iterations=1))
    report = check(plan, Prices(agents={"a": 1.0, "@branch/b": 1.0}))
    assert report.worst is not None
    assert report.cost is not None
    wave = {"a": [{"emits": [{"topic": "ready.parallel", "payload": "- 1\n- 2\n- 3"}]}]}
    document = rehearse(plan, {"prompt": "x"}, wave)

    assert turns(document) == report.worst.turns == report.cost.turns == 4
    assert report.worst.agents == {"a": 1, "@branch/a": 3, "@branch/b": 3}


def test_what_it_costs_at_worst() -> None:
    """The dearest agent in every iteration; retries besides."""
    plan = plan_of(loop_plan(max_iterations=10, review=review(3)), retry=1)
    cost = check(plan, Prices(turn=0.1, agents={"critic": 0.5, "@review": 1.0})).cost

    assert cost is not None
    assert (cost.turns, cost.attempts) == (10 * 0.5 + 3, 2 * (10 * 0.5 + 3))


def test_a_sound_loop_has_no_findings() -> None:
    report = check(plan_of(loop_plan(roles=ROLES, handoff=HANDOFF)))

    assert codes(report) == []


@bundle(
    ("code", "fields"),
    [
        ("required-never-comes", {"required": ("tests.ok",)}),
        ("cannot-complete", {"completion": "never"}),
        ("too-few-iterations", {"required": ("review.passed",), "max_iterations": 3}),
        ("unreachable-role", {"roles": (*ROLES, RolePlan(id="ghost", emits=("boo",)))}),
        ("idle-key", {"handoff": (*HANDOFF, ("nobody.says", ("critic",)))}),
        ("unrouted-event", {"handoff": HANDOFF[:-1]}),
        ("no-way-back", {"roles": (*ROLES[:1], RolePlan(id="builder"), *ROLES[2:]), "promise": ""}),
    ],
)
def test_what_is_found(code: str, fields: dict[str, Any]) -> None:
    assert code in codes(check(plan_of(loop_plan(**fields))))


def test_a_trap_is_shown() -> None:
    """The script leads where nobody may emit anything, and the loop stays there to its last iteration."""
    plan = plan_of(loop_plan(roles=(*ROLES[:1], RolePlan(id="builder"), *ROLES[2:]), promise="", max_iterations=4))
    [trap] = [finding for finding in check(plan).findings if finding.code == "no-way-back"]
    document = rehearse(plan, {"prompt": "x"}, trap.script)

    assert document["reason"] == "max_iterations"
    assert [turn["agent"] for turn in document["turns"]] == ["planner", "builder", "builder", "builder"]


def test_too_many_states_are_said_to_be() -> None:
    """The numbers are those of all iterations then: no run takes more, of whichever role."""
    plan = plan_of(loop_plan(required=("review.passed", "queue.advance"), max_iterations=6))
    report, whole = check(plan, states=3), check(plan)

    assert (report.method, codes(report), report.best) == ("bound", ["too-many-states"], None)
    assert report.worst is not None
    assert whole.worst is not None
    assert report.worst.turns == whole.worst.turns
    assert all(report.worst.agents[name] >= turns for name, turns in whole.worst.agents.items())
    assert report.worst.script is None


@parts(8, default=2)
def test_random_loops_do_what_is_proved_of_them(part: int) -> None:
    """Scripts reach the numbers, no rehearsal goes beyond them, and what completes was said to be able to."""
    for seed in range(part * 20, (part + 1) * 20):
        plan = _bounded(random_loop_plan(seed))
        report = check(plan)
        free = rehearse(plan, {"prompt": "x"})
        assert report.worst is not None
        assert turns(free) <= report.worst.turns
        if free["outcome"] == "completed":
            assert report.best is not None, seed
            assert report.best.turns <= turns(free), seed
            assert report.best.turns == turns(free) or _has_waves(plan), seed  # a wave may be a shorter way
        if report.best is not None:
            document = rehearse(plan, {"prompt": "x"}, report.best.script)
            assert (document["outcome"], turns(document)) == ("completed", report.best.turns), seed
        worst = rehearse(plan, {"prompt": "x"}, report.worst.script)
        assert (worst["reason"], turns(worst)) == ("max_iterations", report.worst.turns), seed


def _has_waves(plan: Plan) -> bool:
    assert isinstance(plan.coordination, LoopPlan)
    return plan.coordination.parallel is not None


def _bounded(plan: Plan) -> Plan:
    """*plan* without a budget, which a rehearsal does not spend, and with room for branches."""
    assert isinstance(plan.coordination, LoopPlan)
    parallel = plan.coordination.parallel and waves()
    loop = msgspec.structs.replace(plan.coordination, max_cost=0.0, parallel=parallel, promise="")
    return msgspec.structs.replace(plan, coordination=loop)
