"""What moves a loop from role to role, what may be emitted, and what completes it."""

from functools import partial

from bundles import bundle
from loop_play import ROUND, Play, loop_plan, review

from coterie.history.journal import records as r
from coterie.team.planning.loop import RolePlan


def positions(play: Play) -> list[tuple[str, str]]:
    """The event and the role of every iteration."""
    return [(one.event, one.role) for one in play.all(r.IterationStarted)]


def test_an_accepted_event_leads_to_its_role() -> None:
    """Each turn's event routes the next, until the completion event ends the run."""
    play = Play(loop_plan())
    play.does(*ROUND)

    assert positions(play) == [
        ("loop.start", "planner"),
        ("tasks.ready", "builder"),
        ("review.ready", "critic"),
        ("review.passed", "finalizer"),
    ]
    assert play.end == ("completed", "completion_event")
    assert play.core.finished is not None
    assert play.core.finished.result == {"text": "did task.complete", "reason": "completion_event", "iterations": 4}


def test_a_silent_turn_leaves_the_loop_where_it_is() -> None:
    """No event, no move: the same role is asked again, by the same event."""
    play = Play(loop_plan())
    play.does("tasks.ready")
    play.answer("hm")

    assert positions(play)[1:] == [("tasks.ready", "builder")] * 2


def test_what_is_not_allowed_is_rejected_with_what_would_be() -> None:
    """Defect B: a completion event that the role may not emit neither completes now nor later."""
    play = Play(loop_plan())
    play.does("tasks.ready")
    verdict = play.emit("task.complete")

    assert isinstance(verdict, r.EventInvalid)
    assert (verdict.recent, verdict.suggested) == ("tasks.ready", ("builder",))
    assert verdict.allowed == ("review.ready", "build.blocked")
    play.answer("done, I think")
    play.does("review.ready", "review.passed")
    assert play.core.finished is None
    assert "task.complete" not in play.engine.state.accepted


def test_the_next_turn_is_told_of_a_rejected_event_until_one_is_accepted() -> None:
    play = Play(loop_plan())
    play.emit("ship.it")
    play.answer()
    assert "ship.it" in play.engine.prompt_state(play.turn).rejected

    play.does("tasks.ready")
    assert play.engine.prompt_state(play.turn).rejected == ""


def test_records_of_the_harness_never_route() -> None:
    """Defect A: a review, a reload, guidance and a failure leave the position and what is allowed alone."""
    play = Play(loop_plan(review=review()))
    play.does("tasks.ready")
    assert play.turn == "review#1"
    assert isinstance(play.emit("review.ready"), r.EventInvalid)
    play.answer("all is well")
    play.guide("look twice")
    play.fail()
    assert play.turn == "review#2"
    play.fail("timeout")

    assert positions(play)[1:] == [("tasks.ready", "builder")] * 2
    assert play.engine.view(play.turn).allowed == ("review.ready", "build.blocked")


def test_the_recent_event_is_never_one_of_the_harness() -> None:
    """Defect L: what a turn had used, or that its completion was held, was told as "the event" of the turn."""
    play = Play(loop_plan(required=("review.passed",)))
    play.emit("tasks.ready")
    play.answer("planned", usage=r.Usage(input_tokens=10, cost=0.5))
    assert isinstance(play.emit("task.complete"), r.EventInvalid)
    play.answer("built", usage=r.Usage(input_tokens=10, cost=0.5))

    assert [one.event for one in play.all(r.IterationStarted)] == ["loop.start", "tasks.ready", "tasks.ready"]
    assert play.engine.prompt_state(play.turn).view.recent == "tasks.ready"


def test_a_review_that_fails_stops_nothing() -> None:
    play = Play(loop_plan(review=review(2)))
    play.does("tasks.ready", "review.ready")
    assert play.turn == "review#1"
    play.fail("auth")

    assert play.turn == "iteration#3"
    assert play.engine.state.failures == 0


