"""Loops rehearsed: with a script, and by the way to their end without one."""

import pytest
from loop_play import HANDOFF, ROLES, ROUND, loop_plan, plan_of, review, waves

from coterie.execution.runs.rehearsal import rehearse
from coterie.history.engines.loop import View
from coterie.history.engines.loop.default_event import FAR, default_event, turns_after
from coterie.team.planning.loop import LoopPlan, RolePlan


def emitted(document: dict[str, object]) -> list[str]:
    """What was emitted, in order."""
    return [event for turn in document["turns"] for event in turn.get("emitted", [])]  # type: ignore[attr-defined]


def test_without_a_script_roles_emit_the_way_to_the_end() -> None:
    """The planner could complete at once, but what is required comes first."""
    document = rehearse(plan_of(loop_plan(required=("review.passed",))), {"prompt": "x"})

    assert (document["outcome"], document["reason"], document["exit"]) == ("completed", "completion_event", 0)
    assert emitted(document) == list(ROUND)
    assert document["never_ran"] == []


def test_the_first_declared_wins_a_tie_and_nothing_required_is_the_shortest_way() -> None:
    document = rehearse(plan_of(loop_plan()), {"prompt": "x"})

    assert emitted(document) == ["task.complete"]
    assert document["never_ran"] == ["builder", "critic", "finalizer"]
    tie = loop_plan(roles=(RolePlan(id="a", emits=("x", "y")), RolePlan(id="b", emits=("task.complete",))))
    assert default_event(tie, View(allowed=("x", "y"))) == "x"


def test_a_loop_that_cannot_complete_stops_by_its_limit() -> None:
    loop = loop_plan(completion="never", max_iterations=3)
    document = rehearse(plan_of(loop), {"prompt": "x"})

    assert (document["outcome"], document["reason"], document["exit"]) == ("stopped", "max_iterations", 3)
    assert turns_after(loop, "tasks.ready", frozenset()) == FAR


@pytest.mark.parametrize("required", [(), ("tests.ok",), ("tests.ok", "docs.ok")])
def test_without_roles_what_is_required_comes_first(required: tuple[str, ...]) -> None:
    document = rehearse(plan_of(loop_plan(roles=(), handoff=(), required=required)), {"prompt": "x"})

    assert emitted(document) == [*required, "task.complete"]


def test_a_pattern_stands_for_the_events_the_plan_names() -> None:
    roles = (RolePlan(id="planner", emits=("/tasks\\..*/",)), *ROLES[1:])
    document = rehearse(plan_of(LoopPlan(roles=roles, handoff=HANDOFF, max_iterations=9)), {"prompt": "x"})

    assert emitted(document) == ["tasks.ready", "review.ready", "review.passed", "task.complete"]


def test_a_script_says_who_emits_what_and_what_branches_do() -> None:
    """`@branch/builder` is the builder in every branch, one attempt after the other."""
    script = {
        "planner": [{"emits": [{"topic": "tasks.ready.parallel", "payload": "- a\n- b"}]}],
        "@branch/builder": [{"text": "did a"}, {"fail": "exit"}],
        "builder": [{"emits": [{"topic": "task.complete"}]}, {"emits": [{"topic": "review.ready"}]}],
        "critic": [{"text": "LOOP_COMPLETE"}],
    }
    document = rehearse(plan_of(loop_plan(parallel=waves())), {"prompt": "x"}, script)

    assert document["reason"] == "completion_promise"
    assert [turn.get("child", {}).get("outcome") for turn in document["turns"]][1:3] == ["completed", "failed"]
    assert document["turns"][3]["rejected"] == ["task.complete"]


def test_a_branch_that_takes_too_long_is_ended_and_the_loop_goes_on() -> None:
    """Each branch has `branch_timeout` to itself; what it spent until then counts for the run."""
    opens = {"emits": [{"topic": "tasks.ready.parallel", "payload": "- a\n- b"}]}
    script = {
        "planner": [opens, {"emits": [{"topic": "task.complete"}]}],
        "@branch/builder": [{"seconds": 1000.0}, {"text": "b is done", "usage": {"cost": 0.5}}],
    }
    document = rehearse(plan_of(loop_plan(parallel=waves())), {"prompt": "x"}, script)

    late, done = document["turns"][1:3]
    assert late["failure"]["kind"] == "timeout"
    assert late["finished"] - late["started"] == 180.0
    assert late["child"]["outcome"] == "cancelled"
    assert done["child"]["outcome"] == "completed"
    assert document["reason"] == "completion_event"


def test_what_is_left_of_the_runs_time_bounds_turns_retries_and_waves() -> None:
    """`max_runtime` is never overshot: a turn is cut short, a retry comes no later, a wave neither."""
    slow = {"planner": [{"seconds": 70.0}]}
    document = rehearse(plan_of(loop_plan(max_runtime=100.0)), {"prompt": "x"}, slow)
    assert (document["reason"], document["turns"][-1]["finished"]) == ("max_runtime", 100.0)

    retried = {"planner": [{"seconds": 97.0, "fail": "transient"}]}
    document = rehearse(plan_of(loop_plan(max_runtime=97.5)), {"prompt": "x"}, retried)
    assert (document["reason"], document["turns"][-1]["finished"]) == ("max_runtime", 97.5)

    wave = {
        "planner": [{"emits": [{"topic": "tasks.ready.parallel", "payload": "- a"}]}],
        "@branch/builder": [{"seconds": 1000.0}],
    }
    document = rehearse(plan_of(loop_plan(max_runtime=50.0, parallel=waves())), {"prompt": "x"}, wave)
    assert (document["reason"], document["turns"][-1]["finished"]) == ("max_runtime", 50.0)


def test_a_review_is_played_like_anybody() -> None:
    document = rehearse(plan_of(loop_plan(review=review(), required=("review.passed",))), {"prompt": "x"})

    assert [turn["agent"] for turn in document["turns"]].count("@review") == 3


def test_roles_may_have_any_name() -> None:
    """Who is asked beside the roles goes by a name that begins with `@`: a role `review` is no review."""
    roles = (
        RolePlan(id="loop", emits=("begun",)),
        RolePlan(id="branch", emits=("looked",)),
        RolePlan(id="review", emits=("task.complete",)),
    )
    handoff = (("loop.start", ("loop",)), ("begun", ("branch",)), ("looked", ("review",)))
    loop = LoopPlan(roles=roles, handoff=handoff, max_iterations=9, review=review(), parallel=waves())
    script = {
        "loop": [{"emits": [{"topic": "begun.parallel", "payload": "- a\n- b"}]}],
        "@branch/branch": [{"text": "looked at"}],
        "branch": [{"emits": [{"topic": "looked"}]}],
        "review": [{"emits": [{"topic": "task.complete"}]}],
        "@review": [{"emits": [{"topic": "looked"}]}],
    }
    document = rehearse(plan_of(loop), {"prompt": "x"}, script)

    asked = [turn["agent"] for turn in document["turns"]]
    assert asked == ["loop", "@branch", "@branch", "@review", "branch", "@review", "review"]
    assert [turn.get("rejected") for turn in document["turns"] if turn["agent"] == "@review"] == [["looked"]] * 2
    assert document["reason"] == "completion_event"
