"""The server of the page in the loop of a test, and a client that has traded its code."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from coterie.execution.runs.repository import LocalRuns
from coterie.interfaces.ui.serve import PageOptions, PageServer

ACTS = {"x-coterie": "1"}


@asynccontextmanager
async def serving(state_dir: Path, **options: Any) -> AsyncIterator[PageServer]:
    """A server for the runs in *state_dir*."""
    server = PageServer([LocalRuns(state_dir)], PageOptions(open=False, **options))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def trade(server: PageServer, client: httpx.AsyncClient) -> str:
    """The secret of the session."""
    code = server.new_address().partition("#code=")[2]
    traded = await client.post("/api/session", json={"code": code}, headers=ACTS)
    return str(traded.json()["secret"])


@asynccontextmanager
async def client_of(server: PageServer) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the secret."""
    async with httpx.AsyncClient(base_url=server.address, timeout=30) as client:
        client.headers["authorization"] = f"Bearer {await trade(server, client)}"
        yield client


@asynccontextmanager
async def events_of(client: httpx.AsyncClient, topics: dict[str, str]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The events of a stream, each with `kind`, `id`, `topic` and `data`."""
    async with client.stream("POST", "/api/stream", json={"topics": topics}, headers=ACTS) as response:
        assert response.status_code == 200, await response.aread()

        async def parsed() -> AsyncIterator[dict[str, Any]]:
            one: dict[str, Any] = {}
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    one["kind"] = value
                elif name == "id":
                    one["id"] = value
                elif name == "data":
                    one |= msgspec.json.decode(value)
                elif not line and one:
                    yield one
                    one = {}

        yield parsed()


async def event(events: AsyncIterator[dict[str, Any]], within: float = 20.0) -> dict[str, Any]:
    """The next event."""
    return await asyncio.wait_for(anext(events), within)