def test_reviews_come_before_iterations_that_follow_a_round() -> None:
    """Before iteration i > 1 when i - 1 is a multiple of every."""
    play = Play(loop_plan(review=review(3), max_iterations=8))
    reviewed = []
    while play.running:
        if play.turn.startswith("review"):
            reviewed.append(play.engine.prompt_state(play.turn).iteration)
        play.answer(play.turn)

    assert reviewed == [4, 7]


def test_coordination_events_are_noted_and_nothing_else() -> None:
    """Always accepted; they do not route, satisfy, complete, nor silence the promise."""
    play = Play(loop_plan(required=("slice.verified",), promise="OVER"))
    assert isinstance(play.emit("slice.verified"), r.EventNoted)
    play.answer("OVER")
    assert positions(play)[1] == ("loop.start", "planner")  # what is required has not been accepted
    free = Play(loop_plan(promise="OVER"))
    free.emit("issue.discovered")
    free.answer("so: OVER")

    assert free.end == ("completed", "completion_promise")


def test_several_events_in_a_turn_the_last_one_routes() -> None:
    play = Play(loop_plan())
    play.does("tasks.ready")
    play.emit("build.blocked")
    play.emit("review.ready")
    play.answer()

    assert positions(play)[-1] == ("review.ready", "critic")


def test_completion_stands_whatever_is_emitted_after_it() -> None:
    play = Play(loop_plan())
    play.emit("task.complete")
    play.emit("tasks.ready")
    play.answer()

    assert play.end == ("completed", "completion_event")


@bundle("gated", [False, True])
def test_completion_counts_once_the_files_of_its_turn_are_kept(gated: bool) -> None:
    """On one machine they are where they were written. If they are lost with a node, the next attempt must complete.

    The verdict of *gated* comes later.
    """
    here, there = Play(loop_plan()), Play(loop_plan())
    here.emit("task.complete")
    name = there.turn
    lost = partial(there.core.accept, there.now, r.TreeSaved(turn=name, attempt=1, lost=True))
    said = partial(there.emit, "task.complete")
    for step in (lost, said) if gated else (said, lost):
        step()
    for play in (here, there):
        play.fail("lost")

    assert here.running == there.running == [f"{name}.2"]
    assert here.engine.state.turns[name].events == ["task.complete"]
    assert there.engine.state.turns[name].events == []
    here.answer()
    assert here.end == ("completed", "completion_event")
    there.does("task.complete")
    assert there.end == ("completed", "completion_event")


def test_completion_waits_for_what_is_required() -> None:
    """Defect: an early completion event is rejected when it is emitted, and not remembered."""
    play = Play(loop_plan(required=("review.passed",)))
    verdict = play.emit("task.complete")
    assert isinstance(verdict, r.EventInvalid)
    assert "review.passed" in verdict.reason
    play.does("tasks.ready", "review.ready", "review.passed")

    assert play.core.finished is None
    play.does("task.complete")
    assert play.end == ("completed", "completion_event")


def test_completion_waits_for_open_tasks() -> None:
    play = Play(loop_plan())
    verdict = play.emit("task.complete", open_tasks=("task-1",))
    assert isinstance(verdict, r.EventInvalid)
    assert "task-1" in verdict.reason

    assert isinstance(play.emit("task.complete"), r.EventEmitted)


