"""The link between processes, in virtual time over a carrier in memory: loss, order, discovery, requests, limits."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from actor_stage import Echo
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from memory_carrier import MemoryHub
from until import soon

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.exits import Down
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import LATER, AgentProcess
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.agents.actors.transports import peer_transport
from coterie.agents.actors.transports.channel import Channel
from coterie.agents.actors.transports.heartbeats import REMEMBERED, Heartbeats
from coterie.agents.actors.transports.peer_transport import WINDOW, PeerTransport
from coterie.agents.actors.transports.remote import Peer
from coterie.agents.actors.transports.wire import CallFrame, Packet, decode, encode
from coterie.base.clock import VirtualClock
from coterie.errors import (
    ActorError,
    AgentCrashed,
    AgentStopped,
    AskTimedOut,
    NoSuchAgent,
    PayloadRefused,
    WorkerLost,
)

SILENT = 3.0


class Pair:
    """A supervisor's node `here` and a worker's node `there`."""

    def __init__(self, clock: VirtualClock, hub: MemoryHub, fingerprint: str = "") -> None:
        self.clock, self.hub = clock, hub
        self.near, self.far = (
            PeerTransport(hub.carrier()),
            PeerTransport(hub.carrier(), process="w", fingerprint=fingerprint),
        )
        self.here, self.there = ActorNode(clock=clock, transport=self.near), ActorNode(clock=clock, transport=self.far)
        self.events: list[str] = []
        self.near.on_peer(lambda peer, what: self.events.append(what))
        self.children: list[AgentChild] = []

    async def start(self) -> None:
        await self.here.start()
        await self.there.start()

    async def add(self, name: str, make: Callable[[str], AgentProcess] = Echo) -> AgentChild:
        child = AgentChild(ChildSpec(name=name, factory=lambda: make(name), shutdown=0.1), self.there)
        await child.start(1)
        self.children.append(child)
        await self.until(lambda: name in self.here.transport.names())
        return child

    async def until(self, met: Callable[[], bool]) -> float:
        """Virtual seconds until *met*."""
        began = self.clock.now()
        await soon(met, 120)
        return self.clock.now() - began

    def cut(self) -> None:
        """The two nodes do not hear each other."""
        self.hub.drops = lambda sender, address, packet: sender != address

    def heal(self) -> None:
        self.hub.drops = lambda sender, address, packet: False


def play(scene: Callable[[Pair], Awaitable[None]], **options: Any) -> Pair:
    clock = VirtualClock(1000.0)
    pair = Pair(clock, MemoryHub(), **options)

    async def main() -> None:
        await pair.start()
        await scene(pair)
        for child in reversed(pair.children):
            await child.stop(SHUTDOWN)
        await asyncio.gather(pair.here.stop(), pair.there.stop())
        assert len(asyncio.all_tasks()) == 1

    clock.run(main())
    return pair


@given(st.integers(0, 1 << 32), st.sampled_from([0.0, 0.1, 0.2]))
def test_messages_arrive_once_and_in_order_over_a_carrier_that_loses_packets(seed: int, loss: float) -> None:
    """Sends and asks, concurrent and one after the other; heartbeats get through, so nobody is given up."""
    chance = random.Random(seed)

    async def scene(pair: Pair) -> None:
        child = await pair.add("echo")
        pair.hub.drops = lambda sender, address, packet: len(packet) > 40 and chance.random() < loss
        asks = [asyncio.create_task(pair.here.ask("echo", n)) for n in range(20)]
        await asyncio.sleep(0)
        for n in range(20, 30):
            await pair.here.send("echo", n)
        assert [reply.payload for reply in await asyncio.gather(*asks)] == list(range(20))
        await pair.here.ask("echo", "end")
        assert isinstance(child.agent, Echo)
        assert child.agent.seen == [*range(30), "end"]

    play(scene)


def test_nodes_find_each_other_whichever_starts_first() -> None:
    """And hear of agents that start and stop later."""

    async def scene(pair: Pair) -> None:
        await pair.until(lambda: bool(pair.near.peers and pair.far.peers))
        late = ActorNode(clock=pair.clock, transport=PeerTransport(pair.hub.carrier(), process="late"))
        await late.start()
        await pair.until(lambda: len(pair.near.peers) == 2)
        child = await pair.add("echo")
        await pair.until(lambda: "echo" in late.transport.names())
        peer = next(peer for peer in pair.near.peers.values() if peer.process == "w")
        assert (peer.role, peer.fingerprint, peer.names) == ("worker", "", {"echo"})
        assert [one.role for one in pair.far.peers.values() if not one.process] == ["supervisor"]
        await child.stop(SHUTDOWN)
        await pair.until(lambda: not peer.names)
        with pytest.raises(AgentStopped):
            await late.ask("echo")
        await late.stop()
        assert pair.events == ["joined", "joined", "changed", "changed", "lost"]
        await asyncio.sleep(10 * SILENT)
        assert len(pair.near.peers) == 1

    play(scene)


def test_what_a_lost_node_has_not_confirmed_is_reported() -> None:
    """The ask fails at once, the send is a dead letter, later ones fail at once; back again, the node is found."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo")
        await pair.here.send("echo", "handled")
        await pair.here.ask("echo", {})
        await pair.here.send("echo", {"hang": 3600})
        await pair.here.send("echo", "taken")
        ask = asyncio.create_task(pair.here.ask("echo", {}, timeout=None))
        await asyncio.sleep(0.1)
        pair.cut()
        send = asyncio.create_task(pair.here.send("echo", "on its way"))
        seconds = await pair.until(lambda: not pair.near.peers)
        assert 0.5 * SILENT < seconds <= SILENT + 0.6
        for task in (ask, send):
            with pytest.raises(WorkerLost, match="'w' was lost"):
                await task
        with pytest.raises(WorkerLost):
            await pair.here.ask("echo", timeout=None)
        assert [letter.payload for letter, _ in pair.here.letters] == [{"hang": 3600}, "taken"]
        assert pair.here.letters.counts == {"lost": 2}
        pair.heal()
        await pair.until(lambda: bool(pair.near.peers) and bool(pair.far.peers))
        assert pair.events[-2:] == ["lost", "joined"]
        assert pair.there.health("echo").queued == 0, "reported as lost, and still to be handled"

    play(scene)


