"""What every transport of messages keeps to: one suite over all of them.

Agents run on the node `there`, messages come from the node `here`; in one process both are the same node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from actor_stage import Echo, Held
from free_ports import free_address
from memory_carrier import MemoryHub
from nats_servers import NatsServer
from until import soon

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.exits import Crashed, Down
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import LATER, AgentProcess
from coterie.agents.actors.supervision.spec import RESTART, SHUTDOWN, ChildSpec
from coterie.agents.actors.transports.base import Transport
from coterie.agents.actors.transports.choose import transport_for
from coterie.agents.actors.transports.peer_transport import PeerTransport
from coterie.base.clock import Clock, SystemClock, VirtualClock
from coterie.errors import AgentCrashed, AgentStopped, AskTimedOut, NoSuchAgent
from coterie.team.planning.system import TransportPlan

SOON = 0.1
"""Seconds in which what must not happen would happen."""


class Sides:
    """The two nodes of a test."""

    def __init__(self, here: ActorNode, there: ActorNode) -> None:
        self.here, self.there = here, there
        self.children: list[AgentChild] = []
        self.downs: list[Down] = []

    @property
    def is_durable(self) -> bool:
        return type(self.here.transport).__name__ == "JetStreamTransport"

    async def add(self, factory: Callable[[], AgentProcess], shutdown: float = SOON) -> AgentChild:
        """Start an agent on the other side; the test restarts it."""
        child = AgentChild(ChildSpec(name=factory().name, factory=factory, shutdown=shutdown), self.there)
        child.report = self.downs.append
        await child.start(1)
        self.children.append(child)
        await soon(lambda: child.spec.name in (*self.here.names(), *self.here.transport.names()))
        return child

    async def hold(self, child: AgentChild) -> None:
        """Give an agent a message that it holds; both nodes are in one loop."""
        await self.here.send(child.spec.name, "held")
        await soon(lambda: "held" in seen(child))

    async def stop(self, child: AgentChild) -> None:
        """Stop an agent; return when this side knows."""
        await child.stop(SHUTDOWN)
        await soon(lambda: child.spec.name not in self.here.transport.names())


Scene = Callable[[Sides], Awaitable[None]]
Run = Callable[[Scene], None]


def in_process(scene: Scene) -> None:
    clock = VirtualClock(1000.0)

    async def main() -> None:
        node = ActorNode(clock=clock, transport=Transport())
        await node.start()
        sides = Sides(node, node)
        await scene(sides)
        for child in reversed(sides.children):
            await child.stop(SHUTDOWN)
        await node.stop()

    clock.run(main())


async def between(here: Transport, there: Transport, clock: Clock, scene: Scene) -> None:
    """Play *scene* with agents on another node."""
    nodes = [ActorNode(clock=clock, transport=one) for one in (here, there)]
    await asyncio.gather(*(node.start() for node in nodes))
    sides = Sides(*nodes)
    try:
        await scene(sides)
        for child in reversed(sides.children):
            await child.stop(SHUTDOWN)
    finally:
        await asyncio.gather(*(node.stop() for node in nodes))


def in_memory(scene: Scene) -> None:
    clock, hub = VirtualClock(1000.0), MemoryHub()
    clock.run(between(PeerTransport(hub.carrier()), PeerTransport(hub.carrier(), process="w"), clock, scene))


def zmq(scene: Scene) -> None:
    pytest.importorskip("zmq")
    plan = TransportPlan(
        type="zmq",
        pub_addr=free_address(),
        sub_addr=free_address(),
        start_proxy=True,
        connect_timeout=60.0,
        heartbeat_timeout=10.0,
    )
    here, there = transport_for(plan, system="root"), transport_for(plan, system="root", process="w")
    asyncio.run(between(here, there, SystemClock(), scene))


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    pytest.importorskip("nats")
    with NatsServer() as one:
        yield one


def nats(scene: Scene, server: NatsServer, *, jetstream: bool = False) -> None:
    plan = TransportPlan(type="nats", servers=(server.url,), jetstream=jetstream, heartbeat_timeout=10.0)
    system = f"root-{next(_numbers)}"
    here, there = transport_for(plan, system=system), transport_for(plan, system=system, process="w")
    asyncio.run(between(here, there, SystemClock(), scene))


def jetstream(scene: Scene, server: NatsServer) -> None:
    nats(scene, server, jetstream=True)


_numbers = count()


@pytest.fixture(params=[in_process, in_memory, zmq, nats, jetstream], ids=lambda one: one.__name__)
def run(request: pytest.FixtureRequest) -> Run:
    if request.param in (nats, jetstream):
        return partial(request.param, server=request.getfixturevalue("server"))
    found: Run = request.param
    return found


def seen(child: AgentChild) -> list[Any]:
    assert isinstance(child.agent, Echo)
    return child.agent.seen


def release(child: AgentChild) -> None:
    assert isinstance(child.agent, Held)
    child.agent.release.set()


def test_an_ask_is_answered(run: Run) -> None:
    """The reply names its sender and the message that it answers."""

    async def scene(sides: Sides) -> None:
        await sides.add(lambda: Echo("echo"))
        reply = await sides.here.ask("echo", {"n": 1, "deep": [None, {"é": 1.5}]})
        assert reply.payload == {"n": 1, "deep": [None, {"é": 1.5}]}
        assert reply.sender == "echo"
        assert reply.correlation_id == reply.parent_span_id == reply.trace_id

    run(scene)


def test_messages_of_one_sender_arrive_once_and_in_order(run: Run) -> None:
    """Sends and asks together."""

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Echo("echo", mailbox_size=10))
        for n in range(100):
            await (sides.here.ask("echo", n) if n % 10 == 9 else sides.here.send("echo", n))
        assert seen(child) == list(range(100))

    run(scene)


def test_a_send_returns_when_the_mailbox_has_the_message(run: Run) -> None:
    """A full mailbox makes it wait."""

    async def scene(sides: Sides) -> None:
        if sides.is_durable:
            pytest.skip("a durable mailbox is full at 1,000 messages: test_transport_brokers.py")
        child = await sides.add(lambda: Held("echo", mailbox_size=1))
        await sides.hold(child)
        await sides.here.send("echo", "waits in the mailbox")
        assert sides.there.health("echo").queued == 1
        send = asyncio.create_task(sides.here.send("echo", "waits before it"))
        await asyncio.sleep(SOON)
        assert not send.done()
        release(child)
        await send
        await sides.here.ask("echo", "end")
        assert seen(child)[1:] == ["waits in the mailbox", "waits before it", "end"]

    run(scene)


def test_a_full_mailbox_holds_up_no_other_agent(run: Run) -> None:
    """Sends and asks to others pass, and so do replies."""

    async def scene(sides: Sides) -> None:
        full = await sides.add(lambda: Held("full", mailbox_size=1))
        await sides.add(lambda: Echo("free"))
        await sides.hold(full)
        sends = [asyncio.create_task(sides.here.send("full", n)) for n in range(20)]
        for n in range(20):
            await sides.here.ask("free", n)
        assert sides.is_durable or not all(send.done() for send in sends)
        release(full)
        await asyncio.gather(*sends)

    run(scene)


@pytest.mark.parametrize("case", ["unknown", "stopped", "crashing", "hanging", "never answering"])
def test_an_ask_that_cannot_be_answered_fails(case: str, run: Run) -> None:
    """At once and with its own error; only a hanging agent costs the timeout."""

    class Never(AgentProcess):
        async def handle(self, message: Message) -> Message | None:
            return LATER

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Never("echo") if case == "never answering" else Echo("echo"))
        began = asyncio.get_running_loop().time()
        match case:
            case "unknown":
                with pytest.raises(NoSuchAgent):
                    await sides.here.ask("nothing", {}, timeout=60)
            case "stopped":
                await child.stop(SHUTDOWN)
                with pytest.raises(AgentStopped):
                    await sides.here.ask("echo", {}, timeout=60)
            case "crashing":
                with pytest.raises(AgentCrashed, match="ValueError: no") as raised:
                    await sides.here.ask("echo", {"boom": "no"}, timeout=60)
                assert "raise ValueError" in raised.value.trace
            case "hanging":
                with pytest.raises(AskTimedOut):
                    await sides.here.ask("echo", {"hang": 60}, timeout=SOON)
            case _:
                ask = asyncio.create_task(sides.here.ask("echo", {}, timeout=60))
                await asyncio.sleep(SOON)
                await child.stop(SHUTDOWN)
                with pytest.raises(AgentStopped):
                    await ask
        assert asyncio.get_running_loop().time() - began < 30

    run(scene)


def test_a_send_to_a_dead_name_raises(run: Run) -> None:
    """Unknown and stopped agents are no black holes."""

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Echo("echo"))
        await sides.stop(child)
        with pytest.raises(AgentStopped):
            await sides.here.send("echo", {})
        with pytest.raises(NoSuchAgent):
            await sides.here.send("nothing", {})

    run(scene)


def test_queued_messages_survive_a_crash(run: Run) -> None:
    """Those sent during the restart, too; the one in hand is an error or a dead letter."""

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Held("echo"))
        await sides.hold(child)
        await sides.here.send("echo", {"boom": 1})
        queued = asyncio.create_task(sides.here.ask("echo", "queued"))
        await asyncio.sleep(SOON / 2)
        release(child)
        await soon(lambda: bool(sides.downs))
        assert [type(down.reason) for down in sides.downs] == [Crashed]
        meanwhile = asyncio.create_task(sides.here.ask("echo", "meanwhile"))
        await asyncio.sleep(SOON / 2)
        await child.start(2)
        assert [reply.payload for reply in await asyncio.gather(queued, meanwhile)] == ["queued", "meanwhile"]
        assert seen(child) == ["queued", "meanwhile"]
        assert dict(sides.there.letters.counts) == {"crashed": 1}

    run(scene)


def test_a_broadcast_reaches_every_matching_agent(run: Run) -> None:
    """On all nodes."""

    async def scene(sides: Sides) -> None:
        children = [await sides.add(lambda name=name: Echo(name)) for name in ("w.a", "w.b", "x")]  # type: ignore[misc]
        assert await sides.here.broadcast("w.*", "news") == ("w.a", "w.b")
        for child in children:
            await sides.here.ask(child.spec.name, "end")
        assert [seen(child) for child in children] == [["news", "end"], ["news", "end"], ["end"]]

    run(scene)


def test_the_state_is_answered_while_the_handler_hangs(run: Run) -> None:
    """By the process that hosts the agent."""

    class Counter(Held):
        async def on_start(self) -> None:
            self.seen = []
            self.state["n"] = 1
            await self.checkpoint()

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Counter("echo"))
        await sides.hold(child)
        assert (await sides.here.ask("echo", {"__op__": "state"})).payload == {"n": 1}

    run(scene)


def test_a_late_reply_disturbs_no_later_ask(run: Run) -> None:
    """It is dropped and counted by the node that asked."""

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Held("echo"))
        while not seen(child):  # one that has not arrived in its time is withdrawn
            with pytest.raises(AskTimedOut):
                await sides.here.ask("echo", "held", timeout=SOON / 2)
        release(child)
        assert (await sides.here.ask("echo", "next")).payload == "next"
        assert sides.here.late == seen(child).count("held")

    run(scene)


def test_messages_of_a_replaced_agent_wait_for_it(run: Run) -> None:
    """A stop for a restart loses nothing that was queued."""

    async def scene(sides: Sides) -> None:
        child = await sides.add(lambda: Echo("echo"), shutdown=60.0)
        asks = [asyncio.create_task(sides.here.ask("echo", {"hang": SOON / 4, "n": n})) for n in range(4)]
        await soon(lambda: bool(seen(child)))
        await child.stop(RESTART)
        await child.start(2)
        assert [reply.payload["n"] for reply in await asyncio.gather(*asks)] == [0, 1, 2, 3]

    run(scene)
