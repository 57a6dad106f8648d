"""An embedded HTTP server: HTTP/1.1 and HTTP/2 on one port, HTTP/3 on another.

Granian serves TCP: it is the only server measured that speaks both versions on one port at speed. Bare applications,
32 connections, one process, on 2 cores: granian 30,700 requests a second on uvloop and 18,900 on asyncio; uvicorn with
httptools, which has no HTTP/2, 16,900 and 9,800; hypercorn 2,600. Hypercorn serves HTTP/3, which granian does not.

This module owns the sockets, so that a busy port is an error of `start`, and closes connections that are idle: granian
has no limit for a connection that has not sent the beginning of a request. It knows nothing of agents.
"""

import asyncio
import logging
import os
import resource
import socket
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie.errors import CannotStart

_LOG = logging.getLogger("coterie")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
"""An ASGI application."""

BACKLOG = 2048
CROWDED = 0.9
"""Above this share of the allowed connections, the longest idle ones are closed, down to half of the limit."""
SPARE_FILES = 256
"""File descriptors that are reserved for the rest of the process."""
LAST_CHANCE = 1.0
"""Seconds for the server to close connections after their requests were cancelled."""
_SILENT = {"version": 1, "incremental": True, "formatters": {}, "handlers": {}, "loggers": {}}


class TlsFiles(Struct, frozen=True, kw_only=True):
    """The certificate and the key of a server.

    Attributes:
        cert: A PEM file, with intermediate certificates.
        key: A PEM file.
    """

    cert: Path
    key: Path


class ServerLimits(Struct, frozen=True, kw_only=True):
    """The limits of a server for its clients.

    Attributes:
        connections: Open connections; fewer if the process may not open so many files. Further ones wait.
        idle: Seconds after which a connection without a current request is closed.
        head: The largest head of a request, in bytes.
        streams: Parallel requests on one HTTP/2 connection, including those that the client has reset.
    """

    connections: int = 10_000
    idle: float = 30.0
    head: int = 65_536
    streams: int = 100


LIMITS = ServerLimits()


