"""Agents on a node under a virtual clock, with a minimal supervisor that does what a test says."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.exits import Down
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.base.clock import VirtualClock
from coterie.history.journal.records import Record


class Echo(AgentProcess):
    """Replies with what it was sent, and remembers it; `boom` crashes it, `hang` makes it take that many seconds."""

    async def on_start(self) -> None:
        self.seen: list[Any] = []

    async def handle(self, message: Message) -> Message | None:
        payload = message.payload
        self.seen.append(payload)
        if isinstance(payload, dict) and "hang" in payload:
            await asyncio.sleep(payload["hang"])
        if isinstance(payload, dict) and "boom" in payload:
            raise ValueError(payload["boom"])
        return self.reply(payload)


class Held(Echo):
    """Holds the message `held` until *release* is set."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.release = asyncio.Event()

    async def handle(self, message: Message) -> Message | None:
        reply = await super().handle(message)
        if message.payload == "held":
            await self.release.wait()
        return reply


class Stage:
    """One node, the records it gave, and the ends that its agents reported."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.clock = clock
        self.records: list[Record] = []
        self.downs: list[Down] = []
        self.node = ActorNode(clock=clock, sink=self.records.append, **options)
        self.children: dict[str, AgentChild] = {}
        self.restarting = True

    async def add(
        self, factory: Callable[[], AgentProcess], *, restart: bool = True, shutdown: float | None = 5.0
    ) -> AgentChild:
        """Start an agent; it is restarted at once when it crashes, unless *restart* is false."""
        name = factory().name
        child = AgentChild(ChildSpec(name=name, factory=factory, shutdown=shutdown), self.node)
        self.children[name] = child
        pending: set[asyncio.Task[None]] = set()

        def report(down: Down) -> None:
            self.downs.append(down)
            if restart:
                task = asyncio.create_task(child.start(down.incarnation + 1))
                pending.add(task)
                task.add_done_callback(pending.discard)

        child.report = report
        await child.start(1)
        return child

    async def close(self) -> None:
        """Stop everything, in reverse."""
        for child in reversed(self.children.values()):
            await child.stop(SHUTDOWN)
        await self.node.stop()

    def topics(self, name: str) -> list[str]:
        """The topics of the records about an agent."""
        return [record.__struct_config__.tag for record in self.records if getattr(record, "name", "") == name]


def play(scene: Callable[[Stage], Coroutine[Any, Any, None]], **options: Any) -> Stage:
    """Run *scene* on a stage in virtual time."""
    clock = VirtualClock(1000.0)
    stage = Stage(clock, **options)

    async def main() -> None:
        await stage.node.start()
        await scene(stage)
        await stage.close()

    clock.run(main())
    return stage
