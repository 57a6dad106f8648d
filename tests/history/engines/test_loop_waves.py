"""Waves: one event opens branches side by side, and the harness joins them."""

import pytest
from bundles import bundle
from loop_play import HANDOFF, Play, loop_plan, waves

from coterie.history.journal import records as r
from coterie.team.planning.branches import asked_by_loop
from coterie.team.planning.loop import LoopPlan

TWO = "- the parser\n- the printer"


def opened(event: str = "tasks.ready.parallel", **fields: object) -> Play:
    """A loop whose first turn opened a wave of two."""
    play = Play(loop_plan(parallel=waves(), **fields))
    verdict = play.emit(event, TWO)
    assert isinstance(verdict, r.EventEmitted), verdict
    play.answer("off they go")
    return play


def test_a_wave_opens_when_its_turn_ends_and_all_branches_start_together() -> None:
    play = opened()

    assert play.running == ["wave-1.1#1.1", "wave-1.2#1.1"]
    [started] = play.all(r.WaveStarted)
    assert started.objectives == ("the parser", "the printer")


def test_a_wave_of_an_event_goes_on_as_that_event_does() -> None:
    """`<base>.parallel.joined` routes as `<base>`, which is how a branch is routed too."""
    play = opened()
    assert {play.core.turns[t].ask.given["event"] for t in ("wave-1.1#1", "wave-1.2#1")} == {"tasks.ready"}
    play.answer("parsed", turn="wave-1.1#1")
    play.answer("printed", turn="wave-1.2#1")

    assert (play.turn, play.all(r.IterationStarted)[-1].event) == ("iteration#2", "tasks.ready")
    said = {output.name: output.text for output in play.engine.prompt_state(play.turn).outputs}
    assert said["wave 1, branch 2: the printer"] == "printed"


def test_a_join_with_a_key_of_its_own_is_routed_by_it() -> None:
    """Defect G: the explicit handoff of a joined event used to be ignored."""
    play = opened(handoff=(*HANDOFF, ("tasks.ready.parallel.joined", ("critic",))))
    play.answer(turn="wave-1.1#1")
    play.answer(turn="wave-1.2#1")

    last = play.all(r.IterationStarted)[-1]
    assert (last.event, last.role) == ("tasks.ready.parallel.joined", "critic")


def test_exploring_comes_back_to_where_the_loop_was() -> None:
    play = Play(loop_plan(parallel=waves()))
    play.does("tasks.ready")
    play.emit("explore.parallel", TWO)
    play.answer()
    assert play.core.turns["wave-1.1#1"].ask.given == {"event": "tasks.ready"}
    play.answer(turn="wave-1.1#1")
    play.answer(turn="wave-1.2#1")

    assert play.all(r.IterationStarted)[-1].event == "tasks.ready"


def test_branches_that_fail_are_reported_and_the_rest_counts() -> None:
    play = opened()
    play.fail("timeout", turn="wave-1.1#1")
    play.answer("printed", turn="wave-1.2#1")

    [late] = play.all(r.WaveTimeout)
    assert late.turns == ("wave-1.1#1",)
    [joined] = play.all(r.WaveJoined)
    assert joined.outcomes == (("wave-1.1#1", "timeout"), ("wave-1.2#1", "completed"))
    assert play.engine.state.failures == 0
    assert any("(timeout)" in output.name for output in play.engine.prompt_state(play.turn).outputs)


def test_a_wave_that_fails_whole_is_one_failed_turn() -> None:
    """The role that opened it is asked again, and told."""
    play = opened(max_failures=2)
    play.fail(turn="wave-1.1#1")
    play.fail(turn="wave-1.2#1")

    assert play.engine.state.failures == 1
    assert play.all(r.IterationStarted)[-1].role == "planner"
    assert "wave 1" in play.engine.prompt_state(play.turn).failure


@pytest.mark.parametrize(
    ("kind", "reason"), [("auth", "auth_failed"), ("quota", "quota_exhausted"), ("not_found", "backend_failed")]
)
def test_a_wave_that_fails_by_what_asking_again_cannot_mend_ends_the_loop(kind: str, reason: str) -> None:
    """One branch is enough, when none succeeded."""
    play = opened()
    play.fail("timeout", turn="wave-1.1#1")
    play.fail(kind, turn="wave-1.2#1")

    assert play.end == ("failed", reason)


def test_a_branch_that_fails_so_does_not_end_the_loop_while_another_succeeds() -> None:
    play = opened()
    play.fail("auth", turn="wave-1.1#1")
    play.answer("done", turn="wave-1.2#1")

    assert play.running == ["iteration#2.1"]


def test_a_branch_that_a_provider_failed_is_reported_without_its_error() -> None:
    """The outcome is told; the error is not the agent's."""
    play = opened()
    for turn in ("wave-1.1#1", "wave-1.2#1"):
        for _ in range(4):
            play.fail("rate_limited", turn=turn)
            play.due()
    brief = play.engine.prompt_state(play.turn)

    assert [(one.name.partition(":")[0], one.text) for one in brief.outputs[-2:]] == [
        ("wave 1, branch 1 (failed)", ""),
        ("wave 1, branch 2 (failed)", ""),
    ]
    assert "rate_limited" not in repr(brief)
    assert play.all(r.WaveJoined)[-1].outcomes == (("wave-1.1#1", "rate_limited"), ("wave-1.2#1", "rate_limited"))