class HttpServer:
    """Serves an ASGI application in the running event loop.

        server = HttpServer(app, "127.0.0.1", 0)
        await server.start()
        print(server.address)
        await server.stop(within=5.0)

    Args:
        port: The TCP port; 0: any free one.
        tls: The TLS files; without them, HTTP/2 is only used with clients that begin with it.
        port_quic: The UDP port of HTTP/3, which needs *tls*; 0: any free one; None: no HTTP/3.

    Attributes:
        address: The bound host and port, once started.
        quic_address: The same for HTTP/3.
    """

    address: tuple[str, int]
    quic_address: tuple[str, int] | None = None

    def __init__(
        self,
        app: App,
        host: str,
        port: int,
        *,
        tls: TlsFiles | None = None,
        port_quic: int | None = None,
        limits: ServerLimits = LIMITS,
    ) -> None:
        self._app, self._host, self._port = app, host, port
        self._tls, self._port_quic, self._limits = tls, port_quic, limits
        self._server: Any = None
        self._parts: list[asyncio.Task[None]] = []
        self._quic: _Quic | None = None
        self._requests: set[asyncio.Task[Any]] = set()
        self._peers: dict[tuple[str, int], _Peer] = {}
        self._alt_svc: list[tuple[bytes, bytes]] = []

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: If the port is busy, or the host is not one of this machine.
            CannotStart: If a library is missing, or a TLS file cannot be used.
        """
        bound = _bind(self._host, self._port, socket.SOCK_STREAM)
        try:
            self._server = _granian(self._serve, bound, self._tls, self._limits)
            if self._port_quic is not None:
                self._quic = _Quic(self._serve_quic, self._host, self._port_quic, self._tls)
                self.quic_address = self._quic.address
                self._alt_svc = [(b"alt-svc", b'h3=":%d"; ma=3600' % self.quic_address[1])]
        except BaseException:
            bound.close()
            raise
        self.address = bound.getsockname()[:2]
        loop = asyncio.get_running_loop()
        self._parts = [loop.create_task(self._server.serve()), loop.create_task(self._close_idle())]
        if self._quic is not None:
            self._parts.append(loop.create_task(self._quic.serve()))

    @property
    def url(self) -> str:
        """The address with its scheme."""
        host, port = self.address
        return f"http{'s' if self._tls is not None else ''}://{f'[{host}]' if ':' in host else host}:{port}"

    async def wait(self) -> None:
        """Wait until a part of the server fails.

        Raises:
            RuntimeError: If it ended without `stop`.
        """
        done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
        if self._server is not None:
            for part in done:
                part.result()
            raise RuntimeError("the HTTP server ended")

    async def stop(self, within: float) -> None:
        """Stop accepting, give requests *within* seconds to end, then cancel them. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        serving, closing_idle, *quic = self._parts
        closing_idle.cancel()
        signals = [worker._sig for worker in server.wrks]
        server.stop()
        with suppress(asyncio.CancelledError):  # cancelled because the shutdown took too long: do the rest at once
            await asyncio.wait([serving, *self._requests], timeout=within)
        for ending in (*self._requests, *quic):
            ending.cancel()
        await asyncio.wait(self._parts, timeout=LAST_CHANCE)
        serving.cancel()
        await _threads_end(signals)

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request to the application; note that its connection is in use."""
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        assert task is not None
        host, port = scope["client"]
        scope["client"] = client = (host, int(port))  # granian has a text
        peer = self._peers.get(client)
        if peer is None:
            peer = self._peers[client] = _Peer(0.0)
        if peer.in_hand >= self._limits.streams:  # the client has reset the others, which are still being handled
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        peer.in_hand += 1
        self._requests.add(task)
        try:
            await self._answer(scope, receive, self._announcing(send) if self._alt_svc else send)
        finally:
            self._requests.discard(task)
            peer.in_hand -= 1
            peer.last = task.get_loop().time()

    async def _serve_quic(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            task = asyncio.current_task()
            assert task is not None
            self._requests.add(task)
            try:
                await self._answer(scope, receive, send)
            finally:
                self._requests.discard(task)

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request to the application; if the shutdown cancels it before a response, answer 503."""
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if self._server is None:
                with suppress(Exception):  # the response has begun, or its connection is closed
                    headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
                    await send({"type": "http.response.start", "status": 503, "headers": headers})
                    await send({"type": "http.response.body", "body": b'{"error":"the system is stopping"}'})
                    return
            raise

    def _announcing(self, send: Send) -> Send:
        """Wrap *send* so that it announces HTTP/3 in the head of a response."""

        async def announce(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._alt_svc]
            await send(message)

        return announce

    async def _close_idle(self) -> None:
        """Close connections without a current request, the longest idle first, at the limit or if there are many."""
        loop, limit, peers, took = asyncio.get_running_loop(), self._limits, self._peers, 0.0
        while True:
            await asyncio.sleep(max(min(limit.idle / 4, 1.0), 20 * took))
            now = loop.time()
            found = {peer: peers.setdefault(peer, _Peer(now)) for peer, _ in _connections(self.address[1])}
            allowed = _connections_allowed(limit)
            spare = len(found) - allowed // 2 if len(found) > CROWDED * allowed else 0
            idle = sorted((one.last, peer) for peer, one in found.items() if not one.in_hand)
            ended = {peer for at, (last, peer) in enumerate(idle) if at < spare or now - last >= limit.idle}
            for peer, connection in _connections(self.address[1]) if ended else ():
                if peer in ended:
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
            for peer in [peer for peer, one in peers.items() if peer not in found and not one.in_hand]:
                del peers[peer]
            took = loop.time() - now


class _Peer:
    """A connection: the number of its current requests, and when it was last in use."""

    __slots__ = ("in_hand", "last")

    def __init__(self, last: float) -> None:
        self.in_hand, self.last = 0, last


def _bind(host: str, port: int, kind: socket.SocketKind) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)
    family, *_, address = min(found, key=lambda one: one[0] == socket.AF_INET6)  # localhost is 127.0.0.1
    bound = socket.socket(family, kind)
    try:
        if kind == socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        if kind == socket.SOCK_STREAM:
            bound.listen(BACKLOG)
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def _connections_allowed(limits: ServerLimits) -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limits.connections if files < 0 else max(min(limits.connections, files - SPARE_FILES), 16)


