"""Runs of loops in the earlier system's journal lines."""

import json
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loop_play import ROUND, Play, loop_plan, review, waves

from coterie.history.journal import records as r
from coterie.history.journal.codec import Decoder
from coterie.history.views.projected_lines import as_line, beginning, wave_id
from coterie.history.views.projection import LoopProjection, fold
from coterie.team.planning.plan import Limits, to_json

HISTORIES = Path(__file__).parents[2] / "histories" / "0.1"
FIELDS = {
    "loop.start": "max_iterations completion_promise completion_event review_every objective preset trigger "
    "project_dir work_dir backend backend_args parent_run_id isolation_mode worktree_name worktree_path",
    "loop.stop": "reason",
    "loop.complete": "reason",
    "loop.resume": "resumed_from_iteration previous_stop_reason add_iterations new_max_iterations",
    "iteration.start": "recent_event suggested_roles allowed_events backpressure prompt",
    "backend.start": "backend_kind command args prompt_mode timeout_ms",
    "backend.finish": "exit_code timed_out output",
    "backend.usage": "input_tokens output_tokens cache_read_tokens cache_write_tokens total_tokens cost_usd",
    "backend.transient": "error_class pause_count backoff_ms output_tail",
    "iteration.finish": "exit_code timed_out elapsed_s output",
    "event.invalid": "recent_event emitted suggested_roles allowed_events",
    "review.start": "kind backend_kind backend_provider command prompt_mode prompt timeout_ms",
    "review.finish": "kind exit_code timed_out output",
    "wave.start": "wave_id trigger_topic branch_count opening_recent_event opening_roles opening_events objectives "
    "concurrency_source",
    "wave.branch.start": "wave_id branch_id objective routing_event branch_roles branch_events",
    "wave.branch.finish": "wave_id branch_id stop_reason elapsed_ms output",
    "wave.join.start": "wave_id trigger_topic branch_count elapsed_ms branch_outcomes concurrency_source",
    "wave.join.finish": "wave_id trigger_topic joined_topic routing_basis resume_recent_event "
    "resume_roles resume_events elapsed_ms",
    "wave.timeout": "wave_id timed_out_branches",
    "wave.failed": "wave_id failed_branches",
}
"""What the earlier system writes, by topic."""


def lines_of(play: Play, **more: Any) -> list[dict[str, Any]]:
    """The run that was played, its plan in its first record as it is on disk."""
    first = r.RunStarted(run="r", engine="loop", plan=to_json(play.plan).decode(), input={"prompt": "Do it"}, seq=1)
    return list(fold([first, *play.log[1:]], **more))


def topics(lines: list[dict[str, Any]]) -> list[str]:
    return [line["topic"] for line in lines]


def one(lines: list[dict[str, Any]], topic: str) -> dict[str, Any]:
    """The fields of the only line of *topic*."""
    [line] = [line for line in lines if line["topic"] == topic]
    return dict(line["fields"])


def test_a_run_from_its_start_to_its_end() -> None:
    """One group of lines for each iteration, and what was emitted between its start and its end."""
    play = Play(loop_plan())
    play.does(*ROUND)
    lines = lines_of(play, prompts=lambda turn, attempt: f"asked {turn}.{attempt}")

    of_an_iteration = ["iteration.start", "backend.start", "EVENT", "backend.finish", "iteration.finish"]
    wanted = [topic if topic != "EVENT" else event for event in ROUND for topic in of_an_iteration]
    assert topics(lines) == ["loop.start", *wanted, "loop.complete"]
    assert lines[6] | {"ts": ""} == {
        "run": "r",
        "iteration": "2",
        "topic": "iteration.start",
        "ts": "",
        "v": 1,
        "fields": {
            "recent_event": "tasks.ready",
            "suggested_roles": "builder",
            "allowed_events": "review.ready,build.blocked",
            "backpressure": "",
            "prompt": "asked iteration#2.1",
        },
    }
    assert lines[3]["source"] == "agent"
    assert one(lines, "loop.complete") == {"reason": "completion_event"}


