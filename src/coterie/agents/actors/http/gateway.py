"""An HTTP gateway: requests become messages to agents, and replies become responses.

A client chooses neither the type of a message nor a class: a route names the agent, and the payload is the JSON object
of the body, with the parameters of the query and the path.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from coterie.agents.actors.classes import load_middleware
from coterie.agents.actors.http import openapi
from coterie.agents.actors.http.auth import Check, check_of
from coterie.agents.actors.http.endpoints import HEALTH, PATHS, READY, Metrics, RequestCounts, health, ready
from coterie.agents.actors.http.routes import NoRoute, Router
from coterie.agents.actors.http.server import HttpServer, Receive, Send, TlsFiles
from coterie.agents.actors.http.streams import crashed, cursor, event, event_of, read_cursor
from coterie.agents.actors.message import TURN_FAILED, Asker, Message
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.reply_streams import ReplyRecord, ReplyStreams
from coterie.base.user_code import contained
from coterie.errors import (
    ActorError,
    AgentCrashed,
    AgentStopped,
    AskTimedOut,
    CannotStart,
    NoSuchAgent,
    WorkerLost,
    error_line,
)
from coterie.history.journal.records import ReplyEnded
from coterie.team.planning.system import GatewayPlan
from coterie.team.topology.system.fields import AuthFields, is_loopback

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response

    from coterie.agents.actors.http.body import BodyTooLarge, RequestBody, WhileClientWaits, payload_of
    from coterie.agents.actors.http.responses import NOSNIFF, EventStream, json_response, problem
except ImportError as missing:
    raise CannotStart(f"an http_gateway needs starlette ({missing}): pip install 'coterie[http]'") from None

Next = Callable[[Request], Awaitable[Response]]
Middleware = Callable[[Request, Next], Awaitable[Response]]

_LOG = logging.getLogger("coterie")
OP = "__op__"
"""The key of payloads that the process answers in place of the agent; clients cannot send it."""
UNLIMITED = 30.0
"""Seconds that a gateway with an unlimited shutdown time waits for requests to end."""
MARGIN = 0.5
"""Seconds of the shutdown time that are reserved for closing the server."""
SETTLED = 1.0
"""Seconds to wait for the record of a failed ask from the node of its agent."""

_FAILURES: Mapping[type[Exception], tuple[int, str]] = {
    AskTimedOut: (504, "timeout"),
    AgentCrashed: (502, "crashed"),
    WorkerLost: (502, "lost"),
    AgentStopped: (503, "stopped"),
    NoSuchAgent: (404, "unknown"),
}


class GatewayAgent(AgentProcess):
    """Serves HTTP for the agents of its system, as a child of its tree.

    Args:
        nodes: The nodes of the plan by name, and whether each is an agent; the default routes reach only agents.
        reply_streams: Has the records of streamed replies.
        folder: The folder of the system's file; the paths of TLS files and keys are relative to it.

    Raises:
        ClassNotFound, CannotStart: If a middleware cannot be imported, or is not a coroutine function.
    """

    public = ("host", "port", "port_quic")

    def __init__(
        self,
        plan: GatewayPlan,
        *,
        nodes: Mapping[str, bool],
        reply_streams: ReplyStreams | None = None,
        folder: str = "",
    ) -> None:
        super().__init__(plan.name)
        self._plan, self._config, self._folder = plan, plan.config, Path(folder)
        self._nodes, self._reply_streams = nodes, reply_streams or ReplyStreams()
        self._router = Router(self._config.routes)
        self._respond: Next = self._dispatch
        for path in reversed(self._config.middleware):
            self._respond = _layer(load_middleware(path), self._respond)
        self._check: Check | None = None
        self._in_hand = 0
        self._counts = RequestCounts(plan.name)
        self._metrics = Metrics(lambda: self._counts.collect(self._in_hand))
        self._closing = asyncio.Event()
        self._server: HttpServer | None = None

    async def on_start(self) -> None:
        """Bind the ports; a busy port fails the start."""
        config = self._config
        if config.is_open and config.auth != "none" and not is_loopback(config.bind_host):
            raise CannotStart(f"gateway {self.name!r} on {config.bind_host} needs auth, middleware, or auth: none")
        if isinstance(config.auth, AuthFields):
            self._check = check_of(config.auth, self._folder)
        tls = None
        if config.tls_cert or config.tls_key:
            tls = TlsFiles(cert=self._folder / config.tls_cert, key=self._folder / config.tls_key)
        port_quic = config.port_quic if config.enable_http3 else None
        if config.enable_http3 and (port_quic is None or tls is None):
            raise CannotStart(f"gateway {self.name!r} enables HTTP/3: set port_quic, tls_cert and tls_key")
        server = HttpServer(self._serve, config.bind_host, config.port, tls=tls, port_quic=port_quic)
        try:
            await server.start()
        except OSError as error:
            why = error.strerror or error
            raise CannotStart(f"gateway {self.name!r} cannot bind {config.bind_host}:{config.port}: {why}") from None
        self._server = server
        self.state["host"], self.state["port"] = server.address
        self._served_at = server.url
        self.state["port_quic"] = server.quic_address and server.quic_address[1]
        self.start_task(server.wait())

    async def on_stop(self) -> None:
        """End streams, let other requests end within the shutdown time, then cut them off."""
        self._closing.set()
        if self._server is not None:
            limit = UNLIMITED if self._plan.shutdown is None else self._plan.shutdown
            await self._server.stop(max(limit - MARGIN, 0.0))

    async def handle(self, message: Message) -> Message | None:
        """Reply that a gateway only answers HTTP."""
        return self.reply({"error": f"{self.name} is a gateway: it answers HTTP only"})

    # A request, within its limits

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body, began = RequestBody(scope, receive, self._config.max_body), time.perf_counter()
        request, status = Request(scope, body.receive), 499
        if self._in_hand >= self._config.max_requests and not self._is_operation(request):
            self._counts.add(request, 503, began)
            await body.respond(problem(503, "too many requests in hand", {"retry-after": "1"}), send)
            return
        self._in_hand += 1
        try:
            with WhileClientWaits(body):
                response = await self._answer(request, body)
            status = response.status_code
            await body.respond(response, send)
        except ClientDisconnect:
            if body.is_awaited:  # or the data is not a valid body
                await body.respond(problem(400, "the body was cut off"), send)
        except Exception:
            _LOG.exception("gateway %r: a response failed", self.name)
            raise
        finally:
            self._in_hand -= 1
            self._counts.add(request, status, began)

    async def _answer(self, request: Request, body: RequestBody) -> Response:
        """The response to a request; errors also become responses."""
        limit = self._config.request_timeout
        try:
            if refused := self._refused(request):
                return problem(403, refused)
            if request.scope["path"] in (HEALTH, READY) and self._is_operation(request):
                return health() if request.scope["path"] == HEALTH else ready(self._why_not())
            if self._check is not None and self._documentation(request) is None:
                claims = self._check(request.headers.get("authorization", ""))
                if claims is None:
                    return problem(401, "a valid bearer token is needed", {"www-authenticate": "Bearer"})
                request.state.claims = claims
            with contained():
                async with asyncio.timeout(limit):
                    return await self._respond(request)
        except TimeoutError:
            return problem(408 if body.is_awaited else 504, f"no answer within {limit:g} s")
        except BodyTooLarge:
            return problem(413, f"the body has more than {self._config.max_body} bytes")
        except HTTPException as refused:  # from middleware
            return problem(refused.status_code, refused.detail, refused.headers)
        except ClientDisconnect:
            raise
        except Exception:  # from middleware: its text is not for clients
            _LOG.exception("gateway %r: a request failed", self.name)
            return problem(500, "the gateway failed")

    def _refused(self, request: Request) -> str:
        """Why a request from a page of another site is refused; empty if it is not from one, or a token is required.

        A page can send most methods without a preflight, so the method does not matter. A link from another site to the
        documentation is allowed.
        """
        if self._check is not None:
            return ""
        headers = dict(request.scope["headers"])
        name = headers.get(b"host", b"")
        if self._config.is_open and self._config.auth is None and not _is_here(name):
            return "this gateway has no authentication: it is for this machine only"
        if _is_cross_site(headers, name) and self._documentation(request) is None:
            return "a web page of another site cannot use this gateway without a token: set `auth` in its config"
        return ""

    def _documentation(self, request: Request) -> Response | None:
        """The documentation at the path of a request, unless a route has that path."""
        docs, path = self._config.docs, request.scope["path"]
        if not docs.enabled or not (path == openapi.OPENAPI or path.startswith(docs.path)):
            return None
        try:
            self._router.find(request.method, _raw_path(request))
            return None
        except UnicodeDecodeError:
            return None
        except NoRoute as none:
            if none.allowed or request.method not in ("GET", "HEAD"):
                return None
        if path == openapi.OPENAPI:
            return json_response(openapi.document(self.name, self._config, self._router))
        if path == docs.path:
            headers = {"content-security-policy": openapi.POLICY, **NOSNIFF}
            return Response(openapi.page(self.name, docs.path), 200, headers, "text/html")
        asset = openapi.asset(path.removeprefix(docs.path.rstrip("/") + "/"))
        if asset is None:
            return None
        return Response(asset[0], 200, {"content-encoding": "gzip", "content-type": asset[1], **NOSNIFF})

    def _is_operation(self, request: Request) -> bool:
        """Whether a request is for `/health`, `/ready` or `/metrics`, and no route has that path."""
        if request.scope["path"] not in PATHS or request.method not in ("GET", "HEAD"):
            return False
        try:
            self._router.find(request.method, request.scope["path"])
            return False
        except NoRoute:
            return True

    def _why_not(self) -> str:
        if self._closing.is_set():
            return "stopping"
        return "too many requests in hand" if self._in_hand >= self._config.max_requests else ""

    # Dispatch

    async def _dispatch(self, request: Request) -> Response:
        """The response from an agent, or the documentation."""
        if self._is_operation(request):
            return self._metrics.response(request)
        if (page := self._documentation(request)) is not None:
            return page
        if self._check is not None and not hasattr(request.state, "claims"):  # middleware changed its path
            return problem(401, "a valid bearer token is needed", {"www-authenticate": "Bearer"})
        try:
            route, given = self._router.find(request.method, _raw_path(request))
            query = _query(request.scope["query_string"])
        except NoRoute as none:
            if none.allowed:
                return problem(405, "this path has other methods", {"allow": ", ".join(none.allowed)})
            return problem(404, "there is no such path")
        except UnicodeDecodeError:
            return problem(422, "the path and the query must be UTF-8")
        agent = route.agent or given["name"]
        if not route.agent:
            given = {name: value for name, value in given.items() if name != "name"}
            if not self._nodes.get(agent, True):
                return problem(404, f"there is no agent {agent!r}")
        if route.mode == "state":
            return await self._ask(agent, {OP: "state"})
        headers = dict(request.scope["headers"])
        payload = await payload_of(request, headers, self._config.max_body)
        if isinstance(payload, Response):
            return payload
        payload = {**query, **payload, **given}
        if OP in payload:
            return problem(422, f"{OP!r} is not a key of a payload")
        if route.mode == "cast":
            return await self._cast(agent, payload)
        last = headers[b"last-event-id"].decode("latin-1") if b"last-event-id" in headers else None
        if last is not None and read_cursor(last) is None:
            return problem(422, "Last-Event-ID is not the id of an event of this gateway")
        if b"text/event-stream" in headers.get(b"accept", b""):
            return await self._stream(agent, payload, last)
        return await self._ask(agent, payload)

    async def _ask(self, agent: str, payload: dict[str, Any]) -> Response:
        try:
            reply = await self._child.node.ask(agent, payload, timeout=None, asker=Asker(self.name))
        except ActorError as error:
            return _failure(error)
        if reply.type == TURN_FAILED:
            kind = str(reply.payload.get("kind", "failed"))
            body = {"error": str(reply.payload.get("reason", "")), "kind": kind}
            return json_response(body, 504 if kind == "timeout" else 502)
        try:
            return json_response(reply.payload)
        except ValueError as error:
            return problem(500, str(error))

    async def _cast(self, agent: str, payload: dict[str, Any]) -> Response:
        try:
            await self._child.node.send(agent, payload, "cast", sender=self.name)
        except ActorError as error:
            return _failure(error)
        return json_response({}, 202)

    # Streams

    async def _stream(self, agent: str, payload: dict[str, Any], last: str | None) -> Response:
        """A stream of the reply, from its beginning or after the event *last*."""
        after, ask = read_cursor(last or "") or (0, "")
        if not ask:
            node = self._child.node
            reached = agent in node.registry.entries or agent in node.transport.names()
            if not reached and (agent not in self._nodes or node.registry.stopped(agent) is not None):
                return _failure(node.missing(agent))
            ask = secrets.token_hex(16)
            self._reply_streams.begin(ask, agent)
            self.start_task(self._ask_in_pieces(ask, agent, payload))
        records = await self._reply_streams.follow(ask, agent, after)
        if records is None:
            return problem(404, "there is no such stream: send the request again, without Last-Event-ID")
        return EventStream(self._events(records, cursor(after, ask)))

    async def _events(self, records: AsyncIterator[ReplyRecord | None], at: str) -> AsyncIterator[bytes]:
        """The events of *records*; the first has the cursor *at*, so that a client never asks twice."""
        yield event("open", at, {})
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            while True:
                record = asyncio.ensure_future(anext(records, ...))
                await asyncio.wait({record, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not record.done():
                    record.cancel()
                    return
                if (found := record.result()) is ...:
                    return
                yield event_of(found)
        finally:
            closing.cancel()

    async def _ask_in_pieces(self, ask: str, agent: str, payload: dict[str, Any]) -> None:
        """Ask the agent for a streamed reply; record a failure here if the agent's node does not record it."""
        node, limit = self._child.node, self._config.request_timeout
        asking = asyncio.ensure_future(node.ask(agent, payload, timeout=None, asker=Asker(self.name, stream=ask)))
        status, kind, reason = 503, "stopped", "the gateway has stopped"
        try:
            while not (await asyncio.wait({asking}, timeout=limit - self._reply_streams.silence(ask)))[0]:
                if self._reply_streams.silence(ask) >= limit:
                    raise AskTimedOut(agent, limit)
            asking.result()
            kind = ""
        except Exception as error:  # becomes a record
            status, kind = _FAILURES.get(type(error), (500, "failed"))
            reason = error_line(error) if status == 500 else str(error)
            if kind != "timeout":
                await self._reply_streams.ended(ask, SETTLED)
        finally:
            asking.cancel()
            if kind and not self._reply_streams.has_ended(ask):
                node.sink(ReplyEnded(ask=ask, agent=agent, kind=kind, reason=reason))


