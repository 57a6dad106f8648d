"""`/health`, `/ready` and `/metrics`: the same names for gateways, topology servers and nodes of a cluster."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from coterie.agents.actors.http.auth import Check
from coterie.agents.actors.http.server import App, HttpServer
from coterie.errors import CannotStart, ExtraMissing
from coterie.team.topology.system.fields import is_loopback

try:
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as missing:
    raise ExtraMissing("http", missing.name or "starlette", "/health, /ready and /metrics") from None

HEALTH, READY, METRICS = PATHS = ("/health", "/ready", "/metrics")
ACCESS = logging.getLogger("coterie.access")
"""Logs a line for each request, with its `fields`; lines are only built if its level is INFO."""
_HOST = "127.0.0.1"


class Metrics:
    """The metrics of this process, and those that *collect* computes for each request."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def response(self, request: Request) -> Response:
        """The metrics in the format that the client prefers."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), media_type=content_type)


def health() -> Response:
    """A response with 200, since this process answers."""
    return json_of({"status": "ok"})


def ready(why_not: str) -> Response:
    """A response with 200, or with 503 and the reason why this process takes no further work."""
    return json_of({"ready": not why_not} | ({"reason": why_not} if why_not else {}), 503 if why_not else 200)


def json_of(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """*value* as JSON."""
    return Response(msgspec.json.encode(value, enc_hook=str), status, headers, "application/json")


class RequestCounts:
    """Counts the requests of a gateway by status, and logs each one."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._counts: dict[int, list[float]] = {}

    def add(self, request: Request, status: int, began: float) -> None:
        """Count a request that was answered with *status*; *began* is a reading of `time.perf_counter`."""
        seconds = time.perf_counter() - began
        counted = self._counts.setdefault(status, [0, 0.0])
        counted[0] += 1
        counted[1] += seconds
        if ACCESS.isEnabledFor(logging.INFO):
            client = request.client.host if request.client is not None else ""
            fields: dict[str, Any] = {
                "gateway": self._gateway,
                "client": client,
                "method": request.method,
                "path": request.url.path,
            }
            fields |= {"status": status, "milliseconds": round(seconds * 1000, 3)}
            ACCESS.info("%s %s %d", request.method, request.url.path, status, extra={"fields": fields})

    def collect(self, in_hand: int) -> Iterable[Metric]:
        """The counts as metrics."""
        labels = ("gateway", "status")
        requests = CounterMetricFamily("coterie_gateway_requests", "Requests answered.", labels=labels)
        seconds = CounterMetricFamily("coterie_gateway_request_seconds", "Time to answer requests.", labels=labels)
        for status, (count, took) in self._counts.items():
            requests.add_metric((self._gateway, str(status)), count)
            seconds.add_metric((self._gateway, str(status)), took)
        yield from (requests, seconds)
        yield GaugeMetricFamily("coterie_gateway_requests_in_hand", "Requests not answered yet.", in_hand)


def guarded(app: App, check: Check | None, host: str, free: tuple[str, ...] = (HEALTH,)) -> App:
    """Restrict *app* to clients that pass *check*; without a check, to read requests from this machine.

    Args:
        free: Paths that need no token.
    """

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        knows = check is None or check(request.headers.get("authorization", "")) is not None
        refused: Response | None = None
        if not knows and request.url.path not in free:
            refused = json_of({"error": "a bearer token is required"}, 401, {"www-authenticate": "Bearer"})
        elif check is None and not is_loopback(name := request.url.hostname or "") and name != host:
            refused = json_of({"error": f"the host {name!r} is not a name of this machine"}, 403)
        elif check is None and request.method not in ("GET", "HEAD"):
            refused = json_of({"error": "this server is read-only: set token_env to stop and restart nodes"}, 403)
        request.state.is_trusted = knows
        await (refused or app)(scope, receive, send)

    return guard


class ProbedProcess(Protocol):
    """The state that a process reports.

    Attributes:
        why_not: Why it takes no work; empty if it does.
        turns: Returns the number of running turns.
    """

    why_not: str
    turns: Callable[[], int]


def _node_metrics(status: ProbedProcess) -> Iterable[Metric]:
    yield GaugeMetricFamily("coterie_node_turns_running", "Turns under way on this node.", status.turns())
    yield GaugeMetricFamily("coterie_node_ready", "1 if the node takes work.", int(not status.why_not))


@asynccontextmanager
async def answering(status: ProbedProcess, port: int) -> AsyncIterator[None]:
    """Answer `/health`, `/ready` and `/metrics` at *port* of this machine while the block runs.

    Raises:
        CannotStart: If the port is busy.
    """
    metrics = Metrics(lambda: _node_metrics(status))

    async def answer(request: Request) -> Response:
        match request.url.path:
            case "/health":
                return health()
            case "/ready":
                return ready(status.why_not)
        return metrics.response(request)

    app = Starlette(routes=[Route(path, answer) for path in PATHS])
    server = HttpServer(guarded(app, None, _HOST), _HOST, port)
    try:
        await server.start()
    except OSError as error:
        raise CannotStart(f"--management {port} cannot listen: {error.strerror or error}") from error
    waiting = asyncio.create_task(server.wait())
    try:
        yield
    finally:
        await server.stop(within=1.0)
        waiting.cancel()
