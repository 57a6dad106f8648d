"""An operator's guidance reaches a turn of any kind of run, whatever happens in between."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from loop_play import loop_plan, plan_of
from nests import nested
from pattern_play import pattern
from posted import send
from stage import Cast, Stage, flow
from steered import Steered, steered

from coterie.agents.backends.base import Answer, Failure, Request
from coterie.agents.backends.command import CommandBackend
from coterie.execution.kernel.fold import Fold
from coterie.execution.kinds import kind_of
from coterie.execution.runs import launch
from coterie.execution.runs.local_turns import LocalTurns
from coterie.execution.runs.messages import RunMessage, guidance
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.replay import replay
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import GuidanceDelivered, OperatorSaid
from coterie.team.planning.plan import AgentPlan, Limits, Plan, to_json

NOTE = "- Mind the tests"
FAILED = Failure(kind="failed", reason="no")


def said(turn: str = "") -> RunMessage:
    return RunMessage(id="m1", kind="guide", turn=turn, text=" Mind the tests ")


def guided(cast: Cast) -> list[str]:
    """The attempts whose prompts hold the guidance."""
    return [f"{one.turn}.{one.attempt}" for one in cast.asked if NOTE in one.prompt]


def deliveries(stage: Stage, run: str = "r") -> list[tuple[str, int]]:
    return [(one.turn, one.attempt) for one in stage.records(GuidanceDelivered, run=run)]


def replayed(stage: Stage) -> list[Any]:
    """The commands that a replay of the journal leaves open; it raises where an engine decides otherwise."""
    fold = Fold("r", kind_of(stage.plan))
    fold.fold(stage.records())
    return list(fold.todo.values())


def begun(stage: Stage, cast: Steered) -> None:
    assert [verdict.status for verdict in cast.verdicts] == ["accepted"]
    [accepted] = stage.records(OperatorSaid)
    assert (accepted.what, accepted.text) == ("guide", "Mind the tests")
    assert replayed(stage) == []


# -- a flow -----------------------------------------------------------------------------------------------------------

RETRIED = flow("a -> b", a=AgentPlan(name="a", retry=1))


def test_an_agent_that_can_be_steered_has_it_at_once() -> None:
    """A record says so; the turn has followed it when it finishes, so no later prompt holds it."""
    cast = Steered(said(), at="a#1")
    stage = steered(RETRIED, cast)
    begun(stage, cast)
    assert cast.heard == [("a#1", "Mind the tests")]
    assert deliveries(stage) == [("a#1", 1)]
    assert guided(cast) == []


def test_an_answer_does_not_overtake_what_the_agent_was_given() -> None:
    """Word that the agent took it up may come after the agent's answer, say from another machine."""
    cast = Steered(said(), at="a#1", after=3.0)
    stage = steered(RETRIED, cast)
    begun(stage, cast)
    assert deliveries(stage) == [("a#1", 1)]
    assert guided(cast) == []


@pytest.mark.parametrize("can", [True, False])
def test_a_retried_attempt_has_it_in_its_prompt(can: bool) -> None:
    """Whether the attempt that failed had it or not; one delivery is recorded."""
    cast = Steered(said(), at="a#1", can=can, parts={"a": [FAILED, Answer(text="done")]})
    stage = steered(RETRIED, cast)
    begun(stage, cast)
    assert guided(cast) == ["a#1.2"]
    assert deliveries(stage) == [("a#1", 1 if can else 0)]


def test_an_interrupt_after_it_loses_nothing() -> None:
    """The attempt that follows the one that was cut off has it in its prompt."""
    cast = Steered(said(), RunMessage(id="m2", kind="interrupt"), at="a#1", can=False)
    stage = steered(RETRIED, cast)
    assert [verdict.status for verdict in cast.verdicts] == ["accepted", "accepted"]
    assert guided(cast) == ["a#1.2"]
    assert deliveries(stage) == [("a#1", 0)]


def test_the_agent_that_stands_in_has_it_in_its_prompt() -> None:
    """A turn that failed did not follow it, even if it was steered."""
    agent = AgentPlan(name="a", attempts=1, on_fail="fallback", fallback="c")
    plan = flow("a -> b", a=agent)
    plan = msgspec.structs.replace(plan, agents=plan.agents | {"c": AgentPlan(name="c")})
    cast = Steered(said(), at="a#1", parts={"a": [FAILED]})
    stage = steered(plan, cast)
    begun(stage, cast)
    assert guided(cast) == ["c#1.1"]
    assert deliveries(stage) == [("a#1", 1), ("c#1", 0)]