def test_a_message_that_was_reported_as_lost_is_not_handled_later() -> None:
    """A network that held it back brings it when its sender has given it up."""

    async def scene(pair: Pair) -> None:
        child = await pair.add("echo")
        held: list[tuple[str, bytes]] = []

        def hold(sender: str, address: str, packet: bytes) -> bool:
            is_cut_off = pair.there.address in (sender, address)  # it does not even hear itself, and loses nobody
            if is_cut_off:
                held.append((address, packet))
            return is_cut_off

        pair.hub.drops = hold
        send = asyncio.create_task(pair.here.send("echo", "late"))
        await pair.until(lambda: not pair.near.peers)
        with pytest.raises(WorkerLost):
            await send
        pair.heal()
        for address, packet in held:
            pair.hub.nodes[address](packet)
        await pair.until(lambda: "echo" in pair.here.transport.names())
        await pair.here.ask("echo", "next")
        assert isinstance(child.agent, Echo)
        assert child.agent.seen == ["next"]

    play(scene)


def test_no_node_is_lost_while_nothing_is_carried_at_all() -> None:
    """The server is away: sends wait, asks fail by their timeout, and then all is as before."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo")
        pair.hub.drops = lambda sender, address, packet: True
        send = asyncio.create_task(pair.here.send("echo", 1))
        with pytest.raises(AskTimedOut):
            await pair.here.ask("echo", 2, timeout=60)
        assert "lost" not in pair.events
        assert not send.done()
        pair.heal()
        await send
        for n in range(8):  # and soon, whenever the server comes back
            pair.hub.drops = lambda sender, address, packet: True
            send = asyncio.create_task(pair.here.send("echo", 1))
            await asyncio.sleep(10 + n / 7)
            pair.heal()
            healed = pair.clock.now()
            await send
            assert pair.clock.now() - healed < SILENT / 5
        assert (await pair.here.ask("echo", 3, timeout=5)).payload == 3

    play(scene)


def test_heartbeats_that_waited_for_a_broker_count_for_none() -> None:
    """ZeroMQ keeps a node's packets while the broker is away, and one node has a connection again before the other."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo")
        held: list[bytes] = []

        def hold(sender: str, address: str, packet: bytes) -> bool:
            if sender == address == pair.here.address:
                held.append(packet)
            return True

        pair.hub.drops = hold
        await asyncio.sleep(10)
        pair.cut()
        for packet in held:
            pair.hub.nodes[pair.here.address](packet)
        await asyncio.sleep(0.5)
        pair.heal()
        assert (await pair.here.ask("echo", 1)).payload == 1
        assert "lost" not in pair.events

    play(scene)


