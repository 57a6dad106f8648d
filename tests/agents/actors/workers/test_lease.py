"""The lease of a worker: whatever is cut, held back or slow, no two incarnations of an agent handle messages."""

import asyncio
import random
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import pytest
import worker_stage
from bundles import bundle
from worker_stage import WorkerStage, supervisor

from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.workers.host import WorkerSystem
from coterie.errors import ActorError, WorkerLost
from coterie.team.planning.system import ActorPlan

SILENT = 3.0
AGENTS = ("a", "b")
LARGE = "large" * 100


class Span(NamedTuple):
    """One message in the hands of one incarnation."""

    agent: str
    incarnation: int
    began: float
    ended: float


class Noted(AgentProcess):
    """Notes when it began and ended to handle each message."""

    spans: list[Span] = []
    numbers = count(1)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.number = next(self.numbers)

    async def handle(self, message: Message) -> Message:
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(message.payload["for"])
        finally:
            self.spans.append(Span(self.name, self.number, began, asyncio.get_running_loop().time()))
        return self.reply({})


worker_stage.CLASSES["Noted"] = Noted


def twice(spans: list[Span]) -> list[tuple[Span, Span]]:
    """The pairs of spans of two incarnations of one agent, of which the earlier one still handled a message."""
    return [
        (old, new)
        for old in spans
        for new in spans
        if old.agent == new.agent and old.incarnation < new.incarnation and old.ended > new.began
    ]


class Schedule:
    """One random history of faults, under traffic from the supervisors and from workers.

    A fault cuts a node off in both directions, makes it deaf or mute, or separates two nodes; its packets are lost, or
    held back and delivered when it ends.
    """

    def __init__(self, seed: int, faults: int) -> None:
        self.random = random.Random(seed)
        Noted.spans, Noted.numbers = [], count(1)
        agents = [ActorPlan(name=name, type="Noted", process="w") for name in AGENTS]
        others = [ActorPlan(name="c", type="Noted", process="v")]
        self.stage = WorkerStage(supervisor("sub", *agents, max_restarts=1000), *others, max_restarts=1000)
        self.stage.hub.drops = self.drops
        self.workers: list[WorkerSystem] = []
        self.faults: list[tuple[str, str, bool]] = []  # from, to (empty: any), whether it holds packets back
        self.held: list[tuple[str, str, bytes]] = []
        self.traffic: set[asyncio.Task[None]] = set()
        self.answered, self.how_many = 0, faults

    def drops(self, sender: str, address: str, packet: bytes) -> bool:
        for source, target, holds in self.faults:
            if source in ("", sender) and target in ("", address):
                if holds:
                    self.held.append((sender, address, packet))
                return True
        return False

    async def scene(self, stage: WorkerStage) -> None:
        for process in ("w", "w", "v"):
            self.workers.append(await stage.worker(process))
        await stage.state("a", "running")
        sending = asyncio.get_running_loop().create_task(self.send())
        for _ in range(self.how_many):
            self.break_something()
            await asyncio.sleep(self.random.uniform(0.0, 2.5 * SILENT))
            self.heal()
            if self.random.random() < 0.15:
                await self.replace_supervisors()
            await asyncio.sleep(self.random.choice([0.0, 0.3, SILENT, 4 * SILENT]))
        sending.cancel()
        await asyncio.sleep(60)
        self.answered = 0
        for name in AGENTS:
            await self.ask(stage.system.node, name, 0.0)
        assert self.answered == len(AGENTS), stage.states()
        for task in self.traffic:
            task.cancel()
        for worker in self.workers:
            await worker.stop()

    def break_something(self) -> None:
        stage, holds = self.stage, self.random.random() < 0.4
        supervisors = stage.system.node.address
        node = self.random.choice([*(one.node.address for one in self.workers), supervisors])
        kind = self.random.choice(["off", "deaf", "mute", "apart", "apart", "nothing goes"])
        self.faults = {
            "off": [(node, "", holds), ("", node, holds)],
            "deaf": [("", node, holds)],
            "mute": [(node, "", holds)],
            "apart": [(node, supervisors, holds), (supervisors, node, holds)],
            "nothing goes": [("", "", holds)],
        }[kind]

    def heal(self) -> None:
        self.faults, held, self.held = [], self.held, []
        for sender, address, packet in held:
            if address in self.stage.hub.nodes and sender not in self.stage.cut:
                self.stage.hub.nodes[address](packet)

    async def replace_supervisors(self) -> None:
        stage = self.stage
        self.faults = [(stage.system.node.address, "", False), ("", stage.system.node.address, False)]
        await stage.system.stop()
        stage.hub.nodes.pop(stage.system.node.address, None)
        stage.system = stage.supervisors()
        await stage.system.start()
        self.faults = []

    async def send(self) -> None:
        while True:
            node = self.random.choice([self.stage.system.node, *(one.node for one in self.workers)])
            work = self.ask(node, self.random.choice(AGENTS), self.random.choice([0.0, 0.1, 1.0, 4.0]))
            task = asyncio.get_running_loop().create_task(work)
            self.traffic.add(task)
            task.add_done_callback(self.traffic.discard)
            await asyncio.sleep(self.random.uniform(0.02, 0.4))

    async def ask(self, node: Any, name: str, seconds: float) -> None:
        with suppress(ActorError):
            await node.ask(name, {"for": seconds}, timeout=20.0)
            self.answered += 1


