"""What the supervisors' process sees of agents in workers, and how it corrects them: eval agents, the topology."""

import asyncio
from typing import Any

import pytest
import worker_stage
from worker_stage import WorkerStage, agent

from coterie import AgentProcess, Correction, EvalAgent, EvalEvent
from coterie.agents.actors.message import Message
from coterie.errors import AgentStopped
from coterie.history.journal.records import CorrectionDropped, CorrectionSent, EvalReported, LetterDead
from coterie.team.planning.system import ActorPlan, EvalPlan


class Reporter(AgentProcess):
    """Reports its payloads and lists the corrections that it got."""

    async def on_start(self) -> None:
        self.seen: list[Any] = []

    async def handle(self, message: Message) -> Message | None:
        if isinstance(message.payload, dict) and "crash" in message.payload:
            raise ValueError("crash")
        if message.payload:
            await self.emit_eval("said", message.payload)
        return self.reply(list(self.seen))

    async def on_correction(self, message: Message) -> None:
        self.seen.append(message.payload["reason"])


class Judge(EvalAgent):
    """Corrects with what the event says."""

    async def on_eval_event(self, event: EvalEvent) -> Correction | None:
        return Correction(**event.payload)


@pytest.fixture(autouse=True)
def _classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(worker_stage.CLASSES, "Reporter", Reporter)  # type: ignore[misc]
    monkeypatch.setitem(worker_stage.CLASSES, "Judge", Judge)  # type: ignore[misc]


REPORTER = ActorPlan(name="a", type="Reporter", process="w")
JUDGE = EvalPlan(name="judge", class_="Judge", max_corrections_per_window=1)


async def report(stage: WorkerStage, **correction: Any) -> None:
    await stage.system.ask("a", correction)


def test_an_agent_in_a_worker_is_observed_and_nudged() -> None:
    """The event and the correction are in the supervisors' journal, in order, and within the limit."""
    seen: list[Any] = []

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await stage.state("a", "running")
        for reason in ("one", "two"):
            await report(stage, kind="nudge", reason=reason)
        await asyncio.sleep(2)
        seen.extend((await stage.system.ask("a")).payload)

    stage = WorkerStage(REPORTER, JUDGE).play(scene)

    assert seen == ["one"]
    told = [one for one in stage.records if isinstance(one, EvalReported | CorrectionSent | CorrectionDropped)]
    assert [type(one) for one in told].count(EvalReported) == 2
    assert [one.reason for one in told if not isinstance(one, EvalReported)] == ["one", "two"]


def test_a_halt_ends_an_agent_in_a_worker_for_good() -> None:
    """It does not come back with the worker."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        await report(stage, kind="halt")
        await stage.state("a", "stopped")
        with pytest.raises(AgentStopped):
            await stage.system.ask("a")
        stage.kill(worker)
        await asyncio.sleep(30)
        await stage.worker()
        await asyncio.sleep(30)
        assert stage.states()["a"] == "stopped"
        assert stage.states()["b"] == "running"

    WorkerStage(REPORTER, agent("b", "w"), JUDGE).play(scene)


def test_a_halt_while_the_worker_is_lost_holds_when_it_returns() -> None:
    """A halt is never dropped."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        stage.kill(worker)
        await stage.state("a", "absent")
        await stage.system.ask("c", {"kind": "halt", "agent": "a"})
        await stage.state("a", "stopped")
        await stage.worker()
        await stage.state("b", "running")
        await asyncio.sleep(30)
        assert stage.states()["a"] == "stopped"

    other = ActorPlan(name="c", type="Reporter")
    stage = WorkerStage(REPORTER, agent("b", "w"), other, JUDGE).play(scene)
    assert not [one for one in stage.records if isinstance(one, CorrectionDropped)]


def test_a_nudge_to_a_lost_worker_is_dropped_with_a_record() -> None:
    """The correction is at most once, as every message."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        stage.kill(worker)
        await stage.state("a", "absent")
        await stage.system.ask("c", {"kind": "nudge", "agent": "a"})
        await asyncio.sleep(30)

    other = ActorPlan(name="c", type="Reporter")
    [dropped] = [
        one for one in WorkerStage(REPORTER, other, JUDGE).play(scene).records if isinstance(one, CorrectionDropped)
    ]
    assert "'w' was lost" in dropped.problem


def test_the_tree_shows_agents_in_workers() -> None:
    """What their worker reported last: handled, crashes; dead letters of the worker are counted here."""

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await stage.state("a", "running")
        await stage.system.ask("a")
        await stage.system.send("a", {"crash": 1}, "order")
        await asyncio.sleep(5)
        [status] = [one for one in stage.system.describe() if one.name == "a"]
        assert (status.state, status.restarts, status.crashes, status.handled) == ("running", 1, 1, 2)
        letters = stage.system.node.letters
        assert letters.counts == {"crashed": 1}
        assert [message.type for message in letters.of("a")] == ["order"]

    stage = WorkerStage(REPORTER).play(scene)
    assert len([one for one in stage.records if isinstance(one, LetterDead)]) == 1
