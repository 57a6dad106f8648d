"""Actors in one process, beside bare asyncio, in the same run; pykka is measured as a peer if it is installed.

An ask is compared with a round trip over an asyncio.Queue and a Future under `asyncio.timeout`; a send with `put` and
`get` of an unbounded asyncio.Queue, one way, until all are handled. Both sides take turns in every round; ratios are
medians over the rounds, above 1 when actors are faster.

    python benchmarks/actors.py [--rounds 9]
"""

import argparse
import asyncio
import gc
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.supervision.policy import Backoff, RestartLimit, RestartPolicy
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.agents.actors.supervision.supervisor import SupervisorActor

ASKS, SENDS, AGENTS, LISTENERS, CRASHES = 10_000, 50_000, 10_000, 1_000, 300
PAYLOAD = {"n": 1}


class Echo(AgentProcess):
    """Replies."""

    async def handle(self, message: Message) -> Message:
        return self.reply(message.payload)


class Sink(AgentProcess):
    """Counts."""

    count = 0

    async def handle(self, message: Message) -> None:
        self.count += 1


class Driver(AgentProcess):
    """Asks or sends as often as it is told."""

    async def handle(self, message: Message) -> Message:
        what, times = message.payload
        began = time.perf_counter()
        if what == "ask":
            for _ in range(times):
                await self.ask("echo", PAYLOAD)
        else:
            for _ in range(times):
                await self.send("sink", PAYLOAD)
        return self.reply(time.perf_counter() - began)


class Fragile(AgentProcess):
    """Crashes at every message, and notes when it has started."""

    started = asyncio.Event()

    async def on_start(self) -> None:
        Fragile.started.set()

    async def handle(self, message: Message) -> None:
        raise ValueError("as it should")


async def bare_asks(times: int) -> float:
    """Seconds of round trips over a queue and futures."""
    queue: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()

    async def serve() -> None:
        while True:
            payload, answer = await queue.get()
            answer.set_result(payload)

    server = asyncio.create_task(serve())
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    for _ in range(times):
        answer = loop.create_future()
        await queue.put((PAYLOAD, answer))
        async with asyncio.timeout(30):
            await answer
    seconds = time.perf_counter() - began
    server.cancel()
    return seconds


async def bare_sends(times: int) -> float:
    """Seconds of one-way messages over an unbounded queue."""
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def take() -> None:
        for _ in range(times):
            await queue.get()

    taker = asyncio.create_task(take())
    began = time.perf_counter()
    for _ in range(times):
        await queue.put(PAYLOAD)
    await taker
    return time.perf_counter() - began


async def handled(sink: AgentChild, count: int) -> None:
    """Return when *sink* has handled *count* messages."""
    while sink.handled < count:  # noqa: ASYNC110 - an event for it would cost each message
        await asyncio.sleep(0)


async def ratios(rounds: int) -> None:
    node = ActorNode()
    await node.start()
    factories: dict[str, Callable[[], AgentProcess]] = {
        "echo": lambda: Echo("echo"),
        "sink": lambda: Sink("sink", mailbox_size=0),
        "driver": lambda: Driver("driver"),
    }
    agents = {name: AgentChild(ChildSpec(name=name, factory=one), node) for name, one in factories.items()}
    for agent in agents.values():
        await agent.start(1)
    sink = agents["sink"]

    async def asks() -> float:
        began = time.perf_counter()
        for _ in range(ASKS):
            await node.ask("echo", PAYLOAD)
        return time.perf_counter() - began

    async def asks_of_an_agent() -> float:
        return float((await node.ask("driver", ("ask", ASKS), timeout=None)).payload)

    async def sends() -> float:
        wanted = sink.handled + SENDS
        began = time.perf_counter()
        for _ in range(SENDS):
            await node.send("sink", PAYLOAD)
        await handled(sink, wanted)
        return time.perf_counter() - began

    async def sends_of_an_agent() -> float:
        wanted = sink.handled + SENDS
        began = time.perf_counter()
        await node.ask("driver", ("send", SENDS), timeout=None)
        await handled(sink, wanted)
        return time.perf_counter() - began

    rows: list[tuple[str, int, str, Callable[[], Awaitable[float]], Callable[[int], Awaitable[float]]]] = [
        ("ask, from outside", ASKS, "≥ 0.40", asks, bare_asks),
        ("ask, agent to agent", ASKS, "≥ 0.40", asks_of_an_agent, bare_asks),
        ("send, from outside", SENDS, "≥ 0.25", sends, bare_sends),
        ("send, agent to agent", SENDS, "≥ 0.25", sends_of_an_agent, bare_sends),
    ]
    for name, times, target, ours, bare in rows:
        mine, limits = [], []
        for _ in range(rounds):
            gc.collect()
            limits.append(await bare(times) / times)
            mine.append(await ours() / times)
        ratio = statistics.median(limit / own for limit, own in zip(limits, mine, strict=True))
        limit, own = statistics.median(limits) * 1e6, statistics.median(mine) * 1e6
        print(f"| {name} | {limit:.2f} µs | {own:.2f} µs | {ratio:.2f} | {target} |")


