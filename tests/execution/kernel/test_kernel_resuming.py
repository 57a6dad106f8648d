"""What a resume takes over from a dead owner: time-outs, runs it was calling off, open questions, a torn journal."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from nests import how_it_ends, nested
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.base.clock import SystemClock
from coterie.execution.kernel.opening import RootOpening
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal.jsonl import JOURNAL, JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    JournalRepaired,
    OperatorSaid,
    PlanReloaded,
    Record,
    RunFinished,
    RunOwned,
    RunStopped,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Limits, Plan

BUSY = Failure(kind="transient", reason="busy")
TEAMS = ["/".join(["r", *["team#1.1"] * n]) for n in (1, 2, 3)]
"""The runs of a team that is three deep, outermost first."""


def interrupted(stage: Stage, after: float, resume: bool = False) -> None:
    """Drive the run of *stage*, and interrupt its owner after so many seconds."""

    async def owner() -> None:
        stage.shell = stage._shell(None)
        main = stage.shell.resume("r", stage.plan) if resume else stage.shell.start("r", stage.plan, {"prompt": "go"})
        task = asyncio.ensure_future(main)
        await asyncio.sleep(after)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    stage.clock.run(owner())


def cut(stage: Stage, upto: Mapping[str, int]) -> None:
    """Leave of each journal what there was when its owner died: the records up to a seq."""
    kept = {run: stage.records(run=run)[:seq] for run, seq in upto.items()}
    stage.store = MemoryStore()
    for run, records in kept.items():
        stage.store.claim(run).append(records)
    stage.clock.run(stage.store._journals["r"].owner.close())  # type: ignore[union-attr]


def seq_of(stage: Stage, kind: type[Record], run: str = "r") -> int:
    """The seq of the first record of *kind*."""
    return int(stage.records(kind, run=run)[0].seq)


# -- time -------------------------------------------------------------------------------------------------------------


def test_the_time_out_of_a_team_counts_owned_time_across_resumes() -> None:
    """Ten seconds are ten seconds under all owners together; a hundred without an owner do not count."""
    stage = Stage(flow("team -> b", team=nested(2, timeout=10.0)), Cast({}, seconds=60.0))
    interrupted(stage, after=4.0)
    stage.clock.advance(100.0)
    interrupted(stage, after=3.0, resume=True)
    stage.clock.advance(100.0)
    ended = stage.resume()

    assert ended.status == "failed"
    assert ended.seconds == 10.0
    assert [(record.kind, record.at) for record in stage.records(AttemptFailed)] == [("timeout", 210.0)]


def test_the_time_out_of_a_team_counts_what_the_records_of_its_own_run_say() -> None:
    """Its parent writes nothing while it works; of an owner that was killed its last record is what is known."""
    stage = Stage(flow("team -> b", team=nested(1, flow("x -> y -> z"), timeout=5.0)), Cast({}, seconds=2.0))
    stage.start()
    cut(stage, {"r": 3, TEAMS[0]: stage.records(TurnFinished, run=TEAMS[0])[0].seq})
    stage.clock.advance(100.0)
    ended = stage.resume()

    assert [(record.kind, record.at) for record in stage.records(AttemptFailed)] == [("timeout", 108.0)]
    assert ended.status == "failed"


def test_a_team_that_had_ended_in_time_is_not_late_at_a_resume() -> None:
    """Its owner died before its caller heard of it; no time is left, and none is needed."""
    stage = Stage(flow("team -> b", team=nested(1)), Cast({}, seconds=1.0))
    stage.start()
    cut(stage, {"r": 3, TEAMS[0]: len(stage.records(run=TEAMS[0]))})
    stage.plan = flow("team -> b", team=nested(1, timeout=2.0))

    assert stage.resume().status == "completed"
    assert stage.records(AttemptFailed) == []


def test_a_loop_and_its_team_count_the_time_of_a_resumed_turn_once() -> None:
    """What the loop has left is left from now on; what the team has taken is taken from its own time-out only."""
    roles, team = (RolePlan(id="team", emits=("done",)),), nested(1, flow("x -> y -> z"), timeout=50.0)
    loop = LoopPlan(roles=roles, handoff=(("loop.start", ("team",)),), completion="done", max_runtime=10.0)
    stage = Stage(Plan(name="loop", agents={"team": team}, coordination=loop), Cast({}, seconds=60.0))
    interrupted(stage, after=4.0)
    stage.clock.advance(100.0)
    stage.resume()

    assert [(record.kind, record.at) for record in stage.records(AttemptFailed)] == [("timeout", 110.0)]


def parked_team() -> Stage:
    """A run that is parked, for a second by now, at the question of a team that may take ten."""
    ask = AgentPlan(name="ask", kind="human", backend="human")
    stage = Stage(flow("team -> b", team=nested(2, flow("x -> ask -> y", ask=ask), timeout=10.0)), park=True)
    assert stage.start().reason == "waiting"
    stage.clock.advance(100.0)
    return stage


def test_the_time_out_of_a_team_passes_in_a_parked_run() -> None:
    """It passes as it does where the owner waits: the first resume finds no answer, the next one says so."""
    stage = parked_team()
    assert stage.resume().reason == "waiting"
    ended = stage.resume()

    assert (ended.status, ended.waiting) == ("failed", ())
    assert [record.kind for record in stage.records(AttemptFailed)] == ["timeout"]


def test_an_answer_that_was_given_while_a_team_was_parked_counts() -> None:
    """However late the run is resumed: it was queued, so it has its effect."""
    stage = parked_team()

    async def owner() -> None:
        stage.shell = stage._shell(None)
        word = RunMessage(id="m", kind="answer", text="yes")
        stage.shell.expect()
        resumed = asyncio.ensure_future(stage.shell.resume("r", stage.plan))
        await stage.shell.opened.wait()
        stage.shell.post(lambda: take(stage.shell, word, stage.clock.now(), Sender("operator")))
        stage.shell.arrived()
        assert (await resumed).status == "completed"

    stage.clock.run(owner())


def test_a_retry_that_waits_keeps_a_run_with_open_questions_alive() -> None:
    """The owner lets go for want of an answer only when nothing is left to do by itself."""
    agents = {"a": AgentPlan(name="a", on_interrupt="ask"), "b": AgentPlan(name="b")}
    stage = Stage(flow("go -> [a, b]", **agents), Cast({"b": [Answer(text="1"), BUSY, Answer(text="3")]}))
    stage.start()
    cut(stage, {"r": max(record.seq for record in stage.records(TurnStarted))})
    ended = stage.resume()

    assert (ended.reason, [one.turn for one in ended.waiting]) == ("waiting", ["a#1"])
    assert [record.turn for record in stage.records(TurnFinished)] == ["go#1", "b#1"]


def test_an_attempt_that_an_operator_interrupted_is_asked_again_unasked() -> None:
    """`on-interrupt: ask` is about crashes: whoever interrupts an attempt is there and has decided."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", on_interrupt="ask")))

    async def owner() -> None:
        stage.shell = stage._shell(None)
        word = RunMessage(id="m", kind="interrupt", turn="a#1")

        def say() -> None:
            take(stage.shell, word, stage.clock.now(), Sender("operator"))

        asyncio.get_running_loop().call_later(0.5, stage.shell.post, say)
        ended = await stage.shell.start("r", stage.plan, {"prompt": "go"})
        assert ended.status == "completed"

    stage.clock.run(owner())
    assert [record.reason for record in stage.records(AttemptInterrupted)] == ["interrupted"]
    assert [record.what for record in stage.records(OperatorSaid)] == ["interrupt"]


