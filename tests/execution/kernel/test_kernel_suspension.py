"""A machine that was suspended: work is given the time that it had, and what waits for a person or a time goes on."""

import asyncio

import pytest
from loop_play import loop_plan, plan_of
from nests import nested
from stage import Cast, Part, Stage, flow

from coterie.agents.backends.attempt_timeout import AttemptTask
from coterie.agents.backends.base import Answer, Failure, Found, OnEvent, Request, Result, Running
from coterie.base.clock import LOOK, VirtualClock
from coterie.history.journal import records as r
from coterie.history.journal.memory import MemoryStore
from coterie.history.views.timeline import sentence
from coterie.team.planning.plan import AgentPlan, Plan

NIGHT = 30_000.0


def played(stage: Stage, *moments: float, resume: bool = False, until: float | None = None) -> None:
    """Play *stage* on a machine that is suspended for a night at each of *moments*; with *until*, stop it then."""

    async def play() -> None:
        loop, stage.shell = asyncio.get_running_loop(), stage._shell(None)
        for moment in moments:
            loop.call_later(moment, stage.clock.suspend, NIGHT)
        if until is not None:
            loop.call_later(until, stage.shell.stop, "interrupted")
        await (stage.shell.resume("r", stage.plan) if resume else stage.shell.start("r", stage.plan, {"prompt": "go"}))

    stage.clock.run(play())


class Timed(Cast):
    """Ends attempts at their time-outs; people never answer."""

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        part, most = await super().start(request, on_event), request.agent.timeout
        if request.agent.kind == "human":
            part._seconds = 10**9
        elif most is not None and most < part._seconds:
            part._seconds, part._result = most, Failure(kind="timeout", reason="late")
        return part


def ends(stage: Stage, *kinds: type[r.Record], run: str = "r") -> list[tuple[str, float]]:
    """The reason and the time of each record of *kinds*."""
    return [(getattr(one, "kind", "") or one.reason, round(one.at, 3)) for one in stage.records(*kinds, run=run)]


@pytest.mark.parametrize(("timeout", "late"), [(70.0, []), (50.0, [("timeout", NIGHT + 50.0)])])
def test_the_time_out_of_a_team_counts_no_suspension(timeout: float, late: list[tuple[str, float]]) -> None:
    """The night in the middle of its minute neither ends it nor gives it more."""
    stage = Stage(flow("team -> b", team=nested(1, timeout=timeout)), Cast({}, seconds=30.0))
    played(stage, 10.0)

    assert ends(stage, r.AttemptFailed) == late
    assert [one.seconds for one in stage.records(r.RunSuspended)] == [NIGHT]
    assert stage.records(r.RunSuspended, run="r/team#1.1")


def test_the_time_out_of_a_team_counts_no_suspension_of_an_earlier_owner() -> None:
    stage = Stage(flow("team -> b", team=nested(1, timeout=50.0)), Cast({}, seconds=30.0))
    played(stage, 10.0, until=20.0)
    stage.clock.suspend(NIGHT)
    played(stage, 5.0, resume=True)

    assert ends(stage, r.AttemptFailed) == [("timeout", 3 * NIGHT + 50.0)]


@pytest.mark.parametrize("moment", [10.0, 40.0])
def test_the_time_of_a_loop_counts_no_suspension(moment: float) -> None:
    """Neither in a turn, nor where one ends at the moment at which the machine wakes."""
    stage = Stage(_loop(max_runtime=100.0), Timed({}, seconds=40.0))
    played(stage, moment)

    assert ends(stage, r.RunStopped) == [("max_runtime", NIGHT + 100.0)]
    assert len(stage.records(r.TurnStarted)) == 3
    assert stage.shell.ended(next(iter(stage.shell.runs.values()))).seconds == 100.0