async def size() -> None:
    node = ActorNode()
    await node.start()
    names = [f"agent-{n}" for n in range(AGENTS)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    children = [AgentChild(ChildSpec(name=name, factory=lambda name=name: Sink(name)), node) for name in names]  # type: ignore[misc]
    root = SupervisorActor(ChildSpec(name="root"), RestartPolicy(), children)
    await root.start(1)
    gc.collect()
    fresh = (tracemalloc.get_traced_memory()[0] - before) / AGENTS
    for name in names:
        await node.send(name, PAYLOAD)
    await handled(children[-1], 1)
    gc.collect()
    used = (tracemalloc.get_traced_memory()[0] - before) / AGENTS
    tracemalloc.stop()
    sizes = f"{fresh:,.0f} ({used:,.0f} after a message)"
    print(f"| bytes of an idle agent, of {AGENTS:,} under a supervisor | | {sizes} | | ≤ 3,000 |")


async def restart() -> None:
    node = ActorNode()
    await node.start()
    child = AgentChild(ChildSpec(name="fragile", factory=lambda: Fragile("fragile")), node)
    policy = RestartPolicy(limit=RestartLimit(max_restarts=1_000, window=0.001), backoff=Backoff(base=0.0))
    root = SupervisorActor(ChildSpec(name="root"), policy, [child])
    await root.start(1)
    times = []
    for _ in range(CRASHES):
        Fragile.started.clear()
        began = time.perf_counter()
        await node.send("fragile", PAYLOAD)
        await Fragile.started.wait()
        times.append(time.perf_counter() - began)
    await root.stop(SHUTDOWN)
    print(f"| crash to running again, the send included | | {statistics.median(times) * 1e6:.0f} µs | | ≤ 100 µs |")


async def broadcast(rounds: int) -> None:
    node = ActorNode()
    await node.start()
    children = []
    for n in range(LISTENERS):
        name = f"listener.{n}"
        child = AgentChild(ChildSpec(name=name, factory=lambda name=name: Sink(name)), node)  # type: ignore[misc]
        await child.start(1)
        children.append(child)
    times = []
    for done in range(1, rounds + 1):
        began = time.perf_counter()
        await node.broadcast("listener.*", PAYLOAD)
        await handled(children[-1], done)
        times.append(time.perf_counter() - began)
    print(f"| broadcast to {LISTENERS:,}, until all have handled it | | {statistics.median(times) * 1e3:.1f} ms | | |")


def peer(rounds: int) -> None:
    """Asks and sends of pykka, whose actors are threads."""
    if find_spec("pykka") is None:
        print("pykka is not installed: no peer was measured")
        return
    from importlib.metadata import version

    import pykka

    class Server(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            return message

    server = Server.start()
    asks, sends = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(2_000):
            server.ask(PAYLOAD)
        asks.append((time.perf_counter() - began) / 2_000)
        began = time.perf_counter()
        for _ in range(10_000):
            server.tell(PAYLOAD)
        server.ask(PAYLOAD)
        sends.append((time.perf_counter() - began) / 10_000)
    server.stop()
    ask, send = statistics.median(asks) * 1e6, statistics.median(sends) * 1e6
    print(f"pykka {version('pykka')}: ask {ask:.1f} µs, send {send:.1f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print("| what | asyncio | actors | ratio | target |\n|---|---|---|---|---|")
    asyncio.run(ratios(rounds))
    asyncio.run(size())
    asyncio.run(restart())
    asyncio.run(broadcast(rounds))
    peer(rounds)


if __name__ == "__main__":
    main()
