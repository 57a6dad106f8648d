"""Workers and supervisors that are killed, cut off and stopped at random, with crashing agents: all come back."""

import asyncio
import logging
import random
from contextlib import suppress

import pytest
from worker_stage import Worker, WorkerStage, agent, supervisor

from coterie.agents.actors.workers.host import WorkerSystem
from coterie.errors import ActorError
from coterie.history.journal.records import ActorCrashed, ActorStarted, ActorStopped

AGENTS = ("a", "b", "c", "d", "e")


class Chaos:
    """One random history; what is cut off is killed or comes back."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.has_new_supervisors = seed % 2 == 1
        strategy = self.random.choice(["ONE_FOR_ONE", "ONE_FOR_ALL", "REST_FOR_ONE"])
        limits = {"max_restarts": 1000, "backoff_base": self.random.choice([0.0, 0.3]), "strategy": strategy}
        self.stage = WorkerStage(
            agent("a", "w"),
            supervisor("sub", agent("b", "w"), agent("c", "v"), agent("d"), **limits),
            agent("e", "v"),
            **limits,
        )
        self.alive: list[WorkerSystem] = []
        self.cut: list[WorkerSystem] = []
        self.asks: list[asyncio.Task[None]] = []

    async def scene(self, stage: WorkerStage) -> None:
        for _ in range(40):
            await self.step()
            await asyncio.sleep(self.random.choice([0.0, 0.01, 0.5, 1.0, 4.0]))
        stage.cut -= {one.node.address for one in self.cut}
        for process in ("w", "v"):
            await self.add(process)
        await asyncio.sleep(200)  # asks that wait for each other across processes end by their timeout
        assert stage.states() == dict.fromkeys(("root", "a", "sub", "b", "c", "d", "e"), "running")
        nodes = [stage.system.node, *(one.node for one in (*self.alive, *self.cut))]
        for name in AGENTS:
            assert sum(name in node.names() for node in nodes) == 1, name
            await stage.system.ask(name, {}, timeout=5.0)
        async with asyncio.timeout(120):
            await asyncio.gather(*self.asks)

    async def step(self) -> None:
        stage, worker = self.stage, self.random.choice(self.alive) if self.alive else None
        if self.has_new_supervisors and self.random.random() < 0.12:
            await self.replace_supervisors()
        match self.random.choice(["add", "kill", "cut", "heal", "leave", "crash", "ask", "ask", "hang"]):
            case "add" if len(self.alive) < 5:
                await self.add(self.random.choice(["w", "v"]))
            case "kill" if worker is not None:
                self.alive.remove(worker)
                stage.kill(worker)
            case "cut" if worker is not None:
                self.alive.remove(worker)
                self.cut.append(worker)
                stage.cut.add(worker.node.address)
            case "heal" if self.cut:
                one = self.cut.pop()
                self.alive.append(one)
                stage.cut.discard(one.node.address)
            case "leave" if worker is not None:
                self.alive.remove(worker)
                self.ask_later(worker.stop())
            case "crash":
                self.ask_later(self.ask({"crash": "boom"}))
            case "hang":
                self.ask_later(self.ask({"hang": 3}))
            case "ask":
                self.ask_later(self.ask({"ask": self.random.choice(AGENTS)}))
            case _:
                pass

    def ask_later(self, work: object) -> None:
        self.asks.append(asyncio.get_running_loop().create_task(work))  # type: ignore[arg-type]

    async def ask(self, payload: dict[str, object]) -> None:
        with suppress(ActorError):
            await self.stage.system.ask(self.random.choice(AGENTS), payload, timeout=60.0)

    async def replace_supervisors(self) -> None:
        """The next process of the supervisors, after the one before has died or stopped."""
        if self.random.random() < 0.5:
            self.stage.kill(self.stage.system)
        else:
            await self.stage.system.stop()
        self.stage.system = self.stage.supervisors()
        await self.stage.system.start()

    async def add(self, process: str) -> None:
        self.alive.append(await self.stage.worker(process))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.long) for n in range(6, 50))])
def test_whatever_happens_to_workers_all_agents_come_back(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Each in one place; the journal has one end for each incarnation, and nothing went wrong unseen."""
    chaos = Chaos(seed)
    with caplog.at_level(logging.ERROR):
        chaos.stage.play(chaos.scene)
    errors = [record.getMessage() for record in caplog.records]
    assert [error for error in errors if not error.startswith("Task was destroyed")] == []  # of nodes that were killed
    for name in () if chaos.has_new_supervisors else AGENTS:
        incarnation, is_up = 0, False
        for record in chaos.stage.records:
            if getattr(record, "name", "") != name:
                continue
            if isinstance(record, ActorStarted):
                assert (is_up, record.incarnation > incarnation) == (False, True)
                incarnation, is_up = record.incarnation, True
            elif isinstance(record, ActorStopped | ActorCrashed) and record.incarnation == incarnation:
                is_up = False
    Worker.log.clear()