def test_it_needs_a_turn_where_several_run() -> None:
    """Those that run are listed; a turn that has ended takes none."""
    plan = flow("s -> [a, b]", "[a] -> z", "[b] -> z")
    words = [msgspec.structs.replace(said(turn), id=f"m{turn}") for turn in ("", "s#1", "b#1")]
    cast = Steered(*words, at="a#1")
    steered(plan, cast)
    assert [one.status for one in cast.verdicts] == ["refused", "refused", "accepted"]
    assert cast.verdicts[0].detail == "several turns are running; say which turn the guidance is for: a#1, b#1"
    assert cast.verdicts[1].detail == "turn 's#1' is not running; say which turn the guidance is for: a#1, b#1"
    assert cast.heard == [("b#1", "Mind the tests")]


@pytest.mark.parametrize("turn", ["", "team#1", "team#1.1/leaf#1"])
def test_a_team_is_guided_by_the_turn_that_runs_in_it(turn: str) -> None:
    """Without a turn, by the turn of the team, or by the address of the turn itself."""
    cast = Steered(said(turn), at="leaf#1")
    stage = steered(flow("team -> b", team=nested(1)), cast)
    assert [one.status for one in cast.verdicts] == ["accepted"]
    assert cast.heard == [("leaf#1", "Mind the tests")]
    assert deliveries(stage, run="r/team#1.1") == [("leaf#1", 1)]


def test_a_team_in_which_several_turns_run_is_not_guided_as_one() -> None:
    """The error lists the addresses of its turns; each takes guidance."""
    team = AgentPlan(name="team", kind="topology", child=flow("s -> [a, b]", "[a] -> z", "[b] -> z"))
    words = [msgspec.structs.replace(said(turn), id=f"m{turn}") for turn in ("team#1", "team#1.1/b#1")]
    cast = Steered(*words, at="a#1")
    steered(flow("team -> end", team=team), cast)
    assert [one.status for one in cast.verdicts] == ["refused", "accepted"]
    assert cast.verdicts[0].detail.startswith("several turns are running; ")
    assert cast.verdicts[0].detail.endswith(": team#1.1/a#1, team#1.1/b#1")
    assert cast.heard == [("b#1", "Mind the tests")]


def test_a_loop_in_a_flow_is_guided_as_a_loop() -> None:
    """Its next iteration has it in its prompt."""
    loop = AgentPlan(name="loop", kind="topology", child=plan_of(loop_plan(max_iterations=2)))
    cast = Steered(said(), can=False)
    stage = steered(flow("loop -> b", loop=loop), cast)
    assert [one.status for one in cast.verdicts] == ["accepted"]
    assert guided(cast) == ["iteration#2.1"]
    assert deliveries(stage, run="r/loop#1.1") == [("iteration#2", 0)]


def test_a_turn_of_a_loop_can_be_named() -> None:
    """That turn is steered, and the next iteration has it in any case."""
    cast = Steered(said("iteration#1"))
    stage = steered(plan_of(loop_plan(max_iterations=2)), cast)
    assert cast.heard == [("iteration#1", "Mind the tests")]
    assert deliveries(stage) == [("iteration#1", 1), ("iteration#2", 0)]
    assert guided(cast) == ["iteration#2.1"]


# -- a pattern --------------------------------------------------------------------------------------------------------

DEBATE = pattern("debate", ("proponent", "opponent", "mediator"))


def test_the_next_turn_of_an_agent_of_a_pattern_has_it_in_its_prompt() -> None:
    cast = Steered(said(), at="proponent#1", can=False)
    stage = steered(DEBATE, cast)
    begun(stage, cast)
    assert guided(cast) == ["proponent#2.1"]
    assert deliveries(stage) == [("proponent#2", 0)]


# -- kills ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "at", "parts"),
    [(RETRIED, "a#1", {"a": [FAILED, Answer(text="done")]}), (DEBATE, "proponent#1", {})],
    ids=["flow", "pattern"],
)
@pytest.mark.parametrize("can", [True, False])
def test_no_kill_loses_it(plan: Plan, at: str, parts: Any, can: bool) -> None:
    """Killed after any record since it was accepted, the run that is resumed has it in a prompt if it was not followed.

    The journal as a whole replays, and says that it was delivered.
    """
    whole = steered(plan, Steered(said(), at=at, can=can, parts=parts))
    [accepted] = whole.records(OperatorSaid)
    before = guided(whole.cast)
    for seq in range(accepted.seq, len(whole.records())):
        kept = whole.records()[:seq]
        stage = Stage(plan, Cast(parts))
        stage.store = MemoryStore()
        stage.store.claim("r").append(kept)
        stage.clock.run(stage.store._journals["r"].owner.close())  # type: ignore[union-attr]
        stage.resume(Limits())
        delivered = stage.records(GuidanceDelivered)
        finished = [one.turn for one in kept if isinstance(one, r.TurnFinished)]
        followed = any(one.turn in finished for one in kept if isinstance(one, GuidanceDelivered))
        assert delivered
        assert followed or guided(stage.cast), f"killed after {kept[-1]}, it had been in {before}"
        assert replayed(stage) == []


