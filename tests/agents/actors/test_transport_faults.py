"""Every message that is sent between processes is handled or reported, whatever dies: with real processes.

Recovery times are printed: `pytest -s`.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from free_ports import free_address, free_port
from namespaces import Namespace
from nats_servers import NatsServer
from tcp_gate import TcpGate
from until import soon
from wire_worker import Handled, Worker

from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.transports.choose import transport_for
from coterie.errors import ActorError, AskTimedOut, CannotStart, WorkerLost
from coterie.team.planning.system import TransportPlan

pytest.importorskip("nats")
pytest.importorskip("zmq")

FLOOD = int(os.environ.get("FLOOD", "20000"))
"""Messages of a long flood."""
KILLS = ("server", "worker", "both", "both, and the worker waits")
"""What is killed during a flood, and started again; a worker may have to wait for the server."""
SILENT = 5.0
"""The heartbeat timeout of these tests."""

Lost = dict[int, str]


@pytest.fixture(params=["zmq", "nats", "jetstream"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def served(kind: str) -> Iterator[tuple[TransportPlan, NatsServer | None]]:
    """The plan of a transport, and its server if it has one."""
    if kind == "zmq":
        addresses = {"pub_addr": free_address(), "sub_addr": free_address()}
        yield (
            TransportPlan(type="zmq", start_proxy=True, heartbeat_timeout=SILENT, connect_timeout=60.0, **addresses),
            None,
        )
        return
    with NatsServer() as server:
        servers = (server.url,)
        jetstream = kind == "jetstream"
        options: Any = {"jetstream": jetstream, "heartbeat_timeout": SILENT, "connect_timeout": 60.0}
        yield TransportPlan(type="nats", servers=servers, **options), server


class Stage:
    """The sending node, and the process that it sends to."""

    def __init__(self, node: ActorNode, worker: Worker) -> None:
        self.node, self.worker = node, worker
        self.failed: Lost = {}

    async def until(self, met: Callable[[], bool], seconds: float = 60.0) -> float:
        """Seconds until *met*."""
        began = time.monotonic()
        await soon(met, seconds)
        return time.monotonic() - began

    async def meet(self, *names: str) -> None:
        await self.until(lambda: set(names) <= set(self.node.transport.names()))

    async def send(self, name: str, number: int) -> None:
        try:
            await self.node.send(name, {"n": number})
        except ActorError as error:
            self.failed[number] = type(error).__name__

    def numbers(self) -> list[int]:
        return [one.number for one in self.worker.handled()]

    def reported(self) -> set[int]:
        """The numbers of messages that failed or are dead letters."""
        return {*self.failed, *(letter.payload["n"] for letter, _ in self.node.letters)}


@asynccontextmanager
async def stage(
    plan: TransportPlan,
    log: Path,
    agents: dict[str, Any],
    far: TransportPlan | None = None,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Stage]:
    worker = Worker(far or plan, "faults", log, agents, prefix)
    node = ActorNode(transport=transport_for(plan, system="faults"))
    await node.start()
    try:
        await asyncio.to_thread(worker.wait_until_ready)
        one = Stage(node, worker)
        await one.meet(*agents)
        yield one
    finally:
        await node.stop()
        worker.kill()


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 600))  # type: ignore[arg-type]


def twice_only_in_another_attempt(handled: list[Handled]) -> None:
    """A message that was handled again says so."""
    seen: set[int] = set()
    for one in handled:
        assert one.number not in seen or one.attempt > 1, one
        seen.add(one.number)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*(pytest.param(one, marks=pytest.mark.long) for one in ("zmq", "nats")), "jetstream"])
def test_a_worker_killed_with_messages_in_its_mailbox(kind: str, tmp_path: Path) -> None:
    """Each is handled or reported; with JetStream all are handled once the worker is back."""
    count = 400

    async def scene() -> None:
        with served(kind) as (plan, _):
            async with stage(plan, tmp_path / "log", {"sink": {"pause": 0.001}}) as one:
                sends = [asyncio.create_task(one.send("sink", n)) for n in range(count)]
                ask = asyncio.create_task(one.node.ask("sink", {"n": -1}, timeout=60))
                await one.until(lambda: len(one.numbers()) >= count // 4)
                one.worker.kill()
                killed = time.monotonic()
                with pytest.raises(WorkerLost):
                    await ask
                noticed = time.monotonic() - killed
                assert noticed < 55  # by its heartbeats, not by the timeout
                with pytest.raises(WorkerLost):
                    await one.node.ask("sink", {"n": -2}, timeout=60)
                one.worker.start()
                await asyncio.to_thread(one.worker.wait_until_ready)
                await one.meet("sink")
                assert (await one.node.ask("sink", {"n": count}, timeout=60)).payload == {"n": count}
                back = time.monotonic() - killed
                print(f"\n{kind}: the loss was noticed in {noticed:.2f} s, an ask was answered again in {back:.2f} s")
                await asyncio.gather(*sends)
                handled = [each.number for each in one.worker.handled() if 0 <= each.number < count]
                if kind == "jetstream":
                    assert set(handled) == set(range(count))
                    assert one.reported() == set()
                    twice_only_in_another_attempt(one.worker.handled())
                    return
                assert {*handled, *one.reported()} == set(range(count))
                assert len(handled) == len(set(handled))
                assert handled == sorted(handled)
                assert {*handled} & one.reported() <= {*handled[-50:]}, "known to be handled, and reported"

    play(scene)


@pytest.mark.long
def test_a_message_whose_process_died_is_handled_in_another_attempt(tmp_path: Path) -> None:
    """With JetStream; the one after it in its first."""

    async def scene() -> None:
        with served("jetstream") as (plan, _):
            gate = tmp_path / "gate"
            async with stage(plan, tmp_path / "log", {"sink": {"gate": str(gate)}}) as one:
                await one.send("sink", 0)
                await one.send("sink", 1)
                await one.until(Path(f"{gate}.begun").exists)
                one.worker.kill()
                gate.touch()
                killed = time.monotonic()
                one.worker.start()
                await one.until(lambda: len(one.numbers()) == 2)
                print(f"\njetstream: both were handled {time.monotonic() - killed:.2f} s after the kill")
                assert one.worker.handled() == [("sink", 0, 2), ("sink", 1, 1)]

    play(scene)


@pytest.mark.slow
def test_a_message_that_kills_its_process_again_and_again_becomes_a_dead_letter(tmp_path: Path) -> None:
    """The first delivery does not count; what another agent of the process had in hand is handled in the end."""
    from coterie.agents.actors.transports.jetstream import JetStreamTransport
    from coterie.agents.actors.transports.kept_letters import MAX_DELIVER

    async def scene() -> None:
        with served("jetstream") as (plan, _):
            async with stage(plan, tmp_path / "log", {"sink": {}, "other": {"pause": 2.0}}) as one:
                await one.node.send("other", {"n": 7})
                await one.node.send("sink", {"n": 1, "kill": True})
                await one.node.send("sink", {"n": 2})
                for _ in range(MAX_DELIVER + 1):
                    await asyncio.to_thread(one.worker.process.wait)
                    one.worker.kill()
                    one.worker.start()
                    await asyncio.to_thread(one.worker.wait_until_ready)
                await one.until(lambda: {2, 7} <= set(one.numbers()))
                assert [each.attempt for each in one.worker.handled() if each.number == 1] == [1, 2, 3, 4]
                assert len([each for each in one.worker.handled() if each.number in (2, 7)]) == 2
                transport = one.node.transport
                assert isinstance(transport, JetStreamTransport)
                [letter] = await transport._letters.kept()
                assert (letter.message.payload, letter.reason) == (
                    {"n": 1, "kill": True},
                    "3 processes died while they handled it",
                )
                await transport._letters.send_again(
                    msgspec.structs.replace(letter, message=msgspec.structs.replace(letter.message, payload={"n": 3}))
                )
                await one.until(lambda: 3 in one.numbers())
                assert await transport._letters.kept() == []

    play(scene)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["nats", "jetstream"])
def test_the_server_is_killed_under_load_and_started_again(kind: str, tmp_path: Path) -> None:
    """Sends wait, nothing is lost or repeated, and the order stays."""

    async def scene() -> None:
        with served(kind) as (plan, server):
            assert server is not None
            async with stage(plan, tmp_path / "log", {"sink": {}}) as one:
                ended = False
                count = 0

                async def flood() -> None:
                    nonlocal count
                    while not ended:
                        batch = [one.send("sink", n) for n in range(count, count + 20)]
                        count += 20
                        await asyncio.gather(*batch)

                flooding = asyncio.create_task(flood())
                for _ in range(2):
                    before = len(one.numbers())
                    await one.until(lambda before=before: len(one.numbers()) > before + 100)  # type: ignore[misc]
                    server.kill()
                    await asyncio.sleep(1.5 * SILENT)
                    with pytest.raises(AskTimedOut):
                        await one.node.ask("sink", {"n": -1}, timeout=0.2)
                    before = len(one.numbers())
                    server.start()
                    seconds = await one.until(lambda before=before: len(one.numbers()) > before)  # type: ignore[misc]
                    print(f"\n{kind}: messages are handled again {seconds:.2f} s after the start of the server")
                ended = True
                await flooding
                await one.until(lambda: count - 1 in one.numbers())
                handled = [n for n in one.numbers() if n >= 0]
                assert handled == list(range(count))
                assert one.reported() == set()

    play(scene)


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param(0, 1_000, marks=pytest.mark.slow),
        *(pytest.param(seed, FLOOD, marks=pytest.mark.long) for seed in range(1, 11)),
    ],
)
def test_a_flood_while_the_server_and_workers_are_killed(seed: int, count: int, tmp_path: Path) -> None:
    """All messages are handled, none of them twice in its first attempt, and none is reported."""
    dice, kills, order = random.Random(seed), Counter[str](), list[str]()

    async def scene() -> None:
        nonlocal order
        with served("jetstream") as (plan, server):
            assert server is not None
            async with stage(plan, tmp_path / "log", {"sink": {}}) as one:

                async def flood() -> None:
                    for begin in range(0, count, 50):
                        await asyncio.gather(*(one.send("sink", n) for n in range(begin, min(begin + 50, count))))

                flooding, length = asyncio.create_task(flood()), len(f"sink {count} 1\n")
                while one.worker.written() < length * count * 4 // 5:
                    goal = one.worker.written() + length * dice.randrange(count // 12, count // 6)
                    await one.until(lambda goal=goal: one.worker.written() > goal, 600)  # type: ignore[misc]
                    order = order or dice.sample(KILLS, len(KILLS))
                    kills[kind := order.pop()] += 1
                    if kind != "worker":
                        server.kill()
                        await asyncio.sleep(dice.choice([0.0, 1.0, 1.5 * SILENT]))
                    if kind != "server":
                        one.worker.kill()
                    if kind.endswith("waits"):
                        one.worker.start()
                    if kind != "worker":
                        await asyncio.to_thread(server.start)
                    if kind in ("worker", "both"):
                        one.worker.start()
                await flooding
                await one.until(lambda: len({*one.numbers()}) == count, 600)
                handled = one.worker.handled()
                twice_only_in_another_attempt(handled)
                assert [each.number for each in handled if each.attempt == 1] == sorted(
                    {each.number for each in handled if each.attempt == 1}
                )
                assert one.reported() == set()
                print(f"\n{dict(kills)}: {len(handled) - count} of {count} messages were handled again")

    play(scene)


@pytest.mark.parametrize("kind", ["zmq", "nats", "jetstream"])
def test_a_server_that_is_away_at_the_start_is_an_error(kind: str) -> None:
    """Within the connect timeout, with what to do."""
    plan = TransportPlan(
        type="zmq" if kind == "zmq" else "nats",
        servers=(f"nats://user:secret@127.0.0.1:{free_port()}",),
        jetstream=kind == "jetstream",
        pub_addr=free_address(),
        sub_addr=free_address(),
        connect_timeout=0.3,
    )

    async def scene() -> None:
        node = ActorNode(transport=transport_for(plan, system="faults"))
        began = time.monotonic()
        with pytest.raises(CannotStart, match=r"within 0\.3 s") as raised:
            await node.start()
        assert time.monotonic() - began < 30
        assert "secret" not in str(raised.value)

    play(scene)


@pytest.mark.long
def test_a_flood_to_a_slow_agent(kind: str, tmp_path: Path) -> None:
    """20,000 messages arrive once and in order, while another agent of the same process answers."""
    count = 20_000

    async def scene() -> None:
        with served(kind) as (plan, _):
            plan = msgspec.structs.replace(plan, heartbeat_timeout=60.0)  # the flood itself keeps both loops busy
            async with stage(plan, tmp_path / "log", {"slow": {"pause": 0.01, "every": 100}, "free": {}}) as one:
                began = time.monotonic()
                sends = [asyncio.create_task(one.send("slow", n)) for n in range(count)]
                slowest, answered = 0.0, 0
                while not all(send.done() for send in sends):
                    asked = time.monotonic()
                    await one.node.ask("free", {"n": -1}, timeout=300)
                    slowest, answered = max(slowest, time.monotonic() - asked), answered + 1
                    await asyncio.sleep(0.05)
                await one.node.ask("slow", {"n": count}, timeout=300)
                seconds = time.monotonic() - began
                print(
                    f"\n{kind}: {count:,} messages in {seconds:.1f} s; the slowest ask beside them took {slowest:.2f} s"
                )
                handled = [each.number for each in one.worker.handled() if each.agent == "slow"]
                assert handled == list(range(count + 1))
                assert one.reported() == set()
                assert answered > 1  # the first did not wait for all the others

    play(scene)


@pytest.mark.long
@pytest.mark.parametrize("place", ["proxy", "namespace"])
def test_a_partition(kind: str, place: str, tmp_path: Path) -> None:
    """What is between this process and the other stops forwarding; both live on, and meet again."""
    if place == "namespace" and kind == "zmq":
        pytest.skip("without keys a broker binds to loopback only")

    async def scene() -> None:
        with cable(kind, place) as (plan, far, cut, prefix):
            async with stage(plan, tmp_path / "log", {"sink": {"pause": 0.002}}, far, prefix) as one:
                await asyncio.gather(*(one.send("sink", n) for n in range(50)))
                cut.close()
                began = time.monotonic()
                sends = [asyncio.create_task(one.send("sink", n)) for n in range(50, 100)]
                if kind == "jetstream":
                    await one.until(lambda: "sink" not in one.node.transport.names())
                else:
                    await one.until(lambda: len(one.reported()) >= 50)
                lost = time.monotonic() - began
                cut.open()
                healed = time.monotonic()
                await one.meet("sink")
                assert (await one.node.ask("sink", {"n": 100}, timeout=60)).payload == {"n": 100}
                again = time.monotonic() - healed
                print(f"\n{kind}, {place}: noticed in {lost:.2f} s, the nodes met again in {again:.2f} s")
                await asyncio.gather(*sends)
                counts = Counter(one.numbers())
                if kind == "jetstream":
                    assert set(counts) == set(range(101))
                    twice_only_in_another_attempt(one.worker.handled())
                    return
                assert {*counts, *one.reported()} >= set(range(101))
                assert max(counts.values()) == 1
                assert not set(range(50, 100)) & set(counts), "reported, and handled later"

    play(scene)


class Cut(Protocol):
    """What is between the two processes."""

    def close(self) -> None: ...

    def open(self) -> None: ...


@contextmanager
def cable(kind: str, place: str) -> Iterator[tuple[TransportPlan, TransportPlan, Cut, tuple[str, ...]]]:
    """The plan here and there, what separates them, and what runs the other process."""
    if place == "proxy":
        with served(kind) as (plan, _), gated(plan) as (far, gates):
            yield plan, far, gates, ()
        return
    with Namespace() as space, NatsServer(host=space.host) as server:
        jetstream = kind == "jetstream"
        plan = TransportPlan(type="nats", servers=(server.url,), jetstream=jetstream, heartbeat_timeout=SILENT)
        yield plan, plan, space, space.prefix


@pytest.mark.long
def test_a_frozen_worker(tmp_path: Path) -> None:
    """It is lost, and back when it is woken; what was reported is not handled, but for what it had in hand."""

    async def scene() -> None:
        with served("nats") as (plan, _):
            async with stage(plan, tmp_path / "log", {"sink": {"pause": 0.05}}) as one:
                sends = [asyncio.create_task(one.send("sink", n)) for n in range(200)]
                await one.until(lambda: len(one.numbers()) > 3)
                one.worker.process.send_signal(signal.SIGSTOP)
                await one.until(lambda: "sink" not in one.node.transport.names())
                await asyncio.gather(*sends)
                one.worker.process.send_signal(signal.SIGCONT)
                await one.meet("sink")
                assert (await one.node.ask("sink", {"n": 200}, timeout=60)).payload == {"n": 200}
                handled = one.numbers()
                assert {*handled, *one.reported()} == set(range(201))
                assert len(handled) == len(set(handled))
                assert len({*handled} & one.reported()) <= 5

    play(scene)


class Gates(list[TcpGate]):
    """Several gates that are opened and closed together."""

    def close(self) -> None:
        for gate in self:
            gate.close()

    def open(self) -> None:
        for gate in self:
            gate.open()


@contextmanager
def gated(plan: TransportPlan) -> Iterator[tuple[TransportPlan, Gates]]:
    """The same transport behind gates, for the other process."""
    if plan.type == "zmq":
        gates = Gates([TcpGate(plan.pub_addr), TcpGate(plan.sub_addr)])
        far = msgspec.structs.replace(plan, pub_addr=f"tcp://{gates[0].place}", sub_addr=f"tcp://{gates[1].place}")
    else:
        gates = Gates([TcpGate(plan.servers[0])])
        far = msgspec.structs.replace(plan, servers=(f"nats://{gates[0].place}",))
    try:
        yield far, gates
    finally:
        for gate in gates:
            gate.end()
