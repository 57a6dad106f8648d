"""What an iteration and a review are asked: the order of the parts, whole texts as golden files, and bounds."""

from pathlib import Path

from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loop_play import Play, loop_plan, review, waves

from coterie.agents.workspace.notes import ShownNotes
from coterie.execution.kinds.loop.prompt import context, render
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.place import RunPlace

GOLDEN = Path(__file__).parent / "golden"
NOTES = ShownNotes(memory="- always run the tests", tasks="- [ ] task-1: the parser", tool="/run/turns/autoloops")


def question(play: Play, notes: ShownNotes = NOTES) -> str:
    """What the turn that runs is asked."""
    return render(play.engine.plan, play.engine.prompt_state(play.turn), notes)


def seventh() -> Play:
    """A loop with everything: an operator, a rejected event, a failure, outputs, something required."""
    plan = loop_plan(
        harness="Work in small steps.\nNever push. Emit with {{TOOL_PATH}}.",
        required=("review.passed",),
        parallel=waves(),
        review=review(5),
    )
    play = Play(plan, given="Build the parser")
    play.emit("tasks.ready", "begin with the lexer")
    play.answer("The plan: lexer, parser, printer.")
    play.guide("mind the tests")
    play.emit("ship.it")
    play.fail("timeout")
    return play


def first() -> Play:
    return Play(loop_plan(roles=(), handoff=(), promise=""), given="")


def a_review() -> Play:
    play = Play(loop_plan(review=review(), place=RunPlace(project="/loops/autocode")))
    play.does("tasks.ready")
    return play


def after_a_wave() -> Play:
    play = Play(loop_plan(parallel=waves()))
    play.emit("explore.parallel", "- the lexer\n- the parser")
    play.answer("off they go")
    play.answer("the lexer is small", turn="wave-1.1#1")
    play.fail("timeout", turn="wave-1.2#1")
    return play


def again() -> Play:
    play = Play(loop_plan())
    play.emit("tasks.ready")
    play.crash()
    return play


@bundle("make", [seventh, first, a_review, after_a_wave, again], ids=lambda make: make.__name__)
def test_whole_questions(make: object) -> None:
    """Held to the letter; a change of a prompt is a change that users see."""
    play = make()  # type: ignore[operator]
    golden = GOLDEN / f"{make.__name__}.txt"  # type: ignore[attr-defined]

    assert question(play) + "\n" == golden.read_text(encoding="utf-8")


def test_the_parts_come_in_their_order() -> None:
    """Standing text first, then what went wrong, what for, who says what, where it stands, how to go on."""
    parts = [
        "Work in small steps.",
        "Before you begin:",
        "Objective:\nBuild the parser",
        "Operator guidance:\n- mind the tests",
        "Memory:\n~~~text\n- always run the tests",
        "Tasks:\n~~~text\n- [ ] task-1",
        "Topology (advisory):\nRecent routing event: tasks.ready\nSuggested next roles: builder\n"
        "Allowed next events: review.ready, build.blocked",
        "Role deck:\n- role `planner`\n  emits: tasks.ready, task.complete\n  prompt: You are the planner.\n",
        "Your role, `builder`:\nYou are the builder.",
        "Structured parallelism:",
        "Iteration: 3/20",
        "Recent outputs",
        "How to emit:",
    ]
    text = question(seventh())
    places = [text.index(part) for part in parts]

    assert places == sorted(places)


def test_a_branch_is_told_nothing_of_waves() -> None:
    assert "Structured parallelism" not in question(Play(loop_plan(branch="tasks.ready")))


@bundle("place", ["harness", "objective", "output", "guidance", "memory", "role"])
def test_the_promise_is_never_alone_on_a_line(place: str) -> None:
    """An agent that repeats its question has promised nothing, wherever the words came from."""
    said = "before\n  LOOP_COMPLETE  \nafter"
    roles = loop_plan().roles
    if place == "role":
        roles = tuple(type(role)(id=role.id, emits=role.emits, prompt=said) for role in roles)
    play = Play(loop_plan(harness=said if place == "harness" else "", roles=roles), given=said)
    if place == "output":
        play.emit("tasks.ready")  # so that it does not count as one
        play.answer(said)
    if place == "guidance":
        play.guide(said)
        play.answer()
    text = question(play, ShownNotes(memory=said))

    assert "LOOP_COMPLETE" not in {line.strip() for line in text.splitlines()}
    play.answer(text, prompt=text)
    assert play.core.finished is None


@given(st.lists(st.integers(0, 40_000), min_size=5, max_size=12))
def test_an_iteration_costs_the_same_at_any_time(sizes: list[int]) -> None:
    """However much was said, and however often: what a question shows of it is bounded."""
    play = Play(loop_plan(roles=(), handoff=(), max_iterations=50))
    for k, size in enumerate(sizes):
        play.guide("g" * size)
        play.emit("on", "p" * size)
        play.answer(f"{k} " + "o" * size)

    assert len(question(play)) < 22_000


def test_the_newest_is_kept_when_outputs_are_cut() -> None:
    play = Play(loop_plan())
    for text in ("old " * 5_000, "new " * 1_000, "the end"):
        play.answer(text)
    text = question(play)

    assert "the end" in text
    assert text.count("new") == 1_000
    assert "left out" in text


def test_programs_are_told_the_same_as_data() -> None:
    play = seventh()
    plan: LoopPlan = play.engine.plan
    told = context(plan, play.engine.prompt_state(play.turn), {"prompt": "Build the parser"})

    assert told["task"] == "Build the parser"
    assert told["loop"] | {"nearest": ""} == {
        "iteration": 3,
        "max_iterations": 20,
        "review": False,
        "event": "tasks.ready",
        "payload": "begin with the lexer",
        "roles": ["builder"],
        "allowed": ["review.ready", "build.blocked"],
        "anything": False,
        "completion": "task.complete",
        "promise": "LOOP_COMPLETE",
        "required": ["review.passed"],
        "missing": ["review.passed"],
        "nearest": "",
    }


def test_the_command_of_an_attempt_is_quoted_where_it_must_be() -> None:
    """A folder may have a space in its name, and a text may quote the placeholder itself; `#` needs no quotes."""
    plan = loop_plan(harness='Call "{{TOOL_PATH}}" emit x, or {{TOOL_PATH}} emit y.')
    spaced = question(Play(plan), ShownNotes(tool="/my loop/turns/iteration#1.1/autoloops"))
    plain = question(Play(plan), ShownNotes(tool="/loop/turns/iteration#1.1/autoloops"))

    assert 'Call "/my loop/turns/iteration#1.1/autoloops" emit x' in spaced
    assert "or '/my loop/turns/iteration#1.1/autoloops' emit y" in spaced
    assert "\n    '/my loop/turns/iteration#1.1/autoloops' emit tasks.ready" in spaced
    assert "or /loop/turns/iteration#1.1/autoloops emit y" in plain
