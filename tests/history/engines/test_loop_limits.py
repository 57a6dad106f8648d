"""When a loop stops, fails, is cut off and goes on."""

import pytest
from loop_play import ROUND, Play, loop_plan, review, waves

from coterie.history.engines.commands import Cancel, Finish, Reload
from coterie.history.engines.loop import LoopEngine
from coterie.history.journal import records as r
from coterie.team.planning.loop import RolePlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Limits

USED = r.Usage(cost=0.5)


def test_iterations_are_counted_and_can_be_added() -> None:
    """A limit is a stop, decided again by the next owner; what is added is added to what the plan says."""
    play = Play(loop_plan(max_iterations=2))
    play.answer("a")
    play.answer("b")
    assert play.end == ("stop", "max_iterations")
    play.stop()
    play.crash()
    assert play.end == ("stop", "max_iterations")
    play.stop()
    play.crash(Limits(add_iterations=2, max_parallel=None))
    assert play.turn == "iteration#3"
    play.answer("c")
    play.answer("d")
    play.stop()
    play.crash(Limits(add_iterations=1, max_parallel=None))

    assert (play.turn, play.engine.most) == ("iteration#5", 5)


def test_no_iterations_at_all() -> None:
    play = Play(loop_plan(max_iterations=0))

    assert play.end == ("stop", "max_iterations")
    assert not play.all(r.TurnStarted)


def test_a_limit_raised_during_the_last_iteration_is_seen() -> None:
    """Defect: the limit used to be looked at before the files were read again."""
    play = Play(loop_plan(max_iterations=1))
    play.read_again(loop_plan(max_iterations=2))
    play.answer()

    assert play.turn == "iteration#2"


def test_a_plan_that_cannot_be_read_again_changes_nothing() -> None:
    play = Play(loop_plan())
    play.config = r.ConfigRejected(reason="topology.toml:3:1: no")
    play.does("tasks.ready")

    assert play.turn == "iteration#2"
    assert play.engine.view(play.turn).allowed == ("review.ready", "build.blocked")


def test_a_plan_read_again_holds_from_the_next_iteration_on_and_over_a_crash() -> None:
    """Roles, agents and limits are the new ones; where the loop stands is not touched; what is fixed stays."""
    play = Play(loop_plan())
    changed = loop_plan(roles=(RolePlan(id="solo", emits=("task.complete",)),), handoff=())
    play.read_again(changed)
    play.does("tasks.ready")
    play.crash()

    assert play.all(r.IterationStarted)[-1].role == "solo"
    assert set(play.core.agents) == {"solo", "@loop", "@review"}
    assert play.engine.state.position == "tasks.ready"


def test_a_plan_read_again_leaves_the_loop_where_it_is() -> None:
    """The folders that a run uses are those of its start."""
    play = Play(loop_plan(place=RunPlace(project="/old", state_dir="a")))
    play.read_again(loop_plan(harness="Hurry.", place=RunPlace(project="/new", state_dir="b")))
    play.does("tasks.ready")

    assert play.engine.plan.harness == "Hurry."
    assert play.engine.plan.place == RunPlace(project="/old", state_dir="a")


@pytest.mark.parametrize(("texts", "stops"), [("aa", True), ("aba", False), ("a ", False), ("  ", False)])
def test_equal_outputs_stop_it(texts: str, stops: bool) -> None:
    """`stall_iterations` outputs in a row that are byte-equal and not empty."""
    play = Play(loop_plan(stall=2))
    for text in texts:
        play.answer(text.strip())

    assert (play.end == ("stop", "stalled")) is stops


def test_a_stalled_loop_that_is_resumed_tries_again() -> None:
    """Whoever resumes it, with a word for it or without, wants it to go on; it may stall again."""
    play = Play(loop_plan(stall=2))
    play.answer("same")
    play.answer("same")
    assert play.end == ("stop", "stalled")
    play.stop()
    play.guide("Try another way.")
    play.crash()

    assert play.engine.prompt_state(play.turn).guidance == ("Try another way.",)
    play.answer("same")
    assert play.running
    play.answer("same")
    assert play.end == ("stop", "stalled")


