"""What is particular to ZeroMQ, NATS and JetStream: systems apart, keys, credentials, durable mailboxes."""

import asyncio
import contextlib
import re
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from actor_stage import Echo, Held
from bundles import bundle
from free_ports import free_address
from msgspec.structs import replace
from nats_servers import NatsServer
from until import soon
from worker_processes import processes

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.agents.actors.transports import broker, choose
from coterie.agents.actors.transports.base import Carrier
from coterie.agents.actors.transports.broker import PUBLIC, SECRET, Broker, new_key_pair
from coterie.agents.actors.transports.choose import transport_for
from coterie.agents.actors.transports.names import plain_name
from coterie.agents.actors.transports.peer_transport import PeerTransport
from coterie.errors import AgentStopped, AskTimedOut, CannotStart, ExtraMissing
from coterie.team.planning.system import TransportPlan

pytest.importorskip("zmq")
pytest.importorskip("nats")

import nats
from nats.aio.msg import Msg

from coterie.agents.actors.transports import jetstream, wire
from coterie.agents.actors.transports import zmq as zmq_carrier
from coterie.agents.actors.transports.kept_letters import LAST, Mark
from coterie.agents.actors.transports.nats import NatsCarrier
from coterie.agents.actors.transports.zmq import ZmqCarrier


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as one:
        yield one


def zmq_plan(**fields: Any) -> TransportPlan:
    return TransportPlan(
        **{"type": "zmq", "pub_addr": free_address(), "sub_addr": free_address(), "connect_timeout": 60.0} | fields
    )


@contextmanager
def brokered(plan: TransportPlan, keys: tuple[bytes, bytes] | None = None) -> Iterator[None]:
    one = Broker(plan.pub_addr, plan.sub_addr, keys or broker.key_pair({}, plan.pub_addr, plan.sub_addr))
    one.start()
    try:
        yield
    finally:
        one.stop()


@asynccontextmanager
async def node(transport: Any, *agents: AgentProcess) -> AsyncIterator[ActorNode]:
    one = ActorNode(transport=transport)
    await one.start()
    children = [AgentChild(ChildSpec(name=a.name, factory=lambda a=a: a, shutdown=0.1), one) for a in agents]  # type: ignore[misc]
    try:
        for child in children:
            await child.start(1)
        yield one
    finally:
        for child in children:
            await child.stop(SHUTDOWN)
        await one.stop()


async def meet(one: ActorNode, name: str) -> None:
    await soon(lambda: name in one.transport.names())


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 120))  # type: ignore[arg-type]


class Named(Echo):
    """Replies with the name of its system."""

    def __init__(self, system: str) -> None:
        super().__init__("echo")
        self.system = system

    async def handle(self, message: Message) -> Message:
        return self.reply(self.system)


@pytest.mark.parametrize("kind", ["zmq", "nats", "jetstream"])
def test_two_systems_on_one_broker_do_not_mix(kind: str, server: NatsServer) -> None:
    """Agents of the same name answer in their own system only."""
    plan = zmq_plan() if kind == "zmq" else TransportPlan(type="nats", servers=(server.url,), jetstream=kind != "nats")
    systems = ("one", "one.two")

    async def asked(system: str) -> None:
        async with (
            node(transport_for(plan, system=system, process="w"), Named(system)),
            node(transport_for(plan, system=system)) as here,
        ):
            await meet(here, "echo")
            assert {(await here.ask("echo", {}, timeout=60)).payload for _ in range(20)} == {system}
            assert isinstance(here.transport, PeerTransport)
            assert len(here.transport.peers) == 1

    async def scene() -> None:
        await asyncio.gather(*map(asked, systems))

    if kind == "zmq":
        with brokered(plan):
            play(scene)
    else:
        play(scene)


def test_names_stay_different_as_parts_of_subjects() -> None:
    """Whatever characters they have."""
    names = ["a", "a.b", "a=b", "a=2e=b", "a b", "é", "*", ">", "A"]
    plain = [plain_name(name) for name in names]
    assert len(set(plain)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_=-]+", one) for one in plain)


