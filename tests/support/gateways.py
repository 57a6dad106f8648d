"""Systems with a gateway for tests: agents of several manners, and requests to them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from http_clients import client, close_all

from coterie.agents.actors.declared import AgentNode, HTTPGateway, Supervisor
from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.runtime import Runtime


class Echo(AgentProcess):
    """Replies with its payload and the type of the message; `boom` crashes it, `hang` and `hold` make it wait."""

    released: asyncio.Event

    async def handle(self, message: Message) -> Message | None:
        payload = message.payload
        self.state["seen"] = self.state.get("seen", 0) + 1
        await self.checkpoint()
        if "boom" in payload:
            raise ValueError(payload["boom"])
        if "hang" in payload:
            await asyncio.sleep(float(payload["hang"]))
        if "hold" in payload:
            await self.released.wait()
        return self.reply({"payload": payload, "as": message.type, "agent": self.name, "from": message.sender})


class Counter(AgentProcess):
    """Streams `{"n": 1}`, `{"n": 2}` …, *pause* seconds apart, and replies with the number."""

    async def handle(self, message: Message) -> Message | None:
        upto = int(message.payload.get("to", 3))
        for n in range(1, upto + 1):
            await self.stream(
                {"n": n, "pad": "x" * int(message.payload["size"])} if "size" in message.payload else {"n": n}
            )
            if pause := float(message.payload.get("pause", 0)):
                await asyncio.sleep(pause)
        if "boom" in message.payload:
            raise ValueError(message.payload["boom"])
        return self.reply({"counted": upto})


class Odd(AgentProcess):
    """Replies with something that is no JSON; *half*: with half a surrogate pair; *piece*: one in a key of a piece."""

    async def handle(self, message: Message) -> Message | None:
        if "piece" in message.payload:
            await self.stream({"\ud800": 1})
        if "half" in message.payload:
            await self.stream(["\ud800"])
            return self.reply({"value": "\ud800"})
        return self.reply({"value": object()})


class Reached:
    """A running system, and a client of its gateway."""

    def __init__(self, runtime: Runtime, one: httpx.AsyncClient, port: int) -> None:
        self.runtime, self.client, self.port = runtime, one, port

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def post(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.post(path, **options)


AGENTS = (lambda: Echo("echo"), lambda: Counter("counter"), lambda: Odd("odd"))


@asynccontextmanager
async def gateway(
    http2: bool = False, options: Mapping[str, Any] | None = None, **config: Any
) -> AsyncIterator[Reached]:
    """A system of `echo`, `counter` and `odd` with a gateway `api` on a free port."""
    Echo.released = asyncio.Event()
    agents = [AgentNode(make(), shutdown=0.1) for make in AGENTS]
    runtime = Runtime(
        Supervisor("root", backoff_base=0.0, max_restarts=50, children=[*agents, HTTPGateway("api", port=0, **config)])
    )
    async with runtime:
        state = (await runtime.ask("api", {"__op__": "state"})).payload
        async with client(
            base_url=f"http://127.0.0.1:{state['port']}", http1=not http2, http2=http2, **(options or {})
        ) as one:
            try:
                yield Reached(runtime, one, state["port"])
            finally:
                await close_all()


def events(lines: list[str]) -> list[dict[str, str]]:
    """The events of a stream, each as its fields."""
    found: list[dict[str, str]] = [{}]
    for line in lines:
        if not line:
            found.append({})
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[-1][name] = value
    return [one for one in found if one]