def test_cost_counts_failures_reviews_and_branches_too() -> None:
    play = Play(loop_plan(max_cost=2.0, review=review(), parallel=waves()))
    play.fail(usage=USED)
    play.answer(turn="review#1", usage=USED)
    play.emit("tasks.ready.parallel", "- a\n- b")
    play.answer()
    play.answer(turn="wave-1.1#1", usage=USED)
    play.fail(turn="wave-1.2#1", usage=USED)

    assert play.end == ("stop", "cost_budget")


def test_the_cost_of_an_interrupted_attempt_counts() -> None:
    """Before the next iteration, like that of any other."""
    play = Play(loop_plan(max_cost=2.0))
    play.fail("interrupted", usage=r.Usage(cost=2.0))
    play.due()
    play.answer()

    assert play.end == ("stop", "cost_budget")


def test_only_time_with_an_owner_counts() -> None:
    """A run resumed the next day is not over at once, and what was used before counts."""
    play = Play(loop_plan(max_runtime=100.0))
    play.now += 60
    play.answer()
    play.crash(after=86_400.0)
    assert play.engine.seconds_left(play.now) == pytest.approx(40.0)
    play.now += 50
    play.answer()

    assert play.end == ("stop", "max_runtime")


def test_repairing_a_journal_is_the_new_owners_time() -> None:
    """The hours before a torn line was cut off were nobody's."""
    play = Play(loop_plan(max_runtime=100.0))
    play.now += 10
    play.guide("x")
    play.now += 86_400
    play.core.write(play.now, r.JournalRepaired(file="torn", size=3))
    play.core.write(play.now, r.RunOwned(epoch=2))

    assert play.engine.seconds_left(play.now) == pytest.approx(90.0)


def test_failures_in_a_row_fail_the_run() -> None:
    """The same role is asked again, and told; a success in between starts the count anew."""
    play = Play(loop_plan(max_failures=2))
    play.fail("timeout")
    assert "timeout" in play.engine.prompt_state(play.turn).failure
    play.answer("better")
    assert play.engine.prompt_state(play.turn).failure == ""
    play.fail()
    play.fail()

    assert play.end == ("failed", "backend_failed")


def test_the_next_iteration_is_told_what_the_failed_one_had_said() -> None:
    """Both outputs, shortened; a success in between forgets them."""
    play = Play(loop_plan(), retry=0)
    play.fail("timeout", text="x" * 50_000 + " the end", log="a warning")
    brief = play.engine.prompt_state(play.turn)
    play.answer("better")

    assert brief.failure == "iteration#1 failed (timeout): timeout!"
    assert brief.printed.startswith("Output:\n~~~text\n(…)\nxxx")
    assert brief.printed.endswith(" the end\n~~~\n\nStandard error:\n~~~text\na warning\n~~~")
    assert len(brief.printed) < 5_000
    assert play.engine.prompt_state(play.turn).printed == ""


def test_a_failure_of_a_provider_is_counted_and_not_told() -> None:
    """After all its retries too; what went wrong before is still told."""
    play = Play(loop_plan(max_failures=3))
    play.fail(text="half of it")
    for _ in range(4):
        play.fail("transient", text="HTTP 503", log="503")
        play.due()
    brief = play.engine.prompt_state(play.turn)

    assert (play.turn, play.engine.state.failures) == ("iteration#3", 2)
    assert brief.failure == "iteration#1 failed (exit): exit!"
    assert brief.printed == "Output:\n~~~text\nhalf of it\n~~~"


def test_what_a_failed_turn_had_said_is_told_though_its_event_stands() -> None:
    play = Play(loop_plan(), retry=1)
    play.emit("tasks.ready")
    play.fail(text="half of the plan")
    brief = play.engine.prompt_state(play.turn)

    assert brief.failure == "iteration#1: it failed; the events it emitted are kept"
    assert brief.printed == "Output:\n~~~text\nhalf of the plan\n~~~"


@pytest.mark.parametrize("fails", [False, True])
def test_the_promise_of_a_failed_turn_does_not_count(fails: bool) -> None:
    """Nothing that it said is an answer."""
    play = Play(loop_plan(promise="LOOP_COMPLETE"))
    if fails:
        play.fail("timeout", text="LOOP_COMPLETE")
    else:
        play.answer("LOOP_COMPLETE")

    assert bool(play.running) is fails


@pytest.mark.parametrize(
    ("kind", "reason"), [("auth", "auth_failed"), ("quota", "quota_exhausted"), ("not_found", "backend_failed")]
)
def test_some_failures_last(kind: str, reason: str) -> None:
    play = Play(loop_plan())
    play.fail(kind)

    assert play.end == ("failed", reason)