def test_what_went_wrong_is_told_in_the_next_iteration() -> None:
    """A rejected event, a transient failure and the pause after it, a failure for good, the stop."""
    play = Play(loop_plan(max_failures=1), retry=1)
    play.emit("review.passed")
    play.answer("no")
    play.fail("rate_limited", wait=2.0)
    play.now += 2.0
    play.due()
    play.fail("auth")
    lines = lines_of(play)

    assert one(lines, "event.invalid")["allowed_events"] == "tasks.ready,task.complete"
    starts = [line["fields"]["backpressure"] for line in lines if line["topic"] == "iteration.start"]
    assert starts[0] == ""
    assert "review.passed" in starts[1]
    paused = one(lines, "backend.transient")
    assert (paused["error_class"], paused["pause_count"]) == ("rate_limited", "1")
    assert paused["backoff_ms"] >= 2000
    assert one(lines, "loop.stop")["reason"] == "auth_failed"


def test_an_accepted_event_clears_what_was_rejected_before_it() -> None:
    """The next iteration is told of no rejection that the agent has mended itself."""
    play = Play(loop_plan())
    play.emit("review.passed")
    play.does("tasks.ready", "review.ready")
    starts = [line["fields"]["backpressure"] for line in lines_of(play) if line["topic"] == "iteration.start"]

    assert starts == ["", "", ""]


def test_a_failure_is_told_with_the_exit_code_and_what_was_printed() -> None:
    """Of the attempt and of the iteration; without a program the code is 1 and the output the reason."""
    play = Play(loop_plan(max_failures=3))
    play.fail(text="emitted task.complete\n", log="a warning\n", exit_code=3)
    play.fail("timeout", text="half of it", exit_code=137, signal="SIGKILL")
    play.fail("crashed")
    told = [
        (line["topic"], line["fields"]["exit_code"], line["fields"]["timed_out"], line["fields"]["output"])
        for line in lines_of(play)
        if line["topic"] in ("backend.finish", "iteration.finish")
    ]

    ends = [("3", False, "emitted task.complete\na warning\n"), ("137", True, "half of it"), ("1", False, "crashed!")]
    assert told == [(topic, *end) for end in ends for topic in ("backend.finish", "iteration.finish")]


def test_a_retry_is_told_with_what_was_printed_and_its_end_is_that_of_the_last_attempt() -> None:
    """What the earlier attempts printed is theirs."""
    play = Play(loop_plan())
    play.fail("rate_limited", text="HTTP 429\n", exit_code=1)
    play.due()
    play.answer("done")
    lines = lines_of(play)

    assert one(lines, "backend.transient")["output_tail"] == "HTTP 429\n"
    assert (one(lines, "iteration.finish")["exit_code"], one(lines, "iteration.finish")["output"]) == ("0", "done")


def test_what_an_interrupted_attempt_used_is_a_line_of_its_own() -> None:
    """As for any other attempt."""
    play = Play(loop_plan())
    play.fail("interrupted", usage=r.Usage(cost=0.5))

    assert one(lines_of(play), "backend.usage")["cost_usd"] == 0.5


def test_a_failed_turn_whose_event_stands_is_told_with_its_exit_code() -> None:
    play = Play(loop_plan(), retry=1)
    play.emit("task.complete")
    play.fail(text="emitted task.complete\n", exit_code=3)
    end = one(lines_of(play), "iteration.finish")

    assert (end["exit_code"], end["output"]) == ("3", "emitted task.complete\n")


def test_a_run_that_stopped_and_was_resumed() -> None:
    """The limit that then holds counts what was added."""
    play = Play(loop_plan(max_iterations=1))
    play.answer("nothing")
    play.stop()
    play.crash(Limits(add_iterations=2))
    lines = lines_of(play)

    assert one(lines, "loop.stop") == {
        "reason": "max_iterations",
        "completed_iterations": "1",
        "stopped_before_iteration": "2",
        "max_iterations": "1",
    }
    assert one(lines, "loop.resume") == {
        "resumed_from_iteration": "1",
        "previous_stop_reason": "max_iterations",
        "add_iterations": "2",
        "new_max_iterations": "3",
    }