def test_a_node_that_is_heard_but_does_not_hear_is_lost() -> None:
    """It acknowledges nothing."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo")
        pair.hub.drops = lambda sender, address, packet: sender == pair.here.address != address
        with pytest.raises(WorkerLost):
            await pair.here.ask("echo", timeout=None)

    play(scene)


def test_payloads_that_cannot_be_carried_are_errors_where_they_are_sent() -> None:
    """Objects and large ones; of a reply, the handler fails and its asker gets the error."""

    class Odd(Echo):
        async def handle(self, message: Message) -> Message | None:
            return self.reply(object())

    async def scene(pair: Pair) -> None:
        await pair.add("echo")
        await pair.add("odd", Odd)
        for payload in (object(), {"x": b"x" * (1 << 20)}, {"n": 1 << 70}, {"half": "\ud800"}):
            with pytest.raises(PayloadRefused):
                await pair.here.send("echo", payload)
            with pytest.raises(PayloadRefused):
                await pair.here.ask("echo", payload)
        with pytest.raises(AgentCrashed, match="payload is of type object: send plain data"):
            await pair.here.ask("odd")
        assert (await pair.here.ask("echo", [1, {"a": None}])).payload == [1, {"a": None}]

    play(scene)


def test_agents_of_another_plan_are_not_known() -> None:
    """Its node is a peer, so that it can be refused aloud."""

    async def scene(pair: Pair) -> None:
        await AgentChild(ChildSpec(name="echo", factory=lambda: Echo("echo")), pair.there).start(1)
        await pair.until(lambda: any(peer.names for peer in pair.near.peers.values()))
        assert [peer.fingerprint for peer in pair.near.peers.values()] == ["another"]
        with pytest.raises(NoSuchAgent):
            await pair.here.ask("echo")

    play(scene, fingerprint="another")


def test_messages_to_an_agent_that_is_expected_wait_for_it() -> None:
    """In order, however many; or they get the error of the one who knows better."""

    async def scene(pair: Pair) -> None:
        looks: list[str] = []
        again = asyncio.Event()

        async def resolve(name: str) -> None:
            looks.append(name)
            if name != "echo":
                raise AgentStopped(name, "given up")
            await again.wait()

        pair.near.resolve = resolve
        sends = [asyncio.create_task(pair.here.send("echo", n)) for n in range(50)]
        given_up = asyncio.create_task(pair.here.send("echo", "given up"))
        with pytest.raises(AskTimedOut):
            await pair.here.ask("echo", "too late", timeout=1)
        given_up.cancel()
        with pytest.raises(AgentStopped, match="given up"):
            await pair.here.ask("other")
        child = await pair.add("echo")
        await asyncio.gather(*sends)
        await pair.here.ask("echo", "end")
        assert isinstance(child.agent, Echo)
        assert child.agent.seen == [*range(50), "end"]
        assert looks == ["echo", "other"]

    play(scene)


def test_a_message_that_its_sender_gave_up_is_removed() -> None:
    """A cancelled send and an ask that timed out are not handled."""

    async def scene(pair: Pair) -> None:
        child = await pair.add("echo", lambda name: Echo(name, mailbox_size=1))
        await pair.here.send("echo", {"hang": 5})
        await asyncio.sleep(0.1)
        await pair.here.send("echo", "fills it")
        send = asyncio.create_task(pair.here.send("echo", "cancelled"))
        await asyncio.sleep(0.1)
        send.cancel()
        with pytest.raises(AskTimedOut):
            await pair.here.ask("echo", "timed out", timeout=1)
        await pair.here.ask("echo", "end")
        assert isinstance(child.agent, Echo)
        assert child.agent.seen[1:] == ["fills it", "end"]
        assert len(pair.here.letters) == 0

    play(scene)


def test_a_node_that_stops_confirms_what_it_has_handled() -> None:
    """Its goodbye makes no dead letters of it."""

    async def scene(pair: Pair) -> None:
        child = await pair.add("echo")
        await pair.here.send("echo", {"hang": 60})
        for n in range(3):
            await pair.here.send("echo", n)
        await child.stop(SHUTDOWN)
        await pair.there.stop()
        await pair.until(lambda: not pair.near.peers)
        assert (len(pair.there.letters), len(pair.here.letters)) == (4, 0)

    play(scene)


def test_what_waits_for_another_node_ends_with_this_one() -> None:
    """Asks without a timeout and monitors of agents elsewhere: nothing waits for a system that has stopped."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo", lambda name: Echo(name, mailbox_size=1))
        ended: list[Down] = []
        pair.here.monitor("echo", ended.append)
        asks = [asyncio.create_task(pair.here.ask("echo", {"hang": 3600}, timeout=None)) for _ in range(3)]
        await asyncio.sleep(0.1)
        await pair.here.stop()
        async with asyncio.timeout(1):
            errors = await asyncio.gather(*asks, return_exceptions=True)
        assert [type(error) for error in errors] == [AgentStopped] * 3
        assert "the system has stopped" in str(errors[0])
        await asyncio.sleep(0)
        assert [down.name for down in ended] == ["echo"]

    play(scene)


