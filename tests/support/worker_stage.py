"""A system in several nodes of one process, in virtual time: the supervisors, and workers that come, die and leave."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from memory_carrier import MemoryHub
from until import soon

from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.plugins.base import ModelResponse
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.agents.actors.system import ActorSystem
from coterie.agents.actors.transports.peer_transport import PeerTransport
from coterie.agents.actors.workers.host import WorkerSystem
from coterie.agents.actors.workers.requests import fingerprint
from coterie.base.clock import VirtualClock
from coterie.history.journal.records import Record
from coterie.team.planning.system import ActorPlan, ChildPlan, SupervisorPlan, SystemPlan


class Worker(AgentProcess):
    """Does what the payload says."""

    log: list[str] = []

    async def on_start(self) -> None:
        self.ended: list[Any] = []
        if self.name == "slow":
            await asyncio.sleep(10)
        if self.name in self.failing:
            raise OSError("no port")

    failing: set[str] = set()

    async def on_stop(self) -> None:
        self.log.append(f"stop {self.name}")

    async def handle(self, message: Message) -> Message | None:
        match message.payload:
            case {"crash": reason}:
                raise ValueError(reason)
            case {"hang": seconds}:
                self.log.append(f"begin {self.name}")
                await asyncio.sleep(seconds)
                self.log.append(f"end {self.name}")
            case {"ask": name, **rest}:
                return self.reply((await self.ask(name, rest, timeout=60.0)).payload)
            case {"spawn": name, "odd": True}:
                return self.reply(await self.spawn("Worker", name, factors=[{1}]))
            case {"spawn": name, **rest}:
                return self.reply(await self.spawn(rest.pop("type", "Worker"), name, **rest))
            case {"despawn": name}:
                await self.despawn(name)
            case {"monitor": name}:
                self.monitor(name)
            case {"name": name, "reason": _} if message.type == "down":
                self.ended.append(message.payload)
            case {"stream": pieces}:
                for piece in pieces:
                    await self.stream(piece)
            case {"turn": _}:
                await self.llm.chat("m", "hello")
            case {"ended": _}:
                return self.reply(self.ended)
            case {"exit": _}:
                self.exit()
            case {"remember": value}:
                self.state["value"] = value
                await self.checkpoint()
        return self.reply({"name": self.name, "state": dict(self.state)})

    async def on_child_terminated(self, name: str, reason: str) -> None:
        self.ended.append([name, reason])


class Model:
    """A provider of a model that costs a dollar."""

    name = "fake"

    async def chat(self, model: str, messages: Any, tools: Any = None, **settings: Any) -> ModelResponse:
        return ModelResponse(content="hi", model=model, tokens_in=3, tokens_out=4, cost_usd=1.0)


CLASSES = {"Worker": Worker}


def agent(name: str, process: str = "", **fields: Any) -> ActorPlan:
    """An agent that does what it is sent."""
    return ActorPlan(name=name, type="Worker", process=process, **fields)


def supervisor(name: str, *children: ChildPlan, **fields: Any) -> SupervisorPlan:
    """A supervisor that restarts at once."""
    return SupervisorPlan(name=name, children=children, **{"backoff_base": 0.0, **fields})


class WorkerStage:
    """The supervisors' node and workers on one hub.

    Attributes:
        records: What the supervisors' journal would have.
    """

    def __init__(self, *children: ChildPlan, **fields: Any) -> None:
        self.clock, self.hub = VirtualClock(1000.0), MemoryHub()
        self.hub.drops = lambda sender, address, packet: bool({sender, address} & self.cut)
        self.cut: set[str] = set()
        self.records: list[Record] = []
        self.store = InMemoryStateStore()
        self.plan = SystemPlan(root=supervisor("root", *children, **fields))
        Worker.log, Worker.failing = [], set()
        self.system: ActorSystem = self.supervisors()

    def supervisors(self, plan: SystemPlan | None = None) -> ActorSystem:
        """A process of the supervisors; the first is `system`."""
        plan = plan or self.plan
        return ActorSystem(plan, SystemPorts(sink=self.records.append, **self._options(plan, "")))

    async def worker(self, process: str = "w", plan: SystemPlan | None = None) -> WorkerSystem:
        """Start a worker."""
        plan = plan or self.plan
        plan = SystemPlan(root=plan.root, process=process)
        worker = WorkerSystem(plan, SystemPorts(**self._options(plan, process)))
        await worker.start()
        return worker

    def _options(self, plan: SystemPlan, process: str) -> dict[str, Any]:
        link = PeerTransport(self.hub.carrier(), process=process, fingerprint=fingerprint(plan.root))
        return {
            "clock": self.clock,
            "classes": CLASSES,
            "transport": link,
            "plugins": Plugins([Model()], state=self.store),
        }

    def kill(self, system: ActorSystem | WorkerSystem) -> None:
        """Cut it off for good."""
        self.cut.add(system.node.address)

    def play(self, scene: Callable[["WorkerStage"], Coroutine[Any, Any, None]]) -> "WorkerStage":
        """Start the supervisors, play *scene*, and stop."""

        async def main() -> None:
            await self.system.start()
            await scene(self)
            await self.system.stop()

        self.clock.run(main())
        return self

    async def state(self, name: str, state: str) -> None:
        """Wait until the agent *name* has this state."""
        await soon(lambda: self.states()[name] == state, 120)

    def states(self) -> dict[str, str]:
        """The state of each node."""
        return {node.name: node.state for node in self.system.describe()}

    def names(self, kind: type[Record]) -> list[str]:
        """The names in the records of one kind."""
        return [record.name for record in self.records if type(record) is kind]  # type: ignore[attr-defined]
