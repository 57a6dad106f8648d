"""Programs: plans said in code, whose questions are recorded."""

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import program_teams as teams
import pytest
from msgspec.structs import replace
from pattern_play import scripted, text
from random_programs import Play, answers, interpreted, random_tree

import coterie
from coterie import agent, flow, program
from coterie.agents.backends.base import Failure
from coterie.errors import ReplayMismatch, TopologyError, UsageError
from coterie.execution.kinds import check_start
from coterie.history.journal.records import ProgramNoted, RunStarted, TurnCancelled, TurnFinished

SCRIPT: Mapping[str, Sequence[Any]] = {
    "planner": [text("two", topics=["tea", "cups"])],
    "critic": [text("no", approved=False, notes="shorter"), text("yes", approved=True)],
}


def played(team: Any, given: Any, script: Mapping[str, Sequence[Any]] = {}) -> Play:
    return Play(team, {"prompt": given} if isinstance(given, str) else given, scripted(script))


def result_of(play: Play) -> Any:
    assert play.ended.status == "completed", play.ended.reason
    [outputs] = play.ended.result["outputs"].values()
    return outputs.get("result", outputs)


def test_a_program_runs_its_steps() -> None:
    """Values pass between agents; loops and branches depend on them; notes are recorded."""
    play = played(teams.report, "drinks", SCRIPT)

    assert result_of(play) == {"sections": ["writer 3", "writer 4"], "rounds": 2}
    assert play.asked == ["planner#1", "writer#1", "writer#2", "critic#1", "writer#3", "writer#4", "critic#2"]
    prompts = {request.turn: request.prompt for _, request in play.troupe.asked}
    assert prompts["planner#1"].startswith("drinks\n\n# How to answer")
    assert prompts["critic#1"].startswith('["writer 1", "writer 2"]\n\n# How to answer')
    assert prompts["writer#3"] == "tea\n\n# notes\n\nshorter"
    assert [one.text for one in play.records if isinstance(one, ProgramNoted)] == ["round 1: shorter"]
    first = play.records[0]
    assert isinstance(first, RunStarted)
    assert (first.engine, first.seed) == ("generator", "r")


def test_a_program_killed_at_any_record_ends_alike() -> None:
    """Finished turns are not asked again."""
    whole = played(teams.report, "drinks", SCRIPT)
    for n in range(1, len(whole.records)):
        kept = whole.records[:n]
        done = sum(isinstance(one, TurnFinished) for one in kept)
        script = {
            "planner": SCRIPT["planner"],
            "critic": SCRIPT["critic"][
                sum(getattr(one, "turn", "") == "critic#1" for one in kept if isinstance(one, TurnFinished)) :
            ],
        }
        again = Play(teams.report, {}, scripted(script), kept)
        assert result_of(again)["rounds"] == 2
        assert len({*again.asked}) == 7 - done


@pytest.mark.parametrize("seed", range(30))
def test_a_random_program_killed_at_any_record_ends_alike(seed: int) -> None:
    """Loops, branches on values, several questions with an early end, failures that are caught."""
    play_killed(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 4000, 100))
def test_three_thousand_random_programs_killed_at_any_record_end_alike(start: int) -> None:
    """As above, for 3,000 programs."""
    for seed in range(start, start + 100):
        play_killed(seed)


def play_killed(seed: int) -> None:
    tree, says = random_tree(random.Random(seed)), answers(seed)
    whole = Play(interpreted, {"tree": tree}, says)
    for n in range(1, len(whole.records)):
        again = Play(interpreted, {}, says, whole.records[:n])
        assert (again.ended.status, again.ended.result) == (whole.ended.status, whole.ended.result), (seed, n)
        ended = {one.turn for one in whole.records[:n] if isinstance(one, TurnFinished)}
        assert not ended & set(again.asked), (seed, n)


def test_another_question_for_the_same_answers_is_refused() -> None:
    """Both questions are shown, and the fork that goes on."""
    whole = played(teams.careful, "a tale")
    kept = whole.records[:-1]
    assert whole.records[2].asked  # type: ignore[attr-defined]
    changed = [one if one.seq > 1 else replace(one, input={"prompt": "a story"}) for one in kept]

    with pytest.raises(ReplayMismatch, match=r"which asks 'a tale'.*which asks 'a story'.*coterie fork r --at 2"):
        Play(teams.careful, {}, scripted({}), changed)


def test_several_questions_keep_their_order_and_end_early() -> None:
    """A question that is awaited again is not asked again."""
    assert result_of(played(teams.twice, "a")) == ["writer 1"] * 3
    assert played(teams.twice, "a").asked == ["writer#1"]


def test_the_first_answer_in_the_journal_counts() -> None:
    """The others are cancelled, and a killed run keeps the answer."""

    def says(path: str, request: Any) -> Any:
        return text(request.prompt), 3.0 - int(request.prompt[-1])

    whole = Play(teams.raced, {"prompt": "a"}, says)
    assert result_of(whole) == "a 2"
    assert sum(isinstance(one, TurnCancelled) for one in whole.records) == 2
    assert result_of(Play(teams.raced, {}, says, whole.records[:-1])) == "a 2"


