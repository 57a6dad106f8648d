"""Random schedules of everything that can befall an agent; whatever happens, every ask ends and nothing is lost."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.exits import Down, Terminated
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import LATER, AgentProcess, ErrorAction
from coterie.agents.actors.supervision.spec import KILLED, RESTART, SHUTDOWN, ChildSpec
from coterie.base.clock import VirtualClock
from coterie.errors import ActorError, AgentStopped, AskTimedOut

ACTS = ["reply"] * 6 + ["crash", "hang", "exit", "later", "never", "work", "failing work", "cancel", "stubborn", "send"]
ACTS += ["stubborn crash", "late failure"]


class World:
    """What the agents of one schedule did."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.begun: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.working: dict[str, AgentProcess] = {}
        self.accepted: set[int] = set()
        self.faults: list[str] = []
        self.next = 0

    def number(self) -> int:
        self.next += 1
        return self.next


class Wild(AgentProcess):
    """Does what its messages say."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, mailbox_size=3, handle_timeout=world.chance.choice((None, 4.0)), max_retries=1)
        self.world = world

    async def on_start(self) -> None:
        if self.world.chance.random() < 0.3:
            await asyncio.sleep(self.world.chance.random())
        if self.world.chance.random() < 0.1:
            raise OSError("not now")

    async def on_stop(self) -> None:
        if self.world.chance.random() < 0.3:
            await asyncio.sleep(3 * self.world.chance.random())

    async def on_error(self, exc: BaseException, message: Message) -> ErrorAction:
        if self.world.chance.random() < 0.1:
            raise RuntimeError("on_error fails, too")
        return self.world.chance.choice([ErrorAction.ESCALATE] * 5 + list(ErrorAction))

    async def handle(self, message: Message) -> Message | None:
        world, number = self.world, message.payload["number"]
        if message.attempt == 1:
            world.begun[number] += 1
        if world.working.get(self.name) is self:
            world.faults.append(f"{number}: two messages at a time")
        world.working[self.name] = self
        try:
            answer = await self.act(message)
        finally:
            if world.working.get(self.name) is self:
                del world.working[self.name]
        world.done[number] += 1
        return answer

    async def act(self, message: Message) -> Message | None:
        match message.payload["act"]:
            case "crash":
                await asyncio.sleep(self.world.chance.random())
                raise ValueError
            case "hang":
                await asyncio.sleep(10 * self.world.chance.random())
            case "exit":
                self.exit()
            case "later":
                self.start_task(self.later(message))
                return LATER
            case "never":
                return LATER
            case "work":
                self.start_task(asyncio.sleep(1))
            case "failing work":
                self.start_task(self.fail())
            case "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            case "late failure":
                self.start_task(self.fail_late())
            case "stubborn" | "stubborn crash" as act:
                for _ in range(6):
                    try:
                        await asyncio.sleep(1)
                    except asyncio.CancelledError:
                        continue
                if act == "stubborn crash":
                    raise ValueError(act)
            case "send":
                number = self.world.number()
                await self.send(self.world.chance.choice("abc"), {"act": "reply", "number": number})
                self.world.accepted.add(number)
        return self.reply(message.payload)

    async def later(self, message: Message) -> None:
        await asyncio.sleep(3 * self.world.chance.random())
        self.answer(message, message.payload)

    async def fail_late(self) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(3 * self.world.chance.random())
            raise OSError("failed after its end")

    async def fail(self) -> None:
        await asyncio.sleep(2 * self.world.chance.random())
        raise OSError("failed beside")


class Keeper:
    """A crude supervisor: restarts after a while, whatever ended, and now and then replaces or kills."""

    def __init__(self, node: ActorNode, name: str, world: World) -> None:
        self.world = world
        self.child = AgentChild(ChildSpec(name=name, factory=lambda: Wild(name, world), shutdown=2.0), node)
        self.child.report = self.ended
        self.down = asyncio.Event()
        self.reports: list[Down] = []
        self.gone = False

    def ended(self, down: Down) -> None:
        assert down.incarnation == self.child.incarnation
        assert down not in self.reports, "an end is reported once"
        self.reports.append(down)
        self.down.set()

    async def start(self, incarnation: int) -> int:
        while True:
            try:
                await self.child.start(incarnation)
                return incarnation
            except OSError:
                incarnation += 1
                if self.world.chance.random() < 0.1:
                    await self.child.stop(SHUTDOWN)

    async def run(self, rounds: int) -> None:
        incarnation = await self.start(1)
        for _ in range(rounds):
            self.down.clear()
            try:
                await asyncio.wait_for(self.down.wait(), 5 * self.world.chance.random())
                final = isinstance(self.reports[-1].reason, Terminated)
            except TimeoutError:
                final = self.world.chance.random() < 0.1
                reports = len(self.reports)
                await self.child.stop(self.world.chance.choice((SHUTDOWN, KILLED)) if final else RESTART)
                assert len(self.reports) == reports, "no report after a stop"
            if final:
                await self.child.stop(SHUTDOWN)
            await asyncio.sleep(self.world.chance.random())
            incarnation = await self.start(incarnation + 1)
        await self.child.stop(SHUTDOWN)


def play(seed: int) -> None:
    world, clock = World(seed), VirtualClock(1000.0)
    fates: Counter[str] = Counter()

    async def main() -> None:
        node = ActorNode(clock=clock)
        await node.start()
        keepers = [Keeper(node, name, world) for name in "abc"]
        runs = [asyncio.create_task(keeper.run(12)) for keeper in keepers]

        async def one() -> None:
            await asyncio.sleep(30 * world.chance.random())
            number, name = world.number(), world.chance.choice("abc")
            payload: dict[str, Any] = {"act": world.chance.choice(ACTS), "number": number}
            priority = world.chance.choice((0, 0, 0, 1))
            try:
                if world.chance.random() < 0.4:
                    await node.send(name, payload, priority=priority)
                    world.accepted.add(number)
                elif world.chance.random() < 0.2:
                    await asyncio.wait_for(node.ask(name, payload, timeout=None, priority=priority), 3)
                    fates["answered"] += 1
                else:
                    await node.ask(name, payload, timeout=20, priority=priority)
                    fates["answered"] += 1
            except AskTimedOut:
                fates["timed out"] += 1
            except (ActorError, TimeoutError) as error:
                fates[type(error).__name__] += 1

        await asyncio.wait_for(asyncio.gather(*(one() for _ in range(120))), 10_000)
        await asyncio.wait_for(asyncio.gather(*runs), 10_000)
        await asyncio.sleep(100)
        assert node.names() == []
        with pytest.raises(AgentStopped):
            await node.ask("a")
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left running"
        assert not node._asks

        dead = {letter.payload["number"] for letter, _ in node.letters}
        lost = {number for number in world.accepted if not world.done[number] and number not in dead}
        assert not world.faults
        assert not lost, "each send was handled or is a dead letter"
        twice = {number for number, times in world.begun.items() if times > 1}
        assert not twice, "nothing is handled twice"

    clock.run(main())
    assert fates["answered"]


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nothing_is_lost_or_done_twice(first: int) -> None:
    """Asks end, sends are handled or dead letters, one message at a time, and no task is left."""
    for seed in range(first, first + 8):
        play(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_nothing_is_lost_or_done_twice_in_many_schedules(first: int) -> None:
    """The same with a thousand schedules."""
    for seed in range(first, first + 100):
        play(seed)