def test_a_broker_with_keys_serves_only_processes_that_have_them() -> None:
    """Without keys, or with others, a process finds no broker."""
    plan = zmq_plan()
    pairs = [{PUBLIC: public, SECRET: secret} for public, secret in (new_key_pair(), new_key_pair())]

    def carrier(environment: dict[str, str], timeout: float = 60.0) -> Carrier:
        return ZmqCarrier(plan.pub_addr, plan.sub_addr, system="s", timeout=timeout, environment=environment)

    async def scene() -> None:
        async with (
            node(PeerTransport(carrier(pairs[0]), process="w"), Echo("echo")),
            node(PeerTransport(carrier(pairs[0]))) as here,
        ):
            await meet(here, "echo")
            assert (await here.ask("echo", 1, timeout=60)).payload == 1

    async def refused(environment: dict[str, str]) -> None:
        with pytest.raises(CannotStart, match="no broker answers"):
            await ActorNode(transport=PeerTransport(carrier(environment, 0.1))).start()

    async def all_refused() -> None:
        await asyncio.gather(refused({}), refused(pairs[1]))

    with brokered(plan, broker.key_pair(pairs[0])):
        play(scene)
        play(all_refused)


def test_processes_of_one_user_have_keys_by_themselves(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Made once, kept in private; another user of the machine, and a process without keys, find no broker."""
    plan = zmq_plan()
    places = (plan.pub_addr, plan.sub_addr)
    other, none = own_home / "other", {PUBLIC: "none", SECRET: "none"}

    async def refused(environment: dict[str, str]) -> None:
        carrier = ZmqCarrier(*places, system="s", timeout=0.5, environment=environment)
        with pytest.raises(CannotStart, match="no broker answers"):
            await ActorNode(transport=PeerTransport(carrier)).start()

    with brokered(plan):
        (file,) = (own_home / "coterie").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert broker.key_pair({}, *places) == broker.key_pair({}, *places) is not None
        play(lambda: meeting(plan))
        assert not caplog.records
        play(lambda: refused(none))
        assert "every user of this machine can read and send its messages" in caplog.text
        monkeypatch.setenv("XDG_STATE_HOME", str(other))
        play(lambda: refused({}))
    assert broker.key_pair({}, "tcp://192.0.2.1:5559", plan.sub_addr) is None  # it needs keys of its own
    (other / "coterie" / broker.OWN_KEYS).unlink()
    (other / "coterie" / broker.OWN_KEYS).mkdir()
    with pytest.raises(CannotStart, match=f"cannot be kept .*: set {PUBLIC}"):
        broker.key_pair({}, *places)


async def meeting(plan: TransportPlan) -> None:
    """Two nodes of one system meet, and one asks the other."""
    worker, supervisor = transport_for(plan, system="s", process="w"), transport_for(plan, system="s")
    async with node(worker, Echo("echo")), node(supervisor) as here:
        await meet(here, "echo")
        assert (await here.ask("echo", 1, timeout=60)).payload == 1


def test_what_the_broker_refuses_at_its_start() -> None:
    """Addresses of other machines without keys, keys that are none, an address that is taken."""
    plan = zmq_plan()
    for address in ("tcp://0.0.0.0:5559", "tcp://*:5559", "tcp://192.0.2.1:5559"):
        with pytest.raises(CannotStart, match=f"without keys: set {PUBLIC}"):
            Broker(address, plan.sub_addr).start()
    with pytest.raises(CannotStart, match="40 characters"):
        broker.key_pair({PUBLIC: "x" * 40})
    for public, secret in ((new_key_pair()[0], new_key_pair()[1]), ("x" * 40, "é" * 40), ("~" * 40, "~" * 40)):
        with pytest.raises(CannotStart, match="are no pair"):
            broker.key_pair({PUBLIC: public, SECRET: secret})
    with brokered(plan), pytest.raises(CannotStart, match=r"Address already in use: another broker or program has it$"):
        Broker(plan.pub_addr, plan.sub_addr).start()


def test_a_worker_waits_for_the_broker_of_its_supervisor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long, since the plan starts it there; it says so."""
    monkeypatch.setattr(zmq_carrier, "UNHEARD", 0.2)
    plan = zmq_plan(start_proxy=True)

    async def scene() -> None:
        worker = ActorNode(transport=transport_for(replace(plan, connect_timeout=0.1), system="s", process="w"))
        starting = asyncio.create_task(worker.start())
        await soon(lambda: f"no broker answers at {plan.pub_addr} and {plan.sub_addr} yet" in caplog.text)
        assert not starting.done()
        async with node(transport_for(plan, system="s"), Echo("echo")):
            await starting
            await meet(worker, "echo")
            assert (await worker.ask("echo", 1)).payload == 1
            await worker.stop()

    play(scene)


def test_the_command_runs_the_broker(tmp_path: Path) -> None:
    """With the addresses of a file; killed and started again, nothing is lost."""
    plan = zmq_plan(heartbeat_timeout=10.0)
    file = tmp_path / "topology.yaml"
    file.write_text(
        f"transport: {{type: zmq, pub_addr: '{plan.pub_addr}', sub_addr: '{plan.sub_addr}'}}\n"
        "supervision: {name: root, children: [{agent: {name: a, type: m.A}}]}\n"
    )

    async def scene(start: Any) -> None:
        proxy = start("zmq-proxy", "-t", str(file))
        far, near = (transport_for(plan, system="s", process=process) for process in ("w", ""))
        async with node(far, Echo("echo")) as there, node(near) as here:
            await meet(here, "echo")
            proxy.send_signal(signal.SIGKILL)
            proxy.wait()
            sends = [asyncio.create_task(here.send("echo", n)) for n in range(100)]
            await asyncio.sleep(0.2)
            assert not any(send.done() for send in sends)
            proxy = start("zmq-proxy", "-t", str(file))
            await asyncio.gather(*sends)
            assert (await here.ask("echo", "end", timeout=60)).payload == "end"
            assert there.health("echo").handled == 101
        proxy.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(proxy.wait) == 0

    with processes(tmp_path) as start:
        play(partial(scene, start))


def test_the_credentials_for_nats_come_from_the_environment(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Without them the server refuses, and the error has no secret in it."""

    async def scene() -> None:
        def carrier(timeout: float, **environment: str) -> NatsCarrier:
            given = {f"COTERIE_NATS_{key}": value for key, value in environment.items()}
            return NatsCarrier((one.url,), system="s", timeout=timeout, environment=given)

        async def refused(**environment: str) -> None:
            with pytest.raises(CannotStart, match=r"refuses this process \(.*COTERIE_NATS_USER") as raised:
                await ActorNode(transport=PeerTransport(carrier(1.0, **environment))).start()
            assert "wrong-word" not in str(raised.value)

        async with node(PeerTransport(carrier(60.0, USER="ada", PASSWORD="lovelace"))):
            pass  # it has connected
        await asyncio.gather(refused(), refused(USER="ada", PASSWORD="wrong-word"))
        with pytest.raises(CannotStart, match="cannot be used"):
            carrier(1.0, CA="/no/such/file.pem")

    with NatsServer("--user", "ada", "--pass", "lovelace", jetstream=False) as one:
        play(scene)
    assert not caplog.records
    play(lambda: meeting(TransportPlan(type="nats", servers=(server.url,), connect_timeout=60.0)))
    assert "asks for no credentials: everyone who reaches it can read and send messages" in caplog.text


def test_a_lost_cancellation_does_not_make_a_start_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library waits in ways that can swallow one."""

    async def connect(*_: object, **__: object) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)
        await asyncio.sleep(600)

    async def scene() -> None:
        carrier = NatsCarrier(("nats://127.0.0.1:1",), system="s", timeout=0.05, environment={})
        monkeypatch.setattr(carrier.client, "connect", connect)
        with pytest.raises(CannotStart, match="no NATS server"):
            await ActorNode(transport=PeerTransport(carrier)).start()

    play(scene)


@pytest.mark.long
def test_nats_with_tls(tmp_path: Path) -> None:
    """The certificate of the server is checked against the given authority."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    try:
        subprocess.run(["openssl", *made.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")

    async def scene() -> None:
        url = one.url.replace("nats:", "tls:")
        given = {"COTERIE_NATS_CA": str(certificate)}
        async with node(PeerTransport(NatsCarrier((url,), system="s", timeout=60.0, environment=given))):
            pass
        with pytest.raises(CannotStart):
            await ActorNode(
                transport=PeerTransport(NatsCarrier((url,), system="s", timeout=0.5, environment={}))
            ).start()

    with NatsServer("--tls", "--tlscert", str(certificate), "--tlskey", str(key), jetstream=False) as one:
        play(scene)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    for module in (choose, broker):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=r"pip install 'coterie\[zmq\]'"):
        transport_for(zmq_plan(), system="s")
    with pytest.raises(ExtraMissing, match=r"pip install 'coterie\[nats\]'"):
        transport_for(TransportPlan(type="nats"), system="s")
    with pytest.raises(ExtraMissing, match=r"pip install 'coterie\[zmq\]'"):
        Broker("tcp://127.0.0.1:1", "tcp://127.0.0.1:2").start()


class Attempts(Held):
    """Remembers payload and attempt."""

    async def handle(self, message: Message) -> Message | None:
        reply = await super().handle(message)
        self.seen[self.seen.index(message.payload)] = (message.payload, message.attempt)
        return reply


def durable(
    server: NatsServer, system: str, process: str = "", redelivery: float = 0.0, **fields: Any
) -> jetstream.JetStreamTransport:
    """A transport whose messages come again after *redelivery* silent seconds, by default the heartbeat timeout."""
    fields = {"heartbeat_timeout": 10.0, "connect_timeout": 60.0} | fields
    plan = TransportPlan(type="nats", servers=(server.url,), jetstream=True, **fields)
    made = transport_for(plan, system=system, process=process)
    assert isinstance(made, jetstream.JetStreamTransport)
    made._wait = redelivery or made._wait
    return made


def test_a_durable_mailbox_takes_messages_while_its_process_is_away(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to its limit, beyond which sends wait; a cancelled one is not handled."""
    monkeypatch.setattr(jetstream, "FULL", 5)

    async def scene() -> None:
        transport = durable(server, "away", stream_name="SMALL")
        transport.planned = {"echo"}
        async with node(transport) as here:
            for n in range(5):
                await asyncio.wait_for(here.send("echo", n), 60)
            sends = [asyncio.create_task(here.send("echo", n)) for n in range(5, 20)]
            await asyncio.sleep(0.3)
            assert not any(send.done() for send in sends)
            sends.pop(7).cancel()
            agent = Attempts("echo")
            async with node(durable(server, "away", "w", stream_name="SMALL"), agent):
                await asyncio.gather(*sends)
                await meet(here, "echo")
                await here.ask("echo", "end", timeout=60)
                assert agent.seen == [*((n, 1) for n in range(20) if n != 12), ("end", 1)]

    play(scene)


def test_a_message_that_is_stored_again_is_one_message(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server had stored it, and its answer was lost."""
    publish, lost = jetstream.JetStreamContext.publish, []

    async def lose_the_first_answer(*given: Any) -> Any:
        answer = await publish(*given)
        if not lost:
            lost.append(answer)
            raise TimeoutError
        return answer

    async def scene() -> None:
        agent = Attempts("echo")
        async with node(durable(server, "stored", "w"), agent), node(durable(server, "stored")) as here:
            await meet(here, "echo")
            monkeypatch.setattr(jetstream.JetStreamContext, "publish", lose_the_first_answer)
            await here.send("echo", 1)
            await here.ask("echo", "end", timeout=60)
            assert agent.seen == [(1, 1), ("end", 1)]

    play(scene)


def test_an_ask_that_timed_out_leaves_the_stream(server: NatsServer) -> None:
    """Its agent was busy, and does not see it later; priority and the state are answered meanwhile."""

    async def scene() -> None:
        agent = Attempts("echo")
        async with node(durable(server, "busy", "w"), agent), node(durable(server, "busy")) as here:
            await meet(here, "echo")
            await here.send("echo", "held")
            await here.send("echo", "queued")
            await soon(lambda: bool(agent.seen))
            with pytest.raises(AskTimedOut):
                await here.ask("echo", "late", timeout=0.2)
            assert (await here.ask("echo", {"__op__": "state"}, timeout=60)).payload == {}
            await here.send("echo", "urgent", priority=1)
            agent.release.set()
            await here.ask("echo", "end", timeout=60)
            assert [payload for payload, _ in agent.seen[1:]] == ["urgent", "queued", "end"]

    play(scene)


def test_a_stopped_agent_leaves_its_messages_in_the_stream(server: NatsServer) -> None:
    """Asks fail; sends are handled by the next process that has the agent."""

    async def scene() -> None:
        first = Attempts("echo")
        async with node(durable(server, "again")) as here:
            async with node(durable(server, "again", "w", redelivery=0.3), first):
                await meet(here, "echo")
                await here.send("echo", "held")
                await here.send("echo", "left")
                ask = asyncio.create_task(here.ask("echo", "asked", timeout=30))
                await soon(lambda: bool(first.seen))
            with pytest.raises(AgentStopped):
                await ask
            second = Attempts("echo")
            async with node(durable(server, "again", "w", redelivery=0.3), second):
                await soon(lambda: bool(second.seen))
                await meet(here, "echo")
                await here.ask("echo", "end", timeout=60)
                assert [payload for payload, _ in second.seen] == ["left", "end"]

    play(scene)


def forged_posts() -> list[bytes]:
    """What everyone who reaches the server may put into a stream, and is no message for `echo`."""
    true = msgspec.msgpack.encode(wire.PostFrame(Message("1", "message", "a", "echo", {"a": "text"})))
    deep = b"\x91" * 100_000
    return [
        *(b"", b"\xc1", true[:-1], true + true, deep, b"\xdd\xff\xff\xff\xff", b"{}"),
        true.replace(b"text", b"\xff\xfe\xff\xfe"),
        true.replace(b"echo", b"\xed\xa0\x80x"),
        true.replace(b"\xa4text", deep + b"\xc0"),
        true.replace(b"echo", b"boss"),
        true.replace(b"post", b"call"),
        true.replace(b"\xa4echo", b"\xc0"),
    ]


def test_a_message_that_cannot_be_read_is_given_up(server: NatsServer) -> None:
    """It is counted and does not come again, whoever forged it; those behind it are handled."""

    async def scene() -> None:
        agent, far = Attempts("echo"), durable(server, "broken", "w", redelivery=0.2)
        async with node(far, agent), node(durable(server, "broken")) as here:
            await meet(here, "echo")
            for data in forged_posts():
                await far._js.publish(far._subject("echo"), data)
            await here.ask("echo", "after", timeout=60)
            while (await far._js.stream_info(far._stream)).state.messages:  # noqa: ASYNC110 - a stream has no event
                await asyncio.sleep(0)
            assert agent.seen == [("after", 1)]
            assert far.broken == len(forged_posts())

    play(scene)


def test_a_message_that_finds_its_agent_stopped_is_for_the_next(server: NatsServer) -> None:
    """Between the stream and the mailbox: a send stays in the stream, with a higher attempt; an ask fails."""

    async def scene() -> None:
        agent = Attempts("echo")
        async with node(durable(server, "gone", "w"), agent) as there, node(durable(server, "gone")) as here:
            await meet(here, "echo")
            receive, refused = there.receive, []

            def receive_later(message: Message) -> Any:
                if message.payload in ("kept", "failed") and message.payload not in refused:
                    refused.append(message.payload)
                    raise AgentStopped("echo", "shutdown")
                return receive(message)

            there.receive = receive_later  # type: ignore[method-assign]
            await here.send("echo", "kept")
            await soon(lambda: agent.seen == [("kept", 2)])
            with pytest.raises(AgentStopped):
                await here.ask("echo", "failed", timeout=30)
            await here.ask("echo", "end", timeout=30)
            assert agent.seen == [("kept", 2), ("end", 1)]

    play(scene)


def test_what_comes_again_since_its_acknowledgement_was_lost_is_not_handled_again(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a send, nor an ask whose asker is gone, which is a dead letter."""
    ack, acked = Msg.ack, []

    async def lose_the_first(self: Msg) -> None:
        acked.append(self.data)
        if acked.count(self.data) == 1:
            raise TimeoutError
        await ack(self)

    async def scene() -> None:
        agent, far = Attempts("echo"), durable(server, "asker", "w", redelivery=0.2)
        async with node(far, agent) as there, node(durable(server, "asker")) as here:
            await meet(here, "echo")
            monkeypatch.setattr(Msg, "ack", lose_the_first)
            ask = Message("1", "message", "x", "echo", "nobody waits", reply_to="_node.gone")
            await far._js.publish(far._subject("echo"), wire.encode(wire.PostFrame(ask), "echo", 1 << 20))
            await here.send("echo", "next")
            await soon(lambda: len(acked) >= 4)
            assert agent.seen == [("next", 1)]
            assert there.letters.counts == {"lost": 1}

    play(scene)


async def forgotten(far: jetstream.JetStreamTransport, name: str) -> None:
    """Let the server forget how far the agent *name* is, as one that is killed may."""
    await far._js.delete_consumer(far._stream, f"{far._system}_{plain_name(name)}")


def test_a_message_that_was_handled_when_its_process_was_cut_off_says_that_it_comes_again(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows neither that it was delivered nor that it was acknowledged: it counts the first delivery."""

    async def lose(self: Msg) -> None:
        raise TimeoutError

    async def scene() -> None:
        first, second, far = Attempts("echo"), Attempts("echo"), durable(server, "cut", "w")
        async with node(durable(server, "cut")) as here:
            async with node(far, first):
                await meet(here, "echo")
                with monkeypatch.context() as patch:
                    patch.setattr(Msg, "ack", lose)
                    await here.send("echo", "handled")
                    await soon(lambda: first.seen == [("handled", 1)])
                    await here.send("echo", "behind")
                    await forgotten(far, "echo")
            async with node(durable(server, "cut", "w"), second):
                await soon(lambda: len(second.seen) == 2)
        assert second.seen == [("handled", 2), ("behind", 1)]

    play(scene)


def test_a_message_that_another_process_has_handled_is_not_handled_again(server: NatsServer) -> None:
    """It is stored a second time; what its process had begun last, and what lies too far back, says so."""

    async def scene() -> None:
        first, second, far = Attempts("echo"), Attempts("echo"), durable(server, "twice", "w")
        ids = [f"id-{n}" for n in range(LAST + 3)]

        async def store(transport: jetstream.JetStreamTransport, id: str) -> None:
            frame = wire.encode(wire.PostFrame(Message(id, "message", "x", "echo", id)), "echo", 1 << 20)
            await transport._js.publish(transport._subject("echo"), frame)

        async with node(far, first):
            for id in ids:
                await store(far, id)
            await soon(lambda: len(first.seen) == len(ids))
            assert {attempt for _, attempt in first.seen} == {1}
        near = durable(server, "twice")
        async with node(near):
            for id in (ids[-1], ids[-2], ids[4], "new"):
                await store(near, id)
            async with node(durable(server, "twice", "w"), second):
                await soon(lambda: ("new", 1) in second.seen)
        assert second.seen == [(ids[-1], 2), ("new", 1)]

    play(scene)


@bundle(
    ("number", "id", "handled", "again"),
    [
        (9, "c", True, True),
        (5, "c", True, True),
        (4, "b", True, True),
        (6, "d", False, True),
        (3, "a", False, True),
        (7, "e", False, False),
    ],
)
def test_a_mark_tells_what_was_handled_and_what_may_have_been(number: int, id: str, handled: bool, again: bool) -> None:
    """The last message was begun; older ones than it remembers may have been handled."""
    mark = Mark("s", 3, ("a",)).after(4, "b").after(5, "c").after(6, "d")
    mark = replace(mark, ids=mark.ids[1:])

    assert (mark.is_handled(id), mark.may_be_handled(number, id)) == (handled, again)
    assert mark.after(8, "d") is mark  # its next process dies, too: it was begun twice, and may not have been handled
    older = mark.after(2, "old")
    assert older.may_be_handled(6, "f")
    assert not older.may_be_handled(7, "e")
    assert len(mark.after(7, "e").ids) == 4
    for n in range(LAST):
        mark = mark.after(n, f"{n}")
    assert len(mark.ids) == LAST


def test_the_mark_of_a_stream_that_was_deleted_does_not_count(server: NatsServer) -> None:
    """The numbers of its successor begin anew."""

    async def scene() -> None:
        first, second = Attempts("echo"), Attempts("echo")
        for agent in first, second:
            far = durable(server, "deleted", "w", stream_name="DELETED")
            async with node(far, agent), node(durable(server, "deleted", stream_name="DELETED")) as here:
                await meet(here, "echo")
                for n in range(3):
                    await here.send("echo", n)
                await here.ask("echo", "end", timeout=60)
                await far._js.delete_stream("DELETED")
        assert first.seen == second.seen == [(0, 1), (1, 1), (2, 1), ("end", 1)]

    play(scene)


def test_the_server_hears_that_a_handler_works(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again within the time after which the message would come again, until it was handled."""
    heard: list[str] = []
    in_progress = Msg.in_progress

    async def listen(self: Msg) -> None:
        heard.append(self.subject)
        await in_progress(self)

    monkeypatch.setattr(Msg, "in_progress", listen)

    async def scene() -> None:
        agent = Attempts("echo")
        async with node(durable(server, "works", "w", redelivery=0.3), agent), node(durable(server, "works")) as here:
            await meet(here, "echo")
            await here.send("echo", "held")
            await soon(lambda: len(heard) > 2)
            agent.release.set()
            await here.ask("echo", "end", timeout=30)
            assert [payload for payload, _ in agent.seen] == ["held", "end"]
        assert {subject.rpartition(".")[2] for subject in heard} == {"echo"}

    play(scene)


@pytest.mark.slow
def test_a_long_handler_is_not_repeated(server: NatsServer) -> None:
    """The server hears that it works."""

    async def scene() -> None:
        agent = Attempts("echo")
        beats: Any = {"heartbeat_timeout": 1.0}
        async with node(durable(server, "long", "w", **beats), agent), node(durable(server, "long", **beats)) as here:
            await meet(here, "echo")
            await here.ask("echo", {"hang": 3}, timeout=60)
            await here.ask("echo", "end", timeout=60)
            assert [attempt for _, attempt in agent.seen] == [1, 1]

    play(scene)


def test_a_message_that_crashed_its_agent_is_not_repeated(server: NatsServer) -> None:
    """It is a dead letter, and has left the stream."""

    async def scene() -> None:
        far = durable(server, "boom", "w", redelivery=0.2)
        async with node(far) as there, node(durable(server, "boom")) as here:
            child = AgentChild(ChildSpec(name="echo", factory=lambda: Attempts("echo")), there)
            await child.start(1)
            await meet(here, "echo")
            await here.send("echo", {"boom": 1})
            await soon(lambda: there.letters.counts["crashed"] == 1)
            await child.start(2)
            await asyncio.sleep(0.3)  # it would have come again
            await here.ask("echo", "end", timeout=60)
            assert isinstance(child.agent, Attempts)
            assert child.agent.seen == [("end", 1)]
            await child.stop(SHUTDOWN)

    play(scene)


def test_a_server_without_jetstream_is_an_error() -> None:
    """With what starts it."""

    async def scene() -> None:
        with pytest.raises(CannotStart, match="nats-server -js"):
            await ActorNode(transport=durable(one, "s")).start()

    with NatsServer(jetstream=False) as one:
        play(scene)


def test_a_stream_that_cannot_be_had_is_an_error(server: NatsServer) -> None:
    """One that is there for something else, also of those in which the marks of agents are kept."""

    async def scene() -> None:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        await client.jetstream().add_stream(name="KV_coterie-BILLS-marks", subjects=["bills.>"])
        await client.close()
        for name in ("ORDERS", "BILLS"):
            with pytest.raises(CannotStart, match=f"cannot keep the stream '{name}': .* choose another stream_name"):
                await ActorNode(transport=durable(server, "s", stream_name=name)).start()

    play(scene)