def test_turns_beyond_the_most_are_refused() -> None:
    """They fail as values or as `AgentFailed`, and cost no turn."""
    play = played(teams.bounded, "a")
    spent = "budget: bounded has had all the turns it may have: 2"
    assert result_of(play) == ["writer 1", "writer 2", spent, spent]
    assert len(play.asked) == 2


def test_the_time_and_chance_of_a_program_are_in_the_journal() -> None:
    """A resumed run has the same."""
    whole = played(teams.timed, "a")
    times = result_of(whole)
    assert times[:2] == [0.0, 1.0]
    assert times[2] != times[3]
    for n in range(1, len(whole.records)):
        again = result_of(Play(teams.timed, {}, scripted({}), whole.records[:n]))
        assert again[2:] == times[2:]


def test_coroutines_and_generators_of_its_own_work() -> None:
    """They are parts of the same program."""
    assert result_of(played(teams.nested, "a b")) == "writer 1+writer 2"


def test_a_program_is_an_agent_of_another() -> None:
    """Its arguments are values, its turns count for the program above, and it has the time to end."""
    play = played(teams.outer, "a b")
    assert result_of(play) == ["writer 1+writer 2", "writer 3+writer 4+writer 5"]


def test_a_failure_can_be_caught() -> None:
    """It has the turn, the kind and the reason."""
    failing = {"writer": [Failure(kind="timeout", reason="too long")]}
    assert result_of(played(teams.careful, "a", failing)) == "timeout of writer#1"


def test_an_answer_of_another_type_is_invalid() -> None:
    """The agent is asked again, and the journal keeps only what fits."""
    script = {**SCRIPT, "planner": [text("no", topics="tea"), text("two", topics=["tea", "cups"])]}
    assert played(teams.report, "drinks", script).asked[:2] == ["planner#1", "planner#1"]


WRONG = {
    "sleep": "wrong used asyncio .create_future.*agent\\(FUNCTION\\)",
    "yield": "awaited something that is not of coterie; a program awaits only agents",
    "gather": "used asyncio",
    "timeout": "used asyncio|inside a task",
    "thread": "used asyncio .run_in_executor",
    "exit": "SystemExit: 3",
    "cancel": "CancelledError",
    "stranger": "asks 'planner', which is not among its agents",
    "question": "is a question to writer, not its answer: await it first",
    "object": "for writer is not JSON data",
    "coroutine": "takes questions.*not <coroutine.*make a program of it",
    "arguments": r"shouter\(text, times\): missing a required argument: 'text'",
    "program": "nested is a program, and a run of it is journalled",
    "result": "object",
    "stubborn": "awaited something that is not of coterie; a program awaits only agents",
}


@pytest.mark.filterwarnings("ignore:.*coroutine:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*joined:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", WRONG)
def test_what_programs_do_not_do_fails_their_run_with_the_reason(how: str) -> None:
    """Nothing escapes, nothing hangs, and what is asked at the end is not asked."""
    play = played(teams.wrong, how)
    assert play.ended.status == "failed"
    assert re.search(WRONG[how], play.ended.reason), play.ended.reason
    is_raised = how not in ("result", "stubborn", "yield")  # the engine refuses what these give it
    assert bool(re.search(r"program_teams\.py:\d+:\d+\)$", play.ended.reason)) == is_raised
    assert play.asked == ["writer#1"]


def test_a_sleep_ends_at_its_time_and_limits_the_time_of_others() -> None:
    """Killed at any record, it ends at the recorded time."""

    def says(path: str, request: Any) -> Any:
        return text(request.prompt.splitlines()[0]), 5.0

    whole = Play(teams.patient, {"seconds": 30}, says)
    assert result_of(whole) == [True, None, [None, "b"]]
    for n in range(1, len(whole.records)):
        assert result_of(Play(teams.patient, {}, says, whole.records[:n])) == [True, None, [None, "b"]], n


def test_a_run_that_only_sleeps_is_parked() -> None:
    """It stops until the recorded time, and goes on when it has come."""
    parked = played(teams.patient, {"seconds": 3600})
    assert (parked.ended.status, parked.ended.until) == ("stopped", 3600.0)
    assert parked.ended.reason.startswith("asleep until")

    later = Play(teams.patient, {}, scripted({}, 5.0), parked.records, at=3700.0)
    assert result_of(later) == [True, None, [None, "writer 2"]]


def test_a_program_in_a_flow_gets_values() -> None:
    """Answers before its node, the prompt, and the values of the run above; its result is an answer like any other."""
    finder, inner = agent("finder", teams.found), agent("inner", teams.inner_of_flow)
    team = flow("team", [finder, inner], [finder >> inner], result=inner)
    outcome = asyncio.run(coterie.run(team, {"prompt": "tea", "depth": 3}))
    assert outcome.result == teams.Report(["tea for tea", "cups for tea"], 3)