def test_a_journal_from_when_a_missing_program_was_asked_for_again_is_read_so() -> None:
    """Version 1 of the engine decided otherwise, and its journals stay readable."""
    engine = LoopEngine(loop_plan(), {})
    engine.step(r.RunStarted(run="r", engine="loop", engine_version=1))
    engine.step(r.ConfigKept())
    decided = engine.step(r.TurnFailed(turn="iteration#1", kind="not_found", reason="there is no such program"))

    assert list(decided) == [Reload()]


def test_passing_failures_are_tried_again_within_the_iteration() -> None:
    play = Play(loop_plan())
    play.fail("rate_limited")
    assert not play.running
    play.due()

    assert play.running == ["iteration#1.2"]


def test_time_that_runs_out_is_no_failure_of_the_run() -> None:
    """A turn cut short by max_runtime would be the last failure allowed; the run stops by its limit."""
    play = Play(loop_plan(max_runtime=10.0, max_failures=1))
    play.now += 10
    play.fail("timeout")

    assert play.end == ("stop", "max_runtime")


# -- what was accepted stands -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exit", "timeout", "transient", "auth"])
def test_completion_wins_over_a_failure(kind: str) -> None:
    """Defect: an accepted completion event wins over a later non-zero exit."""
    play = Play(loop_plan())
    play.emit("task.complete")
    play.fail(kind)

    assert play.end == ("completed", "completion_event")
    assert not play.waits


@pytest.mark.parametrize("kind", ["exit", "transient"])
def test_what_was_accepted_routes_though_the_turn_failed(kind: str) -> None:
    play = Play(loop_plan(), retry=2)
    play.emit("tasks.ready")
    play.fail(kind)

    assert play.running == ["iteration#2.1"]
    assert play.all(r.IterationStarted)[-1].event == "tasks.ready"
    assert not play.waits


@pytest.mark.parametrize("ending", ["crash", "interrupted", "lost", "shortage", "max_cost"])
@pytest.mark.parametrize("event", ["", "tasks.ready", "task.complete"])
def test_a_turn_that_was_cut_off_is_retried_and_its_event_stands(event: str, ending: str) -> None:
    """Whether its owner was killed or stopped by Ctrl-C: the work behind the event is done, then the run goes on."""
    play = Play(loop_plan())
    if event:
        play.emit(event)
    play.fail("lost") if ending == "lost" else play.end_owner(ending)

    assert play.running == ["iteration#1.2"]
    assert play.engine.prompt_state(play.turn).accepted == ((event,) if event else ())
    assert play.engine.state.failures == 0
    play.answer("the rest of the work")
    if event == "task.complete":
        assert play.core.finished is not None
        assert play.core.finished.result == {
            "text": "the rest of the work",
            "reason": "completion_event",
            "iterations": 1,
        }
    else:
        assert play.all(r.IterationStarted)[-1].event == (event or "loop.start")


@pytest.mark.parametrize("ending", ["interrupted", "crash"])
@pytest.mark.parametrize("event", ["tasks.ready", "task.complete"])
def test_an_operators_interrupt_ends_the_turn_and_keeps_its_events(event: str, ending: str) -> None:
    """Also if the owner is killed before the attempt has ended (defect M)."""
    play = Play(loop_plan())
    play.emit(event)
    play.core.write(play.now, r.OperatorSaid(message="i", what="interrupt"), source="operator")
    play.end_owner(ending)

    assert len(play.all(r.TurnCancelled)) == 1
    if event == "task.complete":
        assert play.end == ("completed", "completion_event")
    else:
        assert play.running == ["iteration#2.1"]
        assert play.engine.state.position == "tasks.ready"


def test_a_turn_that_three_crashes_cut_off_fails_and_its_completion_counts() -> None:
    """What takes its owner down each time is not tried for ever."""
    play = Play(loop_plan())
    play.emit("task.complete")
    for _ in range(3):
        play.crash()

    assert [one.kind for one in play.all(r.TurnFailed)] == ["interrupted"]
    assert play.end == ("completed", "completion_event")