@pytest.mark.parametrize("reviews", [True, False])
def test_a_stop_counts_the_iterations_that_are_over(reviews: bool) -> None:
    """A review is none, so it takes nothing off the last one; an iteration that still runs is not over."""
    play = Play(loop_plan(review=review(1) if reviews else None))
    play.answer("first")
    play.core.stop(play.now, "interrupted")
    stop = one(lines_of(play), "loop.stop")

    assert (stop["completed_iterations"], stop["stopped_before_iteration"]) == ("1", "2")


@pytest.mark.parametrize(
    ("limit", "reason", "fields"),
    [
        ({"max_cost": 0.5}, "cost_budget", {"cost_usd": "0.75", "max_cost_usd": "0.5"}),
        ({"max_runtime": 5.0}, "max_runtime", {"elapsed_ms": "6000", "max_runtime_ms": "5000"}),
        ({"stall": 2}, "stalled", {"identical_outputs": "2", "stall_iterations": "2"}),
    ],
)
def test_a_stop_names_its_limit(limit: dict[str, Any], reason: str, fields: dict[str, str]) -> None:
    """And how much of it was used, besides the number of iterations."""
    play = Play(loop_plan(max_iterations=9, **limit))
    if reason == "cost_budget":
        play.answer("a", usage=r.Usage(cost=0.75))
    elif reason == "max_runtime":
        play.now += 6.0
        play.answer("a")
    else:
        play.answer("a")
        play.answer("a")
    play.stop()
    stop = one(lines_of(play), "loop.stop")

    assert {"reason": reason, **fields}.items() <= stop.items()
    assert int(stop["completed_iterations"]) >= 1


def test_a_loop_that_failed_by_timeouts() -> None:
    """The earlier system has a reason of its own for it."""
    play = Play(loop_plan(max_failures=1))
    play.fail("timeout")

    assert one(lines_of(play), "loop.stop")["reason"] == "backend_timeout"


def test_a_branch_ends_for_the_reason_of_its_run() -> None:
    """Where its journal can be read; see the test of a wave for where it cannot."""
    play = Play(loop_plan(parallel=waves(2)))
    play.emit("explore.parallel", "- a")
    play.answer("split")
    play.answer("done", "wave-1.1#1")
    lines = lines_of(play, end_of=lambda run: "completion_event" if run == "r/wave-1.1#1.1" else "")

    assert one(lines, "wave.branch.finish")["stop_reason"] == "completion_event"
    assert one(lines, "wave.join.start")["branch_outcomes"] == "branch-1:completion_event"


def test_a_review_and_guidance() -> None:
    """A review is told under the iteration that it comes before; guidance when it is said, and when it is heard."""
    play = Play(loop_plan(review=review(1)))
    play.answer("first")
    play.guide("Hurry")
    play.answer("looked")
    lines = lines_of(play)

    [start] = [line for line in lines if line["topic"] == "review.start"]
    assert start["iteration"] == "2"
    said = {line["topic"]: (line["source"], line["payload"]) for line in lines if "payload" in line}
    assert said["operator.guidance"] == ("operator", "Hurry")
    assert said["operator.guidance.consumed"][0] == "harness"


