"""A run that is handed over to another owner, and attempts that are lost."""

import asyncio

from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.retries import MAX_LOSSES
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.records import AttemptInterrupted, RunStopped, TurnStarted
from coterie.team.planning.plan import AgentPlan


def handed_over(stage: Stage, after: float) -> RunExit:
    """Drive *stage* until it has come to rest, asked for that after so many seconds."""
    shell = Shell(RunPorts(store=stage.store, turns=stage.cast, clock=stage.clock, make_kind=kind_of))

    async def main() -> RunExit:
        asyncio.get_running_loop().call_later(after, shell.hand_over)
        return await shell.start("r", stage.plan, {"prompt": "go"})

    return stage.clock.run(main())


def test_what_is_under_way_comes_to_its_result_and_nothing_says_that_it_stopped() -> None:
    """The next owner goes on, and no attempt is repeated."""
    team = AgentPlan(name="team", kind="topology", child=flow("x -> y"))
    stage = Stage(flow("a -> [b, team]", "[b, team] -> c", team=team))
    rested = handed_over(stage, after=1.5)

    assert (rested.status, rested.reason) == ("stopped", "")
    assert not stage.records(RunStopped) + stage.records(RunStopped, run="r/team#1.1")
    assert [request.turn for request in stage.cast.asked] == ["a#1", "b#1", "x#1"]
    ended = stage.resume()
    assert ended.status == "completed"
    assert [request.turn for request in stage.cast.asked] == ["a#1", "b#1", "x#1", "y#1", "c#1"]
    assert not stage.records(AttemptInterrupted) + stage.records(AttemptInterrupted, run="r/team#1.1")


def test_a_retry_is_left_to_the_next_owner() -> None:
    """The run does not wait until it is due."""
    stage = Stage(flow("a -> b"), Cast({"a": [Failure(kind="transient", reason="busy"), Answer(text="done")]}))
    rested = handed_over(stage, after=1.2)

    assert (rested.status, stage.clock.now()) == ("stopped", 1.2)
    assert not stage.records(RunStopped)
    assert stage.resume().status == "completed"
    assert [request.attempt for request in stage.cast.asked if request.turn == "a#1"] == [1, 2]


def test_a_lost_attempt_is_repeated_and_does_not_count_as_a_failure() -> None:
    """An agent without retries is asked again when what ran its attempt has died."""
    stage = Stage(flow("a -> b"), Cast({"a": [Failure(kind="lost", reason="worker gone"), Answer(text="done")]}))

    assert stage.start().status == "completed"
    [cut] = stage.records(AttemptInterrupted)
    assert (cut.turn, cut.reason) == ("a#1", "lost")
    assert [record.attempt for record in stage.records(TurnStarted) if record.turn == "a#1"] == [1, 2]


def test_ten_lost_attempts_in_a_row_end_the_turn() -> None:
    """An attempt that takes down what runs it is not repeated for ever."""
    stage = Stage(flow("a -> b"), Cast({"a": [Failure(kind="lost", reason="worker gone")]}))

    assert stage.start().status == "failed"
    assert len(stage.records(AttemptInterrupted)) == MAX_LOSSES
