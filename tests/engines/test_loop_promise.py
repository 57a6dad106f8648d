"""When the text that completes a loop counts, and what the next prompt says when it does not."""

import pytest
from bundles import bundle
from loop_play import Play, loop_plan

from coterie.engines.fences import fenced
from coterie.engines.loop.promise import ECHO, refusal
from coterie.kinds.loop.prompt import render
from coterie.workspace.notes import ShownNotes

INSTRUCTIONS = "The loop also completes when you answer with `DONE`."


@bundle(
    "text",
    ["all DONE", "DONE", "`DONE`", "**DONE**.", "“DONE”", "_DONE_", '"DONE."', "words\n  'DONE'  \nmore words"],
)
def test_quotes_emphasis_and_a_full_stop_do_not_matter(text: str) -> None:
    """The promise alone on a line always counts: a prompt never has it so."""
    assert refusal("DONE", text, f"{INSTRUCTIONS}\nthe text `DONE`") == ""


@pytest.mark.parametrize("text", [INSTRUCTIONS, f"> \n  {INSTRUCTIONS}  ", f"**{INSTRUCTIONS}**", "the text `DONE`"])
def test_a_line_of_the_instructions_is_an_echo(text: str) -> None:
    """However it is decorated."""
    assert refusal("DONE", text, f"{INSTRUCTIONS}\nthe text `DONE`") == ECHO


def test_outputs_memory_and_guidance_are_no_instructions() -> None:
    """A sentence said before may be said again; the operator may have written it."""
    prompt = f"{INSTRUCTIONS}\n\nOperator guidance:\n- Say: it is DONE\n\nMemory:\n{fenced('All is DONE now')}"

    assert refusal("DONE", "All is DONE now", prompt) == ""
    assert refusal("DONE", "Say: it is DONE", prompt, guidance=("Say: it is DONE",)) == ""
    assert refusal("DONE", f"All is DONE now\n{INSTRUCTIONS}", prompt) == ""


def test_no_promise_is_not_refused() -> None:
    """Neither an empty one nor a text without it."""
    assert refusal("DONE", "all done") is None
    assert refusal("", "all done") is None


def shown(play: Play) -> str:
    """The prompt of the running turn."""
    return render(play.engine.plan, play.engine.prompt_state(play.turn), ShownNotes(tool="/run/autoloops"))


@pytest.mark.parametrize(
    ("required", "emits", "tasks", "reason"),
    [
        (("review.passed",), (), (), "these events must be accepted: review.passed"),
        ((), (), ("task-1",), "these tasks must be done: task-1"),
        ((), ("ship.it",), (), "the turn emitted an event, accepted or rejected"),
    ],
)
def test_the_next_prompt_says_why_a_promise_did_not_count(
    required: tuple[str, ...], emits: tuple[str, ...], tasks: tuple[str, ...], reason: str
) -> None:
    """Otherwise the agent would only repeat it. Once: the prompt after that says nothing more."""
    play = Play(loop_plan(required=required, promise="OVER"))
    for event in emits:
        play.emit(event)
    play.answer("it is OVER", open_tasks=tasks)

    assert "The last answer contained the text that completes, but did not complete: " in shown(play)
    assert reason in shown(play)
    play.answer("on with it")
    assert "did not complete" not in shown(play)


def test_an_echo_is_reported_too() -> None:
    """An agent that repeats its prompt learns that it has promised nothing."""
    play = Play(loop_plan(promise="OVER"))
    prompt = shown(play)
    play.answer(prompt, prompt=prompt)

    assert play.turn == "iteration#2"
    assert ECHO in shown(play)


def test_an_agent_that_repeats_its_prompts_never_completes() -> None:
    """Nor do parts of earlier prompts, among the recent outputs that are cut to their budget."""
    play = Play(
        loop_plan(promise="OVER", max_iterations=30, harness="Say\nOVER\nat the end." + "\nMind the step." * 60)
    )
    for _ in range(25):
        prompt = shown(play)
        play.answer(prompt, prompt=prompt)

    assert play.turn == "iteration#26"
