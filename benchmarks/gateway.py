"""A gateway beside bare uvicorn (httptools) that returns the same JSON, each in a process with the same event loop.

The servers take turns in every round; ratios are medians over the rounds, above 1 when the gateway is faster. Clients
are raw sockets in this process: 32 connections that send the next request when they have the response. The gateway
routes, asks an agent and writes its reply.

    pip install -e '.[http]' uvicorn httptools uvloop
    python benchmarks/gateway.py [--rounds 5] [--seconds 2] [--loop uvloop]
"""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

from coterie.agents.actors.declared import HTTPGateway, Supervisor
from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.runtime import Runtime

CONNECTIONS = 32
REPLY = {"id": 7, "text": "hello", "tags": ["a", "b"]}
ROUTES = [
    {"path": "/v1/chat", "agent": "echo", "method": "POST"},
    {"path": "/v1/users/{id}", "agent": "echo", "method": "GET"},
]
JSON = b'content-type: application/json\r\ncontent-length: 16\r\n\r\n{"text":"hello"}'
REQUESTS = {
    "GET": b"GET /v1/users/7 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "POST": b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\n" + JSON,
}


class Echo(AgentProcess):
    """Replies."""

    async def handle(self, message: Message) -> Message:
        return self.reply(REPLY)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Returns the same JSON."""
    body = json.dumps(REPLY).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve_uvicorn(port: int) -> None:
    import uvicorn

    options: dict[str, Any] = {"http": "httptools", "access_log": False, "log_level": "error", "lifespan": "off"}
    await uvicorn.Server(uvicorn.Config(bare, port=port, **options)).serve()


async def serve_gateway(port: int) -> None:
    api = HTTPGateway("api", host="127.0.0.1", port=port, routes=ROUTES)
    async with Runtime(Supervisor("root", children=[Echo("echo"), api])) as runtime:
        await runtime.gave_up()


class Client(asyncio.Protocol):
    """Sends a request, waits for its response, sends the next."""

    done = 0

    def __init__(self, request: bytes) -> None:
        self.request, self.got = request, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, found, body = self.got.partition(b"\r\n\r\n")
        if not found:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) == length:
            Client.done, self.got = Client.done + 1, b""
            self.transport.write(self.request)


async def rate(port: int, request: bytes, seconds: float) -> float:
    """Requests a second."""
    loop = asyncio.get_running_loop()
    clients = [await loop.create_connection(lambda: Client(request), "127.0.0.1", port) for _ in range(CONNECTIONS)]
    await asyncio.sleep(0.3)
    Client.done, began = 0, time.perf_counter()
    await asyncio.sleep(seconds)
    done, took = Client.done, time.perf_counter() - began
    for transport, _ in clients:
        transport.abort()
    return done / took


def run(work: Any, loop: str) -> Any:
    if loop == "uvloop":
        import uvloop

        return uvloop.run(work)
    return asyncio.run(work)


def start(kind: str, loop: str) -> tuple[subprocess.Popen[bytes], int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, __file__, "--serve", kind, "--port", str(port), "--loop", loop])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, port
        except ConnectionRefusedError:
            if server.poll() is not None:
                raise SystemExit(f"{kind} did not start") from None
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("--serve", choices=["uvicorn", "gateway"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        run((serve_gateway if given.serve == "gateway" else serve_uvicorn)(given.port), given.loop)
        return
    servers = {kind: start(kind, given.loop) for kind in ("uvicorn", "gateway")}
    try:
        print(f"| {given.loop} | uvicorn | gateway | ratio | target |\n|---|---|---|---|---|")
        for method, request in REQUESTS.items():
            rates: dict[str, list[float]] = {kind: [] for kind in servers}
            for _ in range(given.rounds):
                for kind, (_, port) in servers.items():
                    rates[kind].append(run(rate(port, request, given.seconds), given.loop))
            ratio = statistics.median(b / a for a, b in zip(*rates.values(), strict=True))
            bare_rate, ours = (statistics.median(each) for each in rates.values())
            print(f"| {method}, requests a second | {bare_rate:,.0f} | {ours:,.0f} | {ratio:.2f} | ≥ 0.4 |")
    finally:
        for server, _ in servers.values():
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