@given(st.lists(st.sampled_from(["send", "carry", "lose", "wait"]), max_size=60))
def test_a_channel_keeps_the_order(steps: list[str]) -> None:
    """Whatever is lost, and whenever something is sent again."""
    near, far = Channel(), Channel()
    now, number = 0.0, 0
    arrived: list[Any] = []

    def carry(source: Channel, target: Channel) -> None:
        while (data := source.next_packet("x", 1, now)) is not None:
            packet = decode(data)
            assert isinstance(packet, Packet)
            assert target.begins_anew(packet) is False
            arrived.extend(frame.number for frame in target.accept(packet, now) if isinstance(frame, CallFrame))

    for step in [*steps, "wait", "carry", "wait", "carry"]:
        match step:
            case "send":
                near.send(encode(CallFrame(number, "", None), "", 1 << 20))
                number += 1
            case "carry":
                carry(near, far)
                carry(far, near)
            case "lose":
                near.next_packet("x", 1, now)
                far.next_packet("x", 1, now)
            case _:
                now += 2.0
                near.resend(now)
    assert arrived == list(range(number))
    assert near.is_idle


def test_a_node_that_is_lost_again_before_it_is_heard_is_not_taken_for_an_old_one() -> None:
    """The epochs that it has used are remembered."""
    first = Channel()
    first.begins_anew(Packet("x", 1, 1, 3, 1, 0, 0, []))
    assert Channel(*Channel(*first.epochs).epochs).begins_anew(Packet("x", 1, 1, 3, 1, 0, 0, [])) is None


