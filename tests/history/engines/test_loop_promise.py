"""When the text that completes a loop counts, and what the next prompt says when it does not."""

import pytest
from bundles import bundle
from loop_play import Play, loop_plan

from coterie.agents.workspace.notes import ShownNotes
from coterie.execution.kinds.loop.prompt import render
from coterie.history.engines.fences import fenced
from coterie.history.engines.loop.promise import ECHO, MENTIONED, refusal

INSTRUCTIONS = "The loop also completes when you answer with `DONE`."


SENTENCES = [
    "DONE",
    "`DONE`",
    "**DONE**.",
    "“DONE”",
    "_DONE_",
    '"DONE."',
    "words\n  'DONE'  \nmore words",
    "All is well. DONE",
    "All is well! **DONE**",
    "Is it well? `DONE`.",
    "**All is well.** DONE",
    "“All is well.” DONE",
    "The answer: DONE",
    "DONE\r\n",
    "```sh\npytest\n```\nDONE",
    "~~~~ text\n~~~\nDONE\n~~~~\nDONE",
    "@@ -1 +1 @@\n-a\n+b\nDONE",
    "The word ```DONE``` is it. DONE",
]
MENTIONS = [
    "all DONE",
    "I am not answering with DONE yet.",
    "Once the tests pass I will answer with `DONE`.",
    "DONE, I say",
    "DONE!",
    "DONE 2",
    "It is module.DONE",
    "- DONE",
    "# DONE",
    "> DONE",
    "+DONE",
    '-    if "DONE" in output:',
    "```\nDONE\n```",
    "```\nDONE\n``` and more\nDONE",
    "~~~text\nDONE",
    "1. Say so:\n   ```\n   DONE\n   ```",
    "````\n```\nDONE\n````",
    "@@ -1,2 +1,2 @@ def f():\n DONE\n-a\n+b",
    "@@ -1,2 +1,2 @@\n-a\n\n DONE\n\\ No newline at end of file",
]


@bundle("text", SENTENCES)
def test_a_sentence_of_its_own_counts(text: str) -> None:
    """Quotes, emphasis and a full stop do not matter; alone on a line it always counts: a prompt never has it so."""
    assert refusal("DONE", text, f"{INSTRUCTIONS}\nthe text `DONE`") == ""


@bundle("text", MENTIONS)
def test_what_only_mentions_it_does_not_count(text: str) -> None:
    """Nor does code or a diff."""
    assert refusal("DONE", text, f"{INSTRUCTIONS}\nthe text `DONE`") == MENTIONED


@bundle("text", ["NOT_DONE", "ABANDONED", "The constant is named DONE_AT.", "DONES"])
def test_a_longer_word_is_another_word(text: str) -> None:
    assert refusal("DONE", text) is None


@bundle("promise", ["DONE", "It is DONE.", "**DONE**", "I swear:\nit is DONE"])
@bundle("before", ["", "First this. ", "Well:\n"])
def test_any_text_can_be_the_promise(promise: str, before: str) -> None:
    """One with marks of its own, or of several lines."""
    assert refusal(f" {promise}\n", f"{before}{promise}") == ""
    assert refusal(promise, f"not {before}so {promise}") == MENTIONED
    assert refusal(promise, f"```\n{promise}\n```") == MENTIONED


@pytest.mark.parametrize("text", [INSTRUCTIONS, f"> \n  {INSTRUCTIONS}  ", f"**{INSTRUCTIONS}**", "the text `DONE`"])
def test_a_line_of_the_instructions_is_an_echo(text: str) -> None:
    """However it is decorated."""
    assert refusal("DONE", text, f"{INSTRUCTIONS}\nthe text `DONE`") == ECHO


def test_the_promise_alone_on_a_line_is_no_echo() -> None:
    """Even of a prompt that has it so, which the loop does not write."""
    assert refusal("DONE", "`DONE`", "DONE") == ""


def test_outputs_memory_and_guidance_are_no_instructions() -> None:
    """A sentence said before may be said again; the operator may have written it."""
    standing, memory = "If all is well: DONE", "All is well. DONE"
    prompt = f"{INSTRUCTIONS}\n{standing}\n\nOperator guidance:\n- Say: DONE\n\nMemory:\n{fenced(memory)}"

    assert refusal("DONE", memory, prompt) == ""
    assert refusal("DONE", "Say: DONE", prompt, guidance=("Say: DONE",)) == ""
    assert refusal("DONE", standing, prompt) == ECHO
    assert refusal("DONE", f"{standing}\n{memory}", prompt) == ""


def test_a_line_of_the_instructions_is_known_whatever_is_around_it() -> None:
    """Also where it is not the whole text, but all of it that counts."""
    assert refusal("*DONE*", "Then say: *DONE*", "Then say: *DONE") == ECHO
    assert refusal("*DONE*", "Then say: *DONE*", "Then say: *DONT") == ""


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
    play.answer("It is made. OVER", open_tasks=tasks)

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