@pytest.mark.parametrize(
    ("event", "ending", "wanted"),
    [
        ("task.complete", "crash", [Cancel(turn="iteration#1", reason="the run is over"), "completed"]),
        ("task.complete", "interrupted", [Cancel(turn="iteration#1", reason="the run is over"), "completed"]),
        (
            "tasks.ready",
            "interrupted",
            [Cancel(turn="iteration#1", reason="it was interrupted; the events it emitted are kept")],
        ),
        ("tasks.ready", "crash", []),
    ],
)
def test_a_journal_from_when_an_emitted_event_ended_a_cut_off_turn_is_read_so(
    event: str, ending: str, wanted: list[object]
) -> None:
    """Version 2 of the engine decided otherwise, and its journals stay readable."""
    engine = LoopEngine(loop_plan(), {})
    engine.step(r.RunStarted(run="r", engine="loop", engine_version=2))
    engine.step(r.ConfigKept())
    engine.step(r.EventEmitted(turn="iteration#1", attempt=1, event=event))
    decided = engine.step(r.AttemptInterrupted(turn="iteration#1", attempt=1, reason=ending))

    assert [one.outcome if isinstance(one, Finish) else one for one in decided] == wanted


def test_a_crash_anywhere_leads_to_the_same_end() -> None:
    """Whatever was durable, position, counters, cost and limits are restored from the journal."""
    whole = Play(loop_plan(review=review(2), max_cost=9.0))
    play_round(whole)
    for upto in range(2, len(whole.log)):
        play = Play(loop_plan(review=review(2), max_cost=9.0))
        play_round(play)
        play.crash(upto=upto)
        play_round(play)
        assert play.core.finished is not None
        assert whole.core.finished is not None
        assert play.end == whole.end == ("completed", "completion_event")
        assert play.engine.state.iteration == whole.engine.state.iteration
        events = [(e.turn, e.event) for e in play.all(r.EventEmitted)]
        assert list(dict.fromkeys(events)) == [(e.turn, e.event) for e in whole.all(r.EventEmitted)]
        assert play.engine.state.cost == whole.engine.state.cost


def play_round(play: Play) -> None:
    """Play on to the end: each iteration emits its event of the round, unless it was accepted already."""
    while play.running:
        name = play.turn
        if name.startswith("iteration"):
            event = ROUND[int(name.rpartition("#")[2]) - 1]
            if event not in play.engine.prompt_state(name).accepted:
                assert isinstance(play.emit(event), r.EventEmitted)
        play.answer(f"{name} is done", usage=USED)


def test_what_an_operator_interrupts_is_over_and_the_next_iteration_hears_him() -> None:
    """The turn ends without a failure, the same role is asked, and told what was said meanwhile (defect M)."""
    play = Play(loop_plan(max_failures=1))
    play.does("tasks.ready")
    play.guide("Mind the tests.")
    play.core.write(play.now, r.OperatorSaid(message="i", what="interrupt"), source="operator")
    play.fail("interrupted")

    assert play.turn == "iteration#3"
    assert play.engine.prompt_state("iteration#3").guidance == ("Mind the tests.",)
    assert [one.role for one in play.all(r.IterationStarted)] == ["planner", "builder", "builder"]
    assert play.engine.state.failures == 0
    assert [one.reason for one in play.all(r.TurnCancelled)] == ["an operator interrupted it"]


def test_an_interrupt_of_one_turn_leaves_those_of_a_wave_alone() -> None:
    """It names the turn that it is for."""
    play = Play(loop_plan(parallel=waves(2)))
    play.emit("explore.parallel", "- a\n- b")
    play.answer("split")
    play.core.write(play.now, r.OperatorSaid(message="i", what="interrupt", turn="wave-1.1#1"), source="operator")

    assert play.running == ["wave-1.1#1.1", "wave-1.2#1.1"]
    assert play.all(r.TurnCancelled) == []


def test_what_was_said_long_ago_is_not_held() -> None:
    """A loop runs for weeks in one process: only what its questions still show stays, also when it is resumed."""
    play = Play(loop_plan(max_iterations=50))
    for n in range(40):
        play.answer(f"{n}: " + "x" * 1000)
    assert sum(len(turn.result.text) for turn in play.core.turns.values() if turn.result) == 0
    play.crash()

    assert sum(len(turn.result.text) for turn in play.core.turns.values() if turn.result) == 0
    assert [one.name for one in play.engine.prompt_state(play.turn).outputs] == [
        f"iteration {n}" for n in range(37, 41)
    ]