def _connections(port: int) -> Iterator[tuple[tuple[str, int], socket.socket]]:
    """Yield the connections of this process to its *port*, one after the other, each with its peer.

    Each is a duplicate that is closed before the next one is yielded.
    """
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # closed meanwhile, or not connected
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                is_tcp = one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
                if is_tcp and one.getsockname()[1] == port:
                    yield one.getpeername()[:2], one


def _granian(app: App, bound: socket.socket, tls: TlsFiles | None, limits: ServerLimits) -> Any:
    """A granian server on a bound socket.

    Raises:
        CannotStart: If granian is not installed, or a TLS file cannot be used.
    """
    try:
        from granian import constants, http
    except ImportError as missing:
        raise CannotStart(f"an HTTP server needs granian ({missing}): pip install 'coterie[http]'") from None
    embed: Any = import_module("granian.server.embed")  # not declared as public: pinned in pyproject.toml
    holder: Any = import_module("granian._granian").SocketHolder

    class Embedded(embed.Server):  # type: ignore[misc]
        """A server on a socket that is already bound."""

        def _init_shared_socket(self) -> None:
            self._ssp, self._shd = None, holder(bound.detach(), False, BACKLOG)

    try:
        return Embedded(
            app,
            interface=constants.Interfaces.ASGINL,
            http=constants.HTTPModes.auto,
            websockets=False,
            backlog=BACKLOG,
            backpressure=_connections_allowed(limits),
            http1_settings=http.HTTP1Settings(header_read_timeout=int(limits.idle * 1000), max_buffer_size=limits.head),
            http2_settings=http.HTTP2Settings(max_concurrent_streams=limits.streams, max_headers_size=limits.head),
            log_enabled=False,
            log_dictconfig=_SILENT,  # else it closes the log handlers of the whole process
            ssl_cert=tls and tls.cert,
            ssl_key=tls and tls.key,
            ssl_protocol_min=constants.SSLProtocols.tls12,
        )
    except OSError as error:  # ssl.SSLError is one
        raise CannotStart(f"cannot use the TLS files {tls and tls.cert} and {tls and tls.key}: {error}") from None


async def _threads_end(signals: list[Any]) -> None:
    """Wait until granian's thread for each of *signals* has left Python.

    The thread reports its end to the loop, continues in Python and finally releases its signal. If the interpreter ends
    in between, granian prints a panic.
    """
    alone = object()
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_CHANCE):
            for signal in signals:
                while sys.getrefcount(signal) > sys.getrefcount(alone) + 1:  # the list's  # noqa: ASYNC110
                    await asyncio.sleep(0.001)


class _Quic:
    """HTTP/3, served by hypercorn.

    Raises:
        OSError: If the port is busy.
        CannotStart: If a library is missing, or there are no TLS files.
    """

    def __init__(self, app: App, host: str, port: int, tls: TlsFiles | None) -> None:
        try:
            import_module("aioquic")
            udp: Any = import_module("hypercorn.asyncio.udp_server").UDPServer
            context: Any = import_module("hypercorn.asyncio.worker_context").WorkerContext
            wrapped: Any = import_module("hypercorn.app_wrappers").ASGIWrapper
            config: Any = import_module("hypercorn.config").Config()
        except ImportError as missing:
            raise CannotStart(
                f"HTTP/3 needs hypercorn with aioquic ({missing}): pip install 'coterie[http3]'"
            ) from None
        if tls is None:
            raise CannotStart("HTTP/3 needs TLS: set tls_cert and tls_key")
        config.certfile, config.keyfile = str(tls.cert), str(tls.key)
        config.accesslog = config.errorlog = None
        config.include_server_header = False
        self._bound = _bind(host, port, socket.SOCK_DGRAM)
        self.address: tuple[str, int] = self._bound.getsockname()[:2]
        self._protocol = lambda: udp(wrapped(app), asyncio.get_running_loop(), config, context(None), {})

    async def serve(self) -> None:
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(self._protocol, sock=self._bound)
        try:
            while True:
                try:
                    await protocol.run()
                    return
                except Exception:  # a request that hypercorn cannot read, such as one without a path, ends its run
                    _LOG.exception("HTTP/3: a request could not be read; connections over it begin anew")
        finally:
            transport.close()
