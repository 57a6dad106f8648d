"""What is particular to ZeroMQ, NATS and JetStream: systems apart, keys, credentials, durable mailboxes."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from actor_stage import Echo, Held
from free_ports import free_address
from msgspec.structs import replace
from nats_servers import NatsServer

from coterie.actors.child import AgentChild
from coterie.actors.message import Message
from coterie.actors.node import ActorNode
from coterie.actors.process import AgentProcess
from coterie.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.actors.transports import broker, choose
from coterie.actors.transports.base import Carrier
from coterie.actors.transports.broker import PUBLIC, SECRET, Broker, new_key_pair
from coterie.actors.transports.choose import transport_for
from coterie.actors.transports.link import Link
from coterie.actors.transports.names import plain_name
from coterie.errors import AgentStopped, AskTimedOut, CannotStart, ExtraMissing
from coterie.planning.system import TransportPlan

pytest.importorskip("zmq")
pytest.importorskip("nats")

import nats

from coterie.actors.transports import jetstream
from coterie.actors.transports import zmq as zmq_carrier
from coterie.actors.transports.nats import NatsCarrier
from coterie.actors.transports.zmq import ZmqCarrier


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
    one = Broker(plan.pub_addr, plan.sub_addr, keys)
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


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def meet(one: ActorNode, name: str) -> None:
    await until(lambda: name in one.transport.names())


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
            assert isinstance(here.transport, Link)
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
        async with node(Link(carrier(pairs[0]), process="w"), Echo("echo")), node(Link(carrier(pairs[0]))) as here:
            await meet(here, "echo")
            assert (await here.ask("echo", 1, timeout=60)).payload == 1

    async def refused(environment: dict[str, str]) -> None:
        with pytest.raises(CannotStart, match="no broker answers"):
            await ActorNode(transport=Link(carrier(environment, 0.5))).start()

    async def all_refused() -> None:
        await asyncio.gather(refused({}), refused(pairs[1]))

    with brokered(plan, broker.key_pair(pairs[0])):
        play(scene)
        play(all_refused)


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
        await until(lambda: f"no broker answers at {plan.pub_addr} and {plan.sub_addr} yet" in caplog.text)
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
    command = [sys.executable, "-m", "coterie", "zmq-proxy", "-t", str(file)]
    proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    async def scene() -> None:
        nonlocal proxy
        far, near = (transport_for(plan, system="s", process=process) for process in ("w", ""))
        async with node(far, Echo("echo")) as there, node(near) as here:
            await meet(here, "echo")
            proxy.kill()
            proxy.wait()
            sends = [asyncio.create_task(here.send("echo", n)) for n in range(100)]
            await asyncio.sleep(0.2)
            assert not any(send.done() for send in sends)
            proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
            await asyncio.gather(*sends)
            assert (await here.ask("echo", "end", timeout=60)).payload == "end"
            assert there.health("echo").handled == 101

    try:
        play(scene)
    finally:
        proxy.terminate()
        assert proxy.wait(60) == 0


def test_the_credentials_for_nats_come_from_the_environment() -> None:
    """Without them the server refuses, and the error has no secret in it."""

    async def scene() -> None:
        def carrier(timeout: float, **environment: str) -> NatsCarrier:
            given = {f"COTERIE_NATS_{key}": value for key, value in environment.items()}
            return NatsCarrier((one.url,), system="s", timeout=timeout, environment=given)

        async def refused(**environment: str) -> None:
            with pytest.raises(CannotStart, match=r"refuses this process \(.*COTERIE_NATS_USER") as raised:
                await ActorNode(transport=Link(carrier(3.0, **environment))).start()
            assert "wrong-word" not in str(raised.value)

        async with node(Link(carrier(60.0, USER="ada", PASSWORD="lovelace"))):
            pass  # it has connected
        await asyncio.gather(refused(), refused(USER="ada", PASSWORD="wrong-word"))
        with pytest.raises(CannotStart, match="cannot be used"):
            carrier(3.0, CA="/no/such/file.pem")

    with NatsServer("--user", "ada", "--pass", "lovelace", jetstream=False) as one:
        play(scene)


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
            await ActorNode(transport=Link(carrier)).start()

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
        async with node(Link(NatsCarrier((url,), system="s", timeout=60.0, environment=given))):
            pass
        with pytest.raises(CannotStart):
            await ActorNode(transport=Link(NatsCarrier((url,), system="s", timeout=0.5, environment={}))).start()

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


def durable(server: NatsServer, system: str, process: str = "", **fields: Any) -> Link:
    fields = {"heartbeat_timeout": 10.0, "connect_timeout": 60.0} | fields
    plan = TransportPlan(type="nats", servers=(server.url,), jetstream=True, **fields)
    made = transport_for(plan, system=system, process=process)
    assert isinstance(made, Link)
    return made


def test_a_durable_mailbox_takes_messages_while_its_process_is_away(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to its limit, beyond which sends wait; a cancelled one is not handled."""
    monkeypatch.setattr(jetstream, "FULL", 5)

    async def scene() -> None:
        link = durable(server, "away", stream_name="SMALL")
        link.planned = {"echo"}
        async with node(link) as here:
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
            await until(lambda: bool(agent.seen))
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
        beats: Any = {"heartbeat_timeout": 2.0}  # what was on its way to the first is sent again after this time
        async with node(durable(server, "again", **beats)) as here:
            async with node(durable(server, "again", "w", **beats), first):
                await meet(here, "echo")
                await here.send("echo", "held")
                await here.send("echo", "left")
                ask = asyncio.create_task(here.ask("echo", "asked", timeout=30))
                await until(lambda: bool(first.seen))
            with pytest.raises(AgentStopped):
                await ask
            second = Attempts("echo")
            async with node(durable(server, "again", "w", **beats), second):
                await until(lambda: bool(second.seen))
                await meet(here, "echo")
                await here.ask("echo", "end", timeout=60)
                assert [payload for payload, _ in second.seen] == ["left", "end"]

    play(scene)


@pytest.mark.long
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


@pytest.mark.long
def test_a_message_that_crashed_its_agent_is_not_repeated(server: NatsServer) -> None:
    """It is a dead letter, and has left the stream."""

    async def scene() -> None:
        beats: Any = {"heartbeat_timeout": 1.0}
        async with node(durable(server, "boom", "w", **beats)) as there, node(durable(server, "boom", **beats)) as here:
            child = AgentChild(ChildSpec(name="echo", factory=lambda: Attempts("echo")), there)
            await child.start(1)
            await meet(here, "echo")
            await here.send("echo", {"boom": 1})
            await until(lambda: there.letters.counts["crashed"] == 1)
            await child.start(2)
            await asyncio.sleep(1.5)
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
    """One that is there for something else."""

    async def scene() -> None:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        await client.close()
        with pytest.raises(CannotStart, match="choose another stream_name"):
            await ActorNode(transport=durable(server, "s", stream_name="ORDERS")).start()

    play(scene)