def test_the_time_of_a_loop_counts_no_suspension_that_is_not_recorded_yet() -> None:
    """A turn that is about to start has all that is left."""
    stage = Stage(_loop(max_runtime=100.0), Timed({}, seconds=40.0))
    left = list[float | None]()

    def look(run: str, record: r.Record) -> None:
        if isinstance(record, r.TurnStarted) and not left:
            stage.clock.suspend(NIGHT)
            left.append(stage.shell._timers.seconds_left(stage.shell.runs[run]))

    async def play() -> None:
        stage.shell = stage._shell(None)
        stage.shell.watch(look)
        await stage.shell.start("r", stage.plan, {"prompt": "go"})

    stage.clock.run(play())
    assert left == [100.0]
    assert ends(stage, r.AttemptFailed) == [("timeout", NIGHT + 100.0)]


@pytest.mark.parametrize("days", [0.5, 3])
def test_a_person_has_as_long_as_the_question_says_suspended_or_not(days: float) -> None:
    """A question that was due in the night has its end soon after the machine has woken, and not a night later."""

    due = NIGHT * days
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", kind="human", backend="human", timeout=due)), Timed({}))
    played(stage, 10.0)

    [(kind, at)] = ends(stage, r.AttemptFailed)
    assert (kind, max(due, 10.0 + NIGHT) <= at <= max(due, 10.0 + NIGHT) + LOOK) == ("timeout", True)


def test_a_retry_that_was_due_in_the_night_comes_when_the_machine_wakes() -> None:
    busy = Failure(kind="transient", reason="busy", wait=200.0)
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", retry=1)), Cast({"a": [busy, Answer(text="on")]}))
    played(stage, 10.0)

    assert NIGHT < stage.records(r.TurnFinished)[0].at < NIGHT + 10.0 + 2 * LOOK


@pytest.mark.parametrize("owned", [True, False])
def test_an_attempt_that_is_adopted_has_the_time_that_it_worked(owned: bool) -> None:
    """Whether the machine slept while its owner lived, or after that; what it slept before does not matter."""

    class Lasting(Cast):
        async def find(self, request: Request, on_event: OnEvent) -> Found:  # type: ignore[override]
            return Running(await self.start(request, on_event))

    cast = Lasting({}, seconds=30.0)
    stage = Stage(flow("first -> a -> b", a=AgentPlan(name="a", on_interrupt="adopt", timeout=100.0)), cast)
    stage.clock.suspend(NIGHT)
    played(stage, 5.0, *[40.0] * owned, until=50.0)
    kept = [one for one in stage.records() if not isinstance(one, r.AttemptInterrupted | r.RunStopped)]
    stage.store = MemoryStore()
    stage.store.fill("r", kept)
    if not owned:
        stage.clock.suspend(NIGHT)
    stage.clock.advance(5.0)
    played(stage, resume=True)

    assert [one.taken for one in cast.asked if one.agent.name == "a"] == [0.0, 25.0]


def test_the_time_out_of_an_attempt_counts_no_suspension() -> None:
    clock = VirtualClock()

    class Endless(AttemptTask):
        async def _run(self) -> Result:
            self._limit_time()
            return await self._cut

    async def play() -> float:
        asyncio.get_running_loop().call_later(10.0, clock.suspend, NIGHT)
        await Endless(60.0).result()
        return clock.now()

    assert clock.run(play()) == NIGHT + 60.0


def test_short_rests_of_the_machine_are_not_recorded() -> None:
    """Clocks are read one after the other, so two of them differ a little."""
    stage = Stage(flow("a -> b"), Cast({}, seconds=1.0))
    stage.clock.suspend(0.04)
    stage.start()

    assert stage.records(r.RunSuspended) == []


def test_a_person_reads_how_long_the_machine_slept() -> None:
    assert sentence(r.RunSuspended(seconds=30_600.0)) == "the machine slept for 8 h 30 min"


def _loop(**limits: float) -> Plan:
    return plan_of(loop_plan(**limits))