def history(seed: int, faults: int) -> list[tuple[Span, Span]]:
    schedule = Schedule(seed, faults)
    schedule.stage.play(schedule.scene)
    assert len(Noted.spans) > 20
    return twice(Noted.spans)


@bundle("seed", range(3))
def test_no_two_incarnations_of_an_agent_handle_messages(seed: int) -> None:
    """Random partitions, one-way ones too, packets that come late, supervisors that are replaced."""
    assert history(seed, 4) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@bundle("nth", range(50))
def test_no_two_incarnations_of_an_agent_handle_messages_in_500_schedules(part: int, nth: int) -> None:
    """As above."""
    assert history(10 + part + 10 * nth, 12) == []


def test_a_worker_that_was_held_up_handles_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease ended while a handler blocked the loop: the next message is not handled before that is noticed."""
    handled = list[tuple[int, str]]()

    class Blocking(AgentProcess):
        incarnations = count(1)

        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.number = next(self.incarnations)

        async def handle(self, message: Message) -> None:
            handled.append((self.number, message.payload["text"]))
            stage.clock.advance(message.payload["blocks"])

    monkeypatch.setitem(worker_stage.CLASSES, "Blocking", Blocking)
    stage = WorkerStage(supervisor("sub", ActorPlan(name="a", type="Blocking", process="w")))

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        payloads = [{"text": "first", "blocks": 60.0}, {"text": "second", "blocks": 0.0}]
        asks = [stage.system.node.ask("a", payload, timeout=60.0) for payload in payloads]
        await asyncio.gather(*asks, return_exceptions=True)
        await asyncio.sleep(60)
        await worker.stop()

    stage.play(scene)
    assert handled[0] == (1, "first")
    assert (1, "second") not in handled


def test_the_spare_waits_for_the_lease_of_a_worker_that_is_still_heard() -> None:
    """It is lost because one packet never arrives, such as one too large for the path, and has renewed its lease."""
    Noted.spans, Noted.numbers = [], count(1)
    stage = WorkerStage(supervisor("sub", ActorPlan(name="a", type="Noted", process="w")))

    async def scene(stage: WorkerStage) -> None:
        workers = [await stage.worker(), await stage.worker()]
        await stage.state("a", "running")
        stage.hub.drops = lambda sender, address, packet: LARGE.encode() in packet
        asks = [one.node.ask("a", {"for": 1.3}, timeout=60.0) for one in workers for _ in range(9)]
        traffic = asyncio.gather(*asks, return_exceptions=True)  # one is in hand when the worker is lost
        with pytest.raises(WorkerLost):
            await stage.system.node.ask("a", {"for": 0.1, "text": LARGE}, timeout=30.0)
        for _ in range(30):
            with suppress(WorkerLost):
                await stage.system.node.ask("a", {"for": 0.0}, timeout=60.0)
            await asyncio.sleep(0.1)
        await traffic
        for worker in workers:
            await worker.stop()

    stage.play(scene)
    assert {span.incarnation for span in Noted.spans} == {1, 2}
    assert twice(Noted.spans) == []