def dead(folder: Path, *said: r.Record) -> Path:
    """In the state directory *folder*, a run of `RETRIED` that was killed in its first turn, after *said*."""
    store = JsonlStore(folder)
    begun = [
        r.RunStarted(run="r", engine="flow", plan=to_json(RETRIED).decode(), input={"prompt": "go"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="a#1", agent="a"),
    ]
    writer = store.claim("r")
    for n, record in enumerate((*begun, *said), 1):
        writer.append([msgspec.structs.replace(record, seq=n, at=1000.0 + n)])
    asyncio.run(writer.close())
    return store.folder("r")


def resumed(folder: Path) -> tuple[list[str], list[Any]]:
    """Resume the run in *folder*: the attempts whose prompts have the guidance, and what its journal says of it."""
    cast = Cast({}, seconds=0)
    asyncio.run(launch.resume("r", state_dir=folder, turns=cast))
    assert replay("r", state_dir=folder).left == ()
    records = JsonlStore(folder).read("r")
    return guided(cast), [one for one in records if isinstance(one, OperatorSaid | GuidanceDelivered)]


@pytest.mark.parametrize("turn", ["", "a#1"])
def test_guidance_for_a_run_that_was_killed_reaches_the_attempt_that_is_retried(tmp_path: Path, turn: str) -> None:
    """It waits in the inbox, and is recorded once."""
    folder = dead(tmp_path)
    assert send(folder, guidance("Mind the tests", turn)).status == "queued"
    prompts, [accepted, delivered] = resumed(tmp_path)
    assert prompts == ["a#1.2"]
    assert (accepted.source, accepted.turn, delivered.turn) == ("operator", "a#1", "a#1")
    assert not list((folder / "inbox").glob("*.json"))


def test_guidance_that_was_accepted_before_the_kill_reaches_it_too(tmp_path: Path) -> None:
    dead(tmp_path, OperatorSaid(message="m1", what="guide", turn="a#1", text="Mind the tests", source="operator"))
    assert resumed(tmp_path)[0] == ["a#1.2"]


# -- programs ---------------------------------------------------------------------------------------------------------

PROGRAM = "import sys; open('began', 'w').close(); open('go').read(); sys.exit('Mind' not in sys.stdin.read())"


def test_a_command_has_it_in_the_prompt_of_its_next_attempt(tmp_path: Path) -> None:
    """It cannot be steered: its first attempt fails without the guidance, and the second one has it."""
    run = "r-of-a-command"  # no other test's processes bear its mark
    for name in ("began", "go"):
        os.mkfifo(tmp_path / name)
    agent = AgentPlan(name="a", backend="command", argv=(sys.executable, "-c", PROGRAM), retry=1)
    plan = flow("a -> b", a=agent, b=AgentPlan(name="b", backend="command", argv=("cat",)))

    def meanwhile() -> None:
        (tmp_path / "began").read_text()
        folder = tmp_path / "state" / "runs" / run
        assert send(folder, guidance("Mind the tests")).status == "accepted"
        (tmp_path / "go").write_text("go")
        (tmp_path / "began").read_text()
        (tmp_path / "go").write_text("go")

    async def play() -> Outcome:
        turns = LocalTurns({"command": CommandBackend()})
        owner = launch.start(plan, {}, state_dir=tmp_path / "state", turns=turns, run_id=run, cwd=tmp_path)
        outcome, _ = await asyncio.gather(owner, asyncio.to_thread(meanwhile))
        return outcome

    assert asyncio.run(asyncio.wait_for(play(), 60)).status == "completed"
    assert replay(run, state_dir=tmp_path / "state").left == ()


def test_guidance_that_comes_before_the_agent_has_begun_is_given_when_it_has() -> None:
    """Its prompt is written by then, and there is no session yet."""

    class Slow(Steered):
        async def start(self, request: Request, on_event: Any) -> Any:
            if request.turn == "a#1":
                asyncio.get_running_loop().call_soon(self.stage.shell.post, lambda: self.say(said()))
                await asyncio.sleep(3.0)
            return await super().start(request, on_event)

    cast = Slow()
    stage = steered(RETRIED, cast)
    begun(stage, cast)
    assert cast.heard == [("a#1", "Mind the tests")]
    assert deliveries(stage) == [("a#1", 1)]