# -- what was being called off ----------------------------------------------------------------------------------------


def called_off() -> Stage:
    """A run whose team, three deep, is called off while its innermost agent works."""
    stage = Stage(flow("go -> [team, bad]", team=nested(3)), Cast({"bad": [Failure(kind="exit", reason="no")]}))
    stage.start()
    return stage


def late() -> Stage:
    """A run whose team, three deep, takes too long."""
    stage = Stage(flow("team -> b", team=nested(3, timeout=1.5)))
    stage.start()
    return stage


@pytest.mark.parametrize("ended", range(4))
@pytest.mark.parametrize("make", [called_off, late])
def test_a_resume_ends_what_the_dead_owner_was_calling_off(make: Callable[[], Stage], ended: int) -> None:
    """Whichever runs had ended when it died, all do now, the deepest first, and the root ends after them."""
    stage = make()
    seqs = {"r": seq_of(stage, TurnCancelled if make is called_off else AttemptFailed)}
    seqs |= {run: seq_of(stage, TurnCancelled, run=run) - 1 for run in TEAMS[: 3 - ended]}
    seqs |= {run: len(stage.records(run=run)) for run in TEAMS[3 - ended :]}
    cut(stage, seqs)
    asked = len(stage.cast.asked)
    told = stage.resume()

    assert (told.status, how_it_ends(stage.records())) == ("failed", "failed")
    assert [how_it_ends(stage.records(run=run)) for run in TEAMS] == ["cancelled"] * 3
    assert all(len(stage.records(RunFinished, run=run)) == 1 for run in ["r", *TEAMS])
    assert len(stage.cast.asked) == asked  # nobody is asked for a team that only ends