def test_nothing_counts_behind_the_event_that_opens_a_wave() -> None:
    play = Play(loop_plan(parallel=waves()))
    play.emit("tasks.ready.parallel", TWO)

    assert isinstance(play.emit("task.complete"), r.EventInvalid)
    assert isinstance(play.emit("explore.parallel", TWO), r.EventInvalid)


def test_a_wave_stands_over_a_crash_before_and_in_it() -> None:
    """The turn that opened it is asked again; branches go on under their ids."""
    play = Play(loop_plan(parallel=waves()))
    play.emit("tasks.ready.parallel", TWO)
    play.crash()
    assert play.running == ["iteration#1.2"]
    play.answer()
    play.answer("parsed", turn="wave-1.1#1")
    play.crash()
    assert not play.all(r.WaveJoined)
    play.answer("printed", turn="wave-1.2#1")

    assert len(play.all(r.WaveStarted)) == len(play.all(r.WaveJoined)) == 1


def test_a_wave_opens_though_its_turn_failed() -> None:
    play = Play(loop_plan(parallel=waves()))
    play.emit("tasks.ready.parallel", TWO)
    play.fail()

    assert len(play.running) == 2


@bundle(
    ("event", "payload"),
    [
        ("review.ready.parallel", TWO),  # its base is not allowed here
        ("task.complete.parallel", TWO),
        ("issue.discovered.parallel", TWO),
        ("tasks.ready.parallel.joined", TWO),
        ("explore.parallel.parallel", TWO),
        (".parallel", TWO),
        ("tasks.ready.parallel", "prose"),
        ("tasks.ready.parallel", ""),
        ("tasks.ready.parallel", "- a\n- a"),
        ("tasks.ready.parallel", "1. a\n2. b\n3. c\n4. d"),
    ],
)
def test_what_opens_no_wave(event: str, payload: str) -> None:
    play = Play(loop_plan(parallel=waves()))

    assert isinstance(play.emit(event, payload), r.EventInvalid)


def test_without_waves_there_is_none() -> None:
    play = Play(loop_plan())

    assert isinstance(play.emit("tasks.ready.parallel", TWO), r.EventInvalid)


# -- a branch ---------------------------------------------------------------------------------------------------------


def branch(**fields: object) -> LoopPlan:
    from loop_play import plan_of

    child = asked_by_loop(plan_of(loop_plan(parallel=waves(), max_iterations=50, **fields)))["@branch"].child
    assert child is not None
    assert isinstance(child.coordination, LoopPlan)
    return child.coordination


def test_a_branch_is_one_iteration_and_opens_no_waves() -> None:
    """Its end by max_iterations is success; what it said is its result."""
    play = Play(branch())
    assert isinstance(play.emit("tasks.ready.parallel", TWO), r.EventInvalid)
    play.does("tasks.ready")

    assert play.end == ("completed", "max_iterations")
    assert play.core.finished is not None
    assert play.core.finished.result["text"] == "did tasks.ready"


def test_a_branch_that_fails_once_has_failed() -> None:
    play = Play(branch())
    play.fail()

    assert play.end == ("failed", "backend_failed")


def test_iterations_that_are_added_are_the_runs_not_its_branches() -> None:
    """A branch stays one iteration, whatever the owner that goes on with it adds."""
    from coterie.team.planning.plan import Limits

    play = Play(branch())
    play.crash(Limits(add_iterations=3, max_parallel=None))
    play.answer()

    assert play.end == ("completed", "max_iterations")


def test_a_branch_that_an_operator_interrupts_did_not_complete() -> None:
    """What it had emitted stands, as it does in a turn; with nothing emitted there is nothing to count."""
    play = Play(branch())
    play.core.write(play.now, r.OperatorSaid(message="i", what="interrupt"), source="operator")
    play.fail("interrupted")
    assert play.end == ("failed", "interrupted")

    other = Play(branch())
    other.emit("tasks.ready")
    other.core.write(other.now, r.OperatorSaid(message="i", what="interrupt"), source="operator")
    other.fail("interrupted")
    assert other.end == ("completed", "max_iterations")


def test_a_wave_that_is_called_off_whole_is_no_failure_and_leads_nowhere() -> None:
    """As an interrupted turn, it leaves the loop where it was."""
    play = opened(max_failures=1)
    play.fail("cancelled", turn="wave-1.1#1")
    play.fail("cancelled", turn="wave-1.2#1")

    assert play.engine.state.failures == 0
    assert play.all(r.IterationStarted)[-1].event == "loop.start"
    assert play.all(r.WaveJoined)[-1].outcomes == (("wave-1.1#1", "cancelled"), ("wave-1.2#1", "cancelled"))
