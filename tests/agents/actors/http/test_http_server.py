"""The embedded server: versions of HTTP, its sockets, idle connections, the end."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from http_clients import client, close_all, connect, get_over_http3, serving, tls_files, trusting, url
from until import soon

from coterie.agents.actors.http.server import HttpServer, ServerLimits
from coterie.errors import CannotStart


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the version of HTTP; `/hang` never does, `/count` counts the body."""
    body = scope["http_version"].encode()
    if scope["path"] == "/hang":
        await asyncio.Event().wait()
    if scope["path"] == "/count":
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_one_port_speaks_http_1_and_http_2() -> None:
    """A client that begins with HTTP/2 gets it without TLS; others get HTTP/1.1."""

    async def scene() -> None:
        async with serving(app) as server, client() as one, client(http1=False, http2=True) as two:
            assert (await one.get(url(server))).text == "1.1"
            answer = await two.get(url(server))
            assert (answer.http_version, answer.text) == ("HTTP/2", "2")
            assert (await one.post(url(server, "/count"), content=b"x" * 300_000)).text == "300000"
            assert (await two.post(url(server, "/count"), content=b"x" * 300_000)).text == "300000"

    asyncio.run(scene())


@pytest.mark.extras("http3")
def test_http_3_is_served_beside_tls(tmp_path: Path) -> None:
    """TLS has HTTP/2 by ALPN, and its responses name the port of HTTP/3."""
    files = tls_files(tmp_path)

    async def scene() -> None:
        async with serving(app, tls=files, port_quic=0) as server:
            async with client(http2=True, verify=trusting(files)) as one:
                answer = await one.get(url(server, scheme="https"))
            assert answer.http_version == "HTTP/2"
            assert server.quic_address is not None
            port = server.quic_address[1]
            assert answer.headers["alt-svc"] == f'h3=":{port}"; ma=3600'
            status, body = await get_over_http3(port, "/", files)
            assert status == 200
            assert body.startswith(b"3")

    asyncio.run(scene())


@pytest.mark.extras("http3")
def test_a_busy_port_is_an_error_of_start(tmp_path: Path) -> None:
    """Neither TCP nor UDP ports are shared, and a failed start leaves nothing open."""
    files = tls_files(tmp_path)

    async def scene() -> None:
        async with serving(app) as first:
            with pytest.raises(OSError, match="in use"):
                await HttpServer(app, "127.0.0.1", first.address[1]).start()
        with socket.socket(type=socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            second = HttpServer(app, "127.0.0.1", first.address[1], tls=files, port_quic=port)
            with pytest.raises(OSError, match="in use"):
                await second.start()
        third = HttpServer(app, "127.0.0.1", first.address[1])
        await third.start()
        await third.stop(within=1.0)

    asyncio.run(scene())


def test_files_of_tls_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """A start without a certificate says so."""
    files = tls_files(tmp_path)
    files.cert.write_text("no certificate")

    async def scene() -> None:
        with pytest.raises(CannotStart, match=r"cert\.pem"):
            await HttpServer(app, "127.0.0.1", 0, tls=files).start()

    asyncio.run(scene())


def test_a_connection_without_a_request_is_closed() -> None:
    """Whatever part of a request it has sent; one with a request in hand lives on."""

    async def scene() -> None:
        async with serving(app, limits=ServerLimits(idle=0.3)) as server:
            hanging, _ = await connect(server, b"GET /hang HTTP/1.1\r\nhost: x\r\n\r\n")
            parts = (b"", b"P", b"PRI * HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\nhos")
            held = [(sent, await connect(server, sent)) for sent in parts]
            for sent, (reader, _) in held:
                assert await asyncio.wait_for(reader.read(), 60) == b"", sent
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(hanging.read(1), 0.2)

    asyncio.run(scene())


def test_crowding_closes_the_connections_idle_longest() -> None:
    """Clients that hold connections do not keep others out."""

    async def scene() -> None:
        async with serving(app, limits=ServerLimits(idle=1.0, connections=20)) as server:
            held = [await connect(server) for _ in range(40)]
            async with client() as one:
                assert (await one.get(url(server))).text == "1.1"
            assert any(reader.at_eof() for reader, _ in held)

    asyncio.run(scene())


def test_stop_lets_requests_end_then_cancels_them() -> None:
    """The port is free at once, idle connections are closed, and a request that hangs is cut off after the time."""

    async def scene() -> None:
        release, entered, both = asyncio.Event(), [], asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            entered.append(scope["path"])
            if len(entered) == 2:
                both.set()
            await (asyncio.Event() if scope["path"] == "/hang" else release).wait()
            await app({**scope, "path": "/"}, receive, send)

        server = HttpServer(slow, "127.0.0.1", 0)
        await server.start()
        reader, _ = await connect(server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        hanging, _ = await connect(server, b"GET /hang HTTP/1.1\r\nhost: x\r\n\r\n")
        silent, _ = await connect(server)
        await asyncio.wait_for(both.wait(), 60)
        stopping = asyncio.create_task(server.stop(within=0.7))
        await soon(lambda: server._server is None)
        release.set()
        assert b"200 OK" in await reader.read()
        await asyncio.wait_for(stopping, 60)
        cut = await hanging.read()
        assert b"503 Service" in cut
        assert cut.endswith(b'{"error":"the system is stopping"}')
        assert await silent.read() == b""
        with socket.create_server(("127.0.0.1", server.address[1])):
            pass
        await server.stop(within=1.0)
        await close_all()

    asyncio.run(scene())


def test_a_stop_waits_for_the_thread_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an interpreter that ends beside it prints a panic, in the middle of what the process logs."""
    left = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()

        def lingering(callback: Any) -> None:
            asyncio.BaseEventLoop.call_soon_threadsafe(loop, callback)
            time.sleep(0.1)
            left.append(callback)

        async with serving(app) as server, client() as one:
            await one.get(url(server))
            monkeypatch.setattr(loop, "call_soon_threadsafe", lingering)
            await server.stop(1.0)
            assert left

    asyncio.run(scene())