def test_a_flood_waits_where_it_comes_from() -> None:
    """The other process holds a mailbox and one window of it."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo", lambda name: Echo(name, mailbox_size=10))
        await pair.here.send("echo", {"hang": 10})
        sends = [asyncio.create_task(pair.here.send("echo", n)) for n in range(3 * WINDOW)]
        await asyncio.sleep(5)
        assert sum(send.done() for send in sends) == 10
        assert pair.there.health("echo").queued == 10 + WINDOW
        await asyncio.gather(*sends)

    play(scene)


def test_an_ask_that_is_answered_at_once_takes_two_frames() -> None:
    """The message and its reply; that it is in its mailbox is reported only if the reply does not say so first."""
    frames: list[str] = []

    async def scene(pair: Pair) -> None:
        def note(sender: str, address: str, data: bytes) -> bool:
            packet = decode(data)
            frames.extend(type(frame).__name__ for frame in getattr(packet, "frames", ()))
            return False

        await pair.add("echo")
        await asyncio.sleep(SILENT)
        pair.hub.drops = note
        await asyncio.gather(*(pair.here.ask("echo", n) for n in range(3)))
        await asyncio.sleep(SILENT)
        assert frames == ["PostFrame"] * 3 + ["ReplyFrame"] * 3

    play(scene)


def test_asks_that_are_answered_later_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their places are free once they are in the mailbox, however many wait for their replies."""
    monkeypatch.setattr(peer_transport, "WINDOW", 2)

    class Later(AgentProcess):
        async def handle(self, message: Message) -> Message | None:
            self.state.setdefault("open", []).append(message)
            if len(self.state["open"]) == 5:
                for one in self.state["open"][:-1]:
                    self.answer(one, len(self.state["open"]))
                return self.reply(5)
            return LATER

    async def scene(pair: Pair) -> None:
        await pair.add("later", Later)
        replies = await asyncio.gather(*(pair.here.ask("later", n) for n in range(5)))
        assert [reply.payload for reply in replies] == [5] * 5

    play(scene)


def test_of_old_heartbeats_no_age_is_known() -> None:
    """A node that runs for months keeps the last ones only."""
    beats, at = Heartbeats(10.0, lambda: at[0]), [0.0]
    for at[0] in range(REMEMBERED + 1):
        beats.next()

    assert (beats.age(REMEMBERED + 1), beats.age(2)) == (0.0, REMEMBERED - 1)
    assert beats.age(1) == beats.age(0) == beats.age(REMEMBERED + 2) == math.inf


def test_requests_between_nodes() -> None:
    """They begin in order; unknown kinds and failures are errors; a lost node fails them."""

    async def scene(pair: Pair) -> None:
        begun: list[int] = []

        async def double(peer: Peer, payload: Any) -> Any:
            begun.append(payload)
            assert peer.address == pair.here.address
            await asyncio.sleep(1 / (payload + 1))
            if payload == 13:
                raise ValueError("unlucky")
            return object() if payload == 12 else payload * 2

        pair.far.serve("double", double)
        await pair.until(lambda: bool(pair.near.peers))
        address = pair.there.address
        asks = [asyncio.create_task(pair.near.request(address, "double", n)) for n in range(5)]
        assert await asyncio.gather(*asks) == [0, 2, 4, 6, 8]
        assert begun == [0, 1, 2, 3, 4]
        for kind, payload, words in (
            ("other", 1, "no handler"),
            ("double", 13, "unlucky"),
            ("double", 12, "unsupported"),
        ):
            with pytest.raises(ActorError, match=words):
                await pair.near.request(address, kind, payload)
        with pytest.raises(AskTimedOut):
            await pair.near.request(address, "double", 0, timeout=0.5)
        with pytest.raises(WorkerLost):
            await pair.near.request("_node.unknown", "double", 0)
        last = asyncio.create_task(pair.near.request(address, "double", 0, timeout=None))
        await asyncio.sleep(0.1)
        pair.cut()
        with pytest.raises(WorkerLost):
            await last
        pair.heal()

    play(scene)


@bundle("packet", [b"", b"\xc1", b"\x93\xa6packet", b"\x92\xa4beat\x01", b"\x91" * 5000])
def test_a_packet_that_cannot_be_read_is_counted(packet: bytes) -> None:
    """And changes nothing."""

    async def scene(pair: Pair) -> None:
        await pair.add("echo")
        pair.hub.nodes[pair.there.address](packet)
        assert pair.far.broken == 1
        assert (await pair.here.ask("echo", 1)).payload == 1

    play(scene)