@bundle(
    ("text", "prompt", "emits", "tasks", "completes"),
    [
        ("It works now. LOOP_COMPLETE", "", (), (), True),
        ("it is LOOP_COMPLETE now", "", (), (), False),
        ("LOOP_COMPLETE", "answer with `LOOP_COMPLETE`", (), (), True),
        ("I was told:\nanswer this: LOOP_COMPLETE", "do\n  answer this: LOOP_COMPLETE\n", (), (), False),
        ("LOOP_COMPLETE", "", ("tasks.ready",), (), False),
        ("LOOP_COMPLETE", "", ("not.allowed",), (), False),
        ("LOOP_COMPLETE", "", (), ("task-1",), False),
        ("nothing", "", (), (), False),
    ],
)
def test_the_promise(text: str, prompt: str, emits: tuple[str, ...], tasks: tuple[str, ...], completes: bool) -> None:
    """It counts in a turn without any emit, under the same gates; a line that stands in the question is an echo."""
    play = Play(loop_plan())
    for event in emits:
        play.emit(event)
    play.answer(text, prompt=prompt, open_tasks=tasks)

    assert (play.core.finished is not None) is completes


def test_the_promise_waits_for_what_is_required_and_an_empty_one_never_counts() -> None:
    play = Play(loop_plan(required=("review.passed",)))
    play.answer("LOOP_COMPLETE")
    assert play.core.finished is None
    empty = Play(loop_plan(promise="", completion=""))
    empty.answer("anything")
    empty.emit("")

    assert empty.core.finished is None


def test_a_loop_without_roles_takes_any_event() -> None:
    play = Play(loop_plan(roles=(), handoff=()))
    play.does("whatever", "else")

    assert positions(play) == [("loop.start", "@loop"), ("whatever", "@loop"), ("else", "@loop")]
    play.does("task.complete")
    assert play.end == ("completed", "completion_event")


def test_a_role_that_may_emit_nothing_is_rejected_whatever_it_emits() -> None:
    """Defect: no allowed events used to mean any event."""
    play = Play(loop_plan(roles=(RolePlan(id="mute"),), handoff=()))

    assert isinstance(play.emit("anything"), r.EventInvalid)


def test_allowed_events_stay_what_they_were_when_the_turn_started() -> None:
    play = Play(loop_plan())
    before = play.engine.view(play.turn).allowed
    play.emit("tasks.ready")

    assert play.engine.view(play.turn).allowed == before


def test_guidance_is_delivered_once() -> None:
    """Defect O: what is said during a turn is in the next question, and a record says which."""
    play = Play(loop_plan())
    play.guide("mind the tests")
    assert play.engine.prompt_state(play.turn).guidance == ()
    play.answer()
    assert play.engine.prompt_state(play.turn).guidance == ("mind the tests",)
    [delivered] = play.all(r.GuidanceDelivered)
    assert delivered.turn == "iteration#2"
    play.answer()

    assert play.engine.prompt_state(play.turn).guidance == ()


def test_guidance_that_reached_a_turn_under_way_is_not_told_again() -> None:
    play = Play(loop_plan())
    play.guide("stop that")
    [said] = play.all(r.OperatorSaid)
    play.core.write(play.now, r.GuidanceDelivered(turn=play.turn, messages=(said.message,)))
    play.answer()

    assert play.engine.prompt_state(play.turn).guidance == ()


def test_what_came_with_an_event_is_told_to_the_role_it_leads_to() -> None:
    play = Play(loop_plan())
    play.emit("tasks.ready", "first the parser")
    play.answer()

    assert play.engine.prompt_state(play.turn).payload == "first the parser"


def test_a_name_without_measure_is_rejected_and_not_repeated() -> None:
    play = Play(loop_plan(roles=(), handoff=()))
    assert isinstance(play.emit("x" * 10_000), r.EventInvalid)

    assert len(play.engine.state.rejected) < 400


def test_what_a_review_says_is_not_heard() -> None:
    """Its text is no output of the loop, completes nothing and never stalls it."""
    play = Play(loop_plan(review=review(), promise="LOOP_COMPLETE", stall=2))
    play.answer("first")
    play.answer("LOOP_COMPLETE", turn="review#1")
    play.answer("second")
    play.answer("LOOP_COMPLETE", turn="review#2")

    assert play.turn == "iteration#3"
    assert [output.text for output in play.engine.prompt_state(play.turn).outputs] == ["first", "second"]