def test_a_cancellation_that_was_only_decided_is_carried_out_by_the_next_owner() -> None:
    """The dead owner had not written it; no run of the team was opened since."""
    stage = called_off()
    decided = seq_of(stage, TurnCancelled) - 1
    cut(stage, {"r": decided, **{run: seq_of(stage, TurnCancelled, run=run) - 1 for run in TEAMS}})
    stage.resume()

    assert how_it_ends(stage.records()) == "failed"
    assert [how_it_ends(stage.records(run=run)) for run in TEAMS] == ["cancelled"] * 3
    assert [record.usage.turns for record in stage.records(TurnCancelled)] == [1]


# -- what a resume says to child runs ---------------------------------------------------------------------------------


def looping(most: int) -> Plan:
    """A loop whose one role never completes."""
    loop = LoopPlan(roles=(RolePlan(id="w"),), handoff=(("loop.start", ("w",)),), max_iterations=most)
    return Plan(name="inner", agents={"w": AgentPlan(name="w")}, coordination=loop)


def test_added_iterations_do_not_reach_a_loop_that_begins_below() -> None:
    """They are for the loop that had reached its limit."""
    outer = LoopPlan(
        roles=(RolePlan(id="w", emits=("go",)), RolePlan(id="team")),
        handoff=(("loop.start", ("team",)),),
        max_iterations=1,
    )
    team = AgentPlan(name="team", kind="topology", child=looping(2))
    stage = Stage(Plan(name="outer", agents={"team": team, "w": AgentPlan(name="w")}, coordination=outer))
    ended = stage.start(Limits(add_iterations=5))

    assert ended.reason == "max_iterations"
    assert len(stage.records(TurnStarted, run="r/iteration#1.1")) == 2
    assert stage.records(RunOwned)[0].limits.add_iterations == 5
    assert stage.records(RunOwned, run="r/iteration#1.1")[0].limits.add_iterations == 0


def test_a_reloaded_plan_is_written_into_the_root_only() -> None:
    """A child run goes on under the plan that it began with."""
    stage = Stage(flow("go -> team -> b", team=nested(1)))
    assert stage.start(Limits(max_turns=2)).reason == "max_turns"
    shell = stage._shell(Limits(max_turns=-1))
    ended = stage.clock.run(shell.resume("r", stage.plan, RootOpening(is_reloaded=True)))

    assert ended.status == "completed"
    assert len(stage.records(PlanReloaded)) == 1
    assert stage.records(PlanReloaded, run="r/team#1.1") == []
    assert [record.epoch for record in stage.records(RunOwned, run="r/team#1.1")] == [1, 2]


def test_a_repaired_end_of_a_journal_is_recorded(tmp_path: Path) -> None:
    """What was torn is set aside, and the journal says where and how much."""
    store, plan = JsonlStore(tmp_path), flow("a -> b")

    def shell(limits: Limits | None = None) -> Shell:
        cast = Cast({}, seconds=0.0)
        return Shell(
            RunPorts(store=store, turns=cast, clock=SystemClock(), make_kind=kind_of),
            OwnerOptions(limits=limits or Limits()),
        )

    asyncio.run(shell(Limits(max_turns=1)).start("r", plan, {"prompt": "go"}))
    torn = b'{"v":1,"seq":99,"topic":"turn.sta'
    with (store.folder("r") / JOURNAL).open("r+b") as file:
        whole = file.read().rstrip(b"\t\n\0 ")
        file.seek(len(whole))
        file.truncate()
        file.write(b"\n" + torn)
    assert asyncio.run(shell(Limits(max_turns=-1)).resume("r", plan)).status == "completed"

    records = list(store.read("r"))
    [repaired] = [record for record in records if isinstance(record, JournalRepaired)]
    stopped = next(record for record in records if isinstance(record, RunStopped))
    assert repaired.seq == stopped.seq + 1
    assert repaired.size == len(torn)
    assert (store.folder("r") / repaired.file).read_bytes() == torn