@pytest.mark.parametrize("fails", [False, True])
def test_a_wave(fails: bool) -> None:
    """Branches are told between the wave's start and its join; one that all branches failed is told so."""
    play = Play(loop_plan(parallel=waves(2)))
    play.emit("explore.parallel", "- a\n- b")
    play.answer("split")
    for turn in ("wave-1.1#1", "wave-1.2#1"):
        play.fail("timeout", turn) if fails else play.answer("done", turn)
    lines = lines_of(play)

    assert one(lines, "wave.start")["wave_id"] == wave_id("r", 1)
    branches = [line["fields"] for line in lines if line["topic"] == "wave.branch.start"]
    assert [(one["branch_id"], one["objective"]) for one in branches] == [("branch-1", "a"), ("branch-2", "b")]
    assert [(one["branch_roles"], one["branch_events"]) for one in branches] == [
        ("planner", "tasks.ready,task.complete")
    ] * 2
    if fails:
        assert one(lines, "wave.timeout")["timed_out_branches"] == "branch-1,branch-2"
        ends = [line["fields"]["stop_reason"] for line in lines if line["topic"] == "wave.branch.finish"]
        assert ends == ["backend_timeout", "backend_timeout"]
        assert one(lines, "wave.failed")["failed_branches"] == "branch-1,branch-2"
        assert "explore.parallel.joined" not in topics(lines)
    else:
        assert one(lines, "wave.join.start")["branch_outcomes"] == "branch-1:max_iterations,branch-2:max_iterations"
        joined = one(lines, "wave.join.finish")
        resumed = tuple(joined[f"resume_{name}"] for name in ("recent_event", "roles", "events"))
        assert resumed == ("loop.start", "planner", "tasks.ready,task.complete")
        assert "explore.parallel.joined" in topics(lines)


@pytest.mark.parametrize(
    ("event", "routed", "roles"),
    [("explore.parallel", "tasks.ready", "builder"), ("review.ready.parallel", "review.ready", "critic")],
)
def test_the_branches_of_a_wave_name_the_event_that_routes_them(event: str, routed: str, roles: str) -> None:
    """The one that the wave is named after; of an exploration the one that led to it."""
    play = Play(loop_plan(parallel=waves(1)))
    play.does("tasks.ready")
    play.emit(event, "- a")
    play.answer("split")
    started = one(lines_of(play), "wave.branch.start")

    assert (started["routing_event"], started["branch_roles"]) == (routed, roles)


@pytest.mark.parametrize(("window", "percent"), [(200_000, 0.1), (0, None)])
def test_usage_has_the_context_window_where_it_is_known(window: int, percent: float | None) -> None:
    """In percent, as the earlier system writes it."""
    play = Play(loop_plan())
    play.answer("text", usage=r.Usage(input_tokens=3, context_tokens=158, context_window=window))

    assert one(lines_of(play), "backend.usage").get("context_percent") == percent


@given(
    st.lists(st.sampled_from(["emit", "wrong", "answer", "transient", "fail", "crash", "guide", "wave"]), max_size=25)
)
def test_every_line_has_the_fields_of_its_topic(steps: list[str]) -> None:
    """Whatever happens; and every line is one line, which begins as all lines of its run do."""
    play = Play(loop_plan(review=review(2), parallel=waves(2)))
    for step in steps:
        if not play.running or not play.core.is_live:
            break
        turn = play.running[0].rpartition(".")[0]
        match step:
            case "emit":
                play.emit("tasks.ready", "p", turn)
            case "wrong":
                play.emit("review.passed", "p", turn)
            case "answer":
                play.answer("text", turn, usage=r.Usage(input_tokens=3, cost=0.5))
            case "transient":
                play.fail("transient", turn)
                play.now += 60.0
                play.due()
            case "fail":
                play.fail("exit", turn)
            case "crash":
                play.crash()
            case "guide":
                play.guide("hear")
            case _:
                play.emit("explore.parallel", "- a\n- b", turn)

    for line in lines_of(play):
        written = as_line(line)
        assert written.startswith(beginning("r"))
        assert written.count(b"\n") == 1
        assert json.loads(written)["v"] == 1
        if "fields" in line and not line["topic"].startswith("config."):
            assert set(FIELDS[line["topic"]].split()) <= line["fields"].keys(), line


@bundle("name", sorted(path.stem for path in HISTORIES.glob("*.jsonl")))
def test_journals_of_every_release_can_be_told(name: str) -> None:
    """Those of flows too, though nobody asks for them."""
    with (HISTORIES / f"{name}.jsonl").open("rb") as file:
        records = list(Decoder(name).read(file))
    projection = LoopProjection()

    assert next(line for record in records for line in projection.apply(record))["topic"] == "loop.start"
