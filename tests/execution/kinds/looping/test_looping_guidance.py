"""What an operator says to a loop reaches a prompt, whatever happens in between."""

import asyncio
from pathlib import Path
from typing import Any

from loop_play import Play, killed, loop_plan, plan_of
from posted import send
from stage import Cast, Stage
from steered import Steered, steered

from coterie.execution.runs import launch
from coterie.execution.runs.messages import RunMessage, guidance
from coterie.execution.runs.replay import replay
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import GuidanceDelivered, OperatorSaid
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Limits


def played(*words: RunMessage, can: bool = True) -> Stage:
    """A loop of two iterations, in the first of which an operator says *words*."""
    cast = Steered(*words, can=can)
    stage = steered(plan_of(loop_plan(max_iterations=2)), cast)
    assert [verdict.status for verdict in cast.verdicts] == ["accepted"] * len(words)
    return stage


GUIDE = RunMessage(id="m1", kind="guide", text=" Mind the tests ")


def deliveries(stage: Stage) -> list[tuple[str, int]]:
    return [(one.turn, one.attempt) for one in stage.records(GuidanceDelivered)]


def test_an_agent_that_can_be_steered_is_given_it_at_once() -> None:
    """A record says so, and the next iteration has it in its prompt all the same."""
    stage = played(GUIDE)
    assert stage.cast.heard == [("iteration#1", "Mind the tests")]  # type: ignore[attr-defined]
    assert deliveries(stage) == [("iteration#1", 1), ("iteration#2", 0)]
    assert "- Mind the tests" in stage.cast.asked[1].prompt


def test_an_agent_that_cannot_be_steered_is_not_said_to_have_it() -> None:
    stage = played(GUIDE, can=False)
    assert deliveries(stage) == [("iteration#2", 0)]
    assert "- Mind the tests" in stage.cast.asked[1].prompt


def test_an_interrupt_after_it_loses_nothing() -> None:
    """The iteration that follows the one that was cut off has it in its prompt."""
    stage = played(GUIDE, RunMessage(id="m2", kind="interrupt"))
    assert stage.records(r.TurnCancelled)
    assert "- Mind the tests" in stage.cast.asked[1].prompt


def test_an_iteration_that_did_not_finish_has_not_heeded_it() -> None:
    """It was in its prompt, and is in that of the next one too, until one finishes; no new delivery is recorded."""
    for failed in ("exit", "interrupted"):
        play = Play(loop_plan())
        play.guide("mind the tests")
        play.answer()
        if failed == "interrupted":
            play.core.write(play.now, OperatorSaid(message="m9", what="interrupt"), source="operator")
        play.fail(failed)
        assert (play.turn, play.engine.prompt_state(play.turn).guidance) == ("iteration#3", ("mind the tests",))
        play.answer()
        assert play.engine.prompt_state(play.turn).guidance == ()
        assert [one.turn for one in play.all(GuidanceDelivered)] == ["iteration#2"]


# -- without an owner -------------------------------------------------------------------------------------------------


def place(folder: Path) -> RunPlace:
    return RunPlace(
        work_dir=str(folder), memory_file=str(folder / "memory.jsonl"), tasks_file=str(folder / "tasks.jsonl")
    )


def dead(folder: Path, *said: r.Record) -> Path:
    return killed(folder, loop_plan(place=place(folder), max_iterations=2), *said)


def prompts(folder: Path) -> dict[str, bool]:
    """Resume the run in *folder*: which attempts had the guidance in their prompts."""
    cast = Cast({}, seconds=0)
    asyncio.run(launch.resume("r", state_dir=folder, turns=cast))
    return {f"{one.turn}.{one.attempt}": "- Mind the tests" in one.prompt for one in cast.asked}


def records(folder: Path, *kinds: type[r.Record]) -> list[Any]:
    return [one for one in JsonlStore(folder).read("r") if isinstance(one, kinds)]


def test_guidance_for_a_run_that_was_killed_reaches_the_attempt_that_is_retried(tmp_path: Path) -> None:
    """It waits in the inbox, is recorded once, and is in the prompt of the next iteration too."""
    folder = dead(tmp_path)
    assert send(folder, guidance("Mind the tests")).status == "queued"
    assert prompts(tmp_path) == {"iteration#1.2": True, "iteration#2.1": True}
    [said] = records(tmp_path, OperatorSaid)
    assert said.source == "operator"
    assert not list((folder / "inbox").glob("*.json"))
    assert replay("r", state_dir=tmp_path).run == "r"


def test_guidance_that_was_accepted_before_the_kill_reaches_it_too(tmp_path: Path) -> None:
    dead(tmp_path, OperatorSaid(message="m1", what="guide", text="Mind the tests", source="operator"))
    assert prompts(tmp_path) == {"iteration#1.2": True, "iteration#2.1": True}


def test_guidance_for_a_run_that_stopped_at_a_limit_reaches_the_next_iteration(tmp_path: Path) -> None:
    """The time in which nobody owned the run does not count by it."""
    folder = dead(tmp_path)
    prompts(tmp_path)
    assert send(folder, guidance("Mind the tests")).status == "queued"
    before = sum(one.at for one in records(tmp_path, r.RunStopped))
    cast = Cast({}, seconds=0)
    asyncio.run(launch.resume("r", state_dir=tmp_path, turns=cast, limits=Limits(add_iterations=1)))
    assert ["- Mind the tests" in one.prompt for one in cast.asked] == [True]
    [said] = records(tmp_path, OperatorSaid)
    assert said.at == before