@lru_cache(maxsize=64)
def _is_here(host: bytes) -> bool:
    """Whether a host header names this machine, and not another site's name that resolves to it."""
    try:
        return is_loopback(urlsplit(f"//{host.decode('latin-1')}").hostname or "")
    except ValueError:
        return False


def _is_cross_site(headers: Mapping[bytes, bytes], host: bytes) -> bool:
    """Whether a browser sent it for a page of another host than *host* (Fetch Metadata, in older browsers Origin)."""
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return True
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != host


def _layer(middleware: Middleware, inner: Next) -> Next:
    async def run(request: Request) -> Response:
        response = await middleware(request, inner)
        if not callable(response):  # often a missing `return`
            name = getattr(middleware, "__qualname__", repr(middleware))
            raise TypeError(f"the middleware {name} must return a response, not {response!r}")
        return response

    return run


def _query(query: bytes) -> dict[str, Any]:
    """The parameters of a query; a repeated parameter becomes a list."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode(), keep_blank_values=True, errors="strict") if query else ():
        if name in found:
            known = found[name]
            found[name] = [*known, value] if isinstance(known, list) else [known, value]
        else:
            found[name] = value
    return found


def _raw_path(request: Request) -> str:
    raw: bytes = request.scope["raw_path"]
    return raw.partition(b"?")[0].decode()


def _failure(error: ActorError) -> Response:
    status, kind = _FAILURES.get(type(error), (500, "failed"))
    text = crashed(error.agent) if isinstance(error, AgentCrashed) else str(error)
    return json_response({"error": text, "kind": kind}, status, {"retry-after": "1"} if status == 503 else None)