def test_an_answer_that_no_longer_has_its_type_is_a_mismatch() -> None:
    """The record, not the program, is what is kept: the reason is shown."""
    whole = played(teams.report, "drinks", SCRIPT)
    is_answer = [isinstance(one, TurnFinished) and one.turn == "planner#1" for one in whole.records]
    changed = [
        replace(one, outputs={"topics": 3}) if answers else one
        for one, answers in zip(whole.records[:-1], is_answer, strict=False)
    ]
    with pytest.raises(ReplayMismatch, match=r"does not have its type.*Expected `array`"):
        Play(teams.report, {}, scripted(SCRIPT), changed)


def test_a_retry_asks_again_and_a_fork_has_another_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`resume --retry` asks the failed question again; a fork goes on from a changed answer, with the same seed."""
    monkeypatch.chdir(tmp_path)
    flag = tmp_path / "flag"
    monkeypatch.setenv("FLAG", str(flag))
    failed = asyncio.run(coterie.run(teams.flagged, "a"))
    assert (failed.status, failed.way_on) == ("failed", "retry")
    flag.touch()
    again = asyncio.run(coterie.resume(failed.run, team=teams.flagged, retry=True))
    assert again.result[0] == "A"

    forked = asyncio.run(coterie.fork(again.run, team=teams.flagged, outputs={"raiser#1": {"result": "B"}}))
    assert forked.result == ["B", again.result[1]]


def test_a_question_that_is_never_awaited_is_a_notice() -> None:
    """It costs nothing, and the outcome names it."""
    outcome = asyncio.run(coterie.run(teams.forgetful, "a"))
    assert outcome.notices == (
        "forgetful called writer(…) and never awaited it, so it was not asked: write `await writer(…)`",
    )
    assert outcome.usage.turns == 1


REFUSED: list[tuple[str, str]] = [
    ("teams.writer('a')", r"writer\(…\) works in a program only: write an `async def`"),
    ("coterie.now()", r"now\(\) works in a program only"),
    ("coterie.sleep(1)", r"sleep\(…\) works in a program only"),
    ("coterie.together([])", r"together\(…\) works in a program only"),
    ("teams.report('a')", r"report is a program, and a run of it is journalled: await coterie.run\(report, INPUT\)"),
    ("program(agents=[teams.writer], max_turns=0)", "max_turns is the most turns of a run"),
    ("program(agents=teams.writer, max_turns=1)", "the agents of a program are a list"),
    ("program(agents=[print], max_turns=1)", "a program asks what agent"),
    ("program(agents=[agent(model='sonnet')], max_turns=1)", "an agent of a program has a name"),
    ("program(agents=[teams.writer], max_turns=1)(teams.shout)", "a program is an `async def`"),
    ("program(agents=[teams.writer], max_turns=1)(local())", "which another process must find: move it"),
]


@pytest.mark.parametrize(("text_", "words"), REFUSED)
def test_mistakes_are_refused_in_words(text_: str, words: str) -> None:
    """At the call, before anything runs."""

    def local() -> Any:
        async def inner() -> None:
            """Found by no other process."""

        return inner

    with pytest.raises(UsageError, match=words):
        eval(text_, globals() | {"local": local})  # written as a user writes it


def test_two_agents_of_one_name_are_refused() -> None:
    """As in any team."""

    with pytest.raises(TopologyError, match="two slots are called 'writer'"):
        program(agents=[teams.writer, agent("writer", command=["cat"])], max_turns=1)(teams.joined)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "careful has no value for 'text'; give it with --input text=…"),
        ({"text": 3}, "the input 'text' of careful does not have its type: "),
    ],
)
def test_input_that_a_program_does_not_take_is_refused_before_the_run(given: Any, words: str) -> None:
    """A parameter without a value, or with one of another type."""
    with pytest.raises(UsageError, match=words):
        check_start(coterie.plan(teams.careful), given)


def test_a_result_that_is_not_what_was_declared_fails_the_run() -> None:
    """The reason says what it is."""
    assert "the program raised TypeError" in played(teams.numbered, "").ended.reason


def echo(topic: str) -> str:
    return f"on {topic}"


_echo = agent("echo", echo)


@program(agents=[_echo], max_turns=9)
async def chapter(topic: str) -> str:
    return await _echo(f"{topic}, chapter")


_part = agent("part", chapter)


@program(agents=[_part, _echo], max_turns=9)
async def book(topic: str) -> list[str]:
    return [await _part(f"{topic}, book"), await _echo("preface")]


@pytest.mark.parametrize("given", ["tea", {"topic": "tea"}], ids=["prompt", "named"])
def test_an_argument_of_a_question_outweighs_a_value_of_the_input(
    given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has a parameter of the name that the program, or the one around it, has in its input."""
    monkeypatch.chdir(tmp_path)
    outcome = asyncio.run(coterie.run(book, given))
    assert outcome.result == ["on tea, book, chapter", "on preface"]
