"""The topology server: shows the running system over HTTP, as JSON and as metrics for Prometheus.

It reads the supervision tree; with a token it can also stop and restart a node. It has no access to messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from coterie.agents.actors.http.auth import bearer_token
from coterie.agents.actors.http.endpoints import HEALTH, METRICS, READY, Metrics, guarded, json_of, ready
from coterie.agents.actors.http.server import App, HttpServer
from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess
from coterie.base.diagnostics import did_you_mean
from coterie.errors import CannotStart, CoterieError, ExtraMissing, error_line
from coterie.team.planning.system import TopologyServerPlan
from coterie.team.topology.system.fields import is_loopback

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as missing:
    raise ExtraMissing("http", missing.name or "starlette", "a topology_server") from None

if TYPE_CHECKING:
    from coterie.agents.actors.node import ActorNode
    from coterie.agents.actors.tree import NodeStatus, SupervisionTree

PATIENCE: Final = 10.0
"""Seconds that a request waits for a node to stop or restart; the operation continues after that."""
LETTERS: Final = 100
"""How many dead letters of an agent are shown."""
_SUPERVISORS = ("supervisor", "dynamic_supervisor")


class TopologyServerActor(AgentProcess):
    """Serves `/health`, `/ready`, `/topology`, `/agents`, `/agents/{name}` and `/metrics`.

    If a token is set, every request except `/health` and `/ready` needs it, and `POST /agents/{name}/stop` and
    `…/restart` are permitted. Without a token, only requests to a name of this machine are answered, so that no web
    page can read it.

    Raises:
        CannotStart: If the token's variable is not set, or a host other than loopback has no token.
    """

    server: HttpServer

    def __init__(self, plan: TopologyServerPlan, tree: "SupervisionTree", node: "ActorNode", transport: str) -> None:
        super().__init__(plan.name)
        self._plan, self._supervision, self._node, self._transport = plan, tree, node, transport
        self._work: set[asyncio.Task[str]] = set()

    async def on_start(self) -> None:
        """Bind and serve; a busy port fails the start."""
        config, name = self._plan.config, self._plan.name
        check = bearer_token(config.token_env) if config.token_env else None
        if check is None and not is_loopback(config.host):
            raise CannotStart(f"topology_server {name!r} binds to {config.host!r}: set token_env")
        self._metrics = Metrics(_SystemMetrics(self._supervision, self._node).collect)
        self.server = HttpServer(guarded(self._app(), check, config.host, (HEALTH, READY)), config.host, config.port)
        try:
            await self.server.start()
        except OSError as error:
            where, why = f"{config.host}:{config.port}", error.strerror or error
            raise CannotStart(f"topology_server {name!r} cannot listen at {where}: {why}") from error
        self._served_at = self.server.url
        self.start_task(self.server.wait())

    async def on_stop(self) -> None:
        """End the current requests and release the port."""
        await self.server.stop(within=1.0)

    async def handle(self, message: Message) -> Message | None:
        """Answer any message with the topology."""
        return self.reply(self._topology())

    def _app(self) -> App:
        routes = [
            Route(HEALTH, self._health),
            Route(READY, self._ready),
            Route("/topology", _answering(self._topology)),
            Route("/agents", _answering(lambda: {"agents": [one for one in self._nodes() if _is_agent(one)]})),
            Route("/agents/{name}", self._agent),
            Route("/agents/{name}/{action}", self._act, methods=["POST"]),
            Route(METRICS, self._expose),
        ]
        return Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})

    def _nodes(self) -> "list[NodeStatus]":
        return list(self._supervision.describe())

    def _topology(self) -> dict[str, Any]:
        """The tree: each node with its state and its children."""
        below: dict[str, list[NodeStatus]] = {}
        for node in self._nodes():
            below.setdefault(node.path, []).append(node)

        def subtree(node: "NodeStatus") -> dict[str, Any]:
            path = f"{node.path}/{node.name}" if node.path else node.name
            seen: dict[str, Any] = msgspec.to_builtins(node)
            if node.kind in _SUPERVISORS:
                seen["children"] = [subtree(child) for child in below.get(path, ())]
            return seen

        return {"transport": self._transport, "root": subtree(below[""][0])}

    async def _health(self, request: Request) -> Response:
        """200 while the root runs (`degraded` if another node does not), else 503. Names of nodes require the token."""
        root, *others = self._nodes()
        failing = [node.name for node in others if node.state != "running"]
        status = "not running" if root.state != "running" else "degraded" if failing else "ok"
        seen = {"status": status} | ({"not_running": failing} if request.state.is_trusted else {})
        return json_of(seen, 503 if status == "not running" else 200)

    async def _ready(self, request: Request) -> Response:
        """200 while every node runs."""
        failing = [node.name for node in self._nodes() if node.state != "running"]
        names = f": {', '.join(failing)}" if request.state.is_trusted else ""
        return ready(f"{len(failing)} nodes do not run{names}" if failing else "")

    async def _agent(self, request: Request) -> Response:
        name = request.path_params["name"]
        node = next((one for one in self._nodes() if one.name == name), None)
        if node is None:
            return self._missing(name)
        dead = [
            {"id": letter.id, "sender": letter.sender, "type": letter.type, "reason": reason}
            for letter, reason in self._node.letters
            if letter.recipient == name
        ]
        return json_of(msgspec.to_builtins(node) | {"dead_letters": dead[-LETTERS:]})

    async def _act(self, request: Request) -> Response:
        """Stop a node for good, or restart it."""
        name, action = request.path_params["name"], request.path_params["action"]
        work = {"stop": self._supervision.stop_agent, "restart": self._supervision.restart_agent}.get(action)
        node = next((one for one in self._nodes() if one.name == name), None)
        if work is None:
            return json_of({"error": f"unknown action {action!r}: stop or restart"}, 404)
        if node is None:
            return self._missing(name)
        if not node.path:
            return json_of({"error": f"{name!r} is the root of the tree: it stops with the system"}, 404)
        task = asyncio.get_running_loop().create_task(_contained(work(name)))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        own = next(one for one in self._nodes() if one.name == self.name)
        if name not in (self.name, *own.path.split("/")):
            await asyncio.wait({task}, timeout=PATIENCE)
        if not task.done():
            return json_of({"name": name, "action": action, "status": "accepted"}, 202)
        if problem := task.result():
            return json_of({"error": problem}, 409)
        state = next((one.state for one in self._nodes() if one.name == name), "stopped")
        return json_of({"name": name, "action": action, "state": state})

    async def _expose(self, request: Request) -> Response:
        return self._metrics.response(request)

    def _missing(self, name: str) -> Response:
        hint = did_you_mean(name, [one.name for one in self._nodes()])
        return json_of({"error": f"there is no node {name!r}" + (f"; {hint}" if hint else "")}, 404)


class _SystemMetrics:
    """The state of a system as metrics, computed for each request."""

    def __init__(self, tree: "SupervisionTree", node: "ActorNode") -> None:
        self._tree, self._node = tree, node

    def collect(self) -> Iterator[Metric]:
        """The present metrics."""
        node = self._node
        states = GaugeMetricFamily(
            "coterie_node_state", "1 for the state that a node is in.", labels=("name", "kind", "state")
        )
        restarts = CounterMetricFamily("coterie_node_restarts", "Restarts of a node.", labels=("name",))
        waiting = GaugeMetricFamily("coterie_agent_mailbox_messages", "Messages that wait.", labels=("agent",))
        handled = CounterMetricFamily("coterie_agent_messages_handled", "Messages handled.", labels=("agent",))
        crashes = CounterMetricFamily("coterie_agent_crashes", "Crashes of an agent.", labels=("agent",))
        letters = CounterMetricFamily("coterie_dead_letters", "Messages that were not handled.", labels=("reason",))
        for one in self._tree.describe():
            states.add_metric((one.name, one.kind, one.state), 1)
            restarts.add_metric((one.name,), one.restarts)
            if _is_agent(one):
                waiting.add_metric((one.name,), one.queued)
                handled.add_metric((one.name,), one.handled)
                crashes.add_metric((one.name,), one.crashes)
        for reason, count in node.letters.counts.items():
            letters.add_metric((reason,), count)
        yield from (states, restarts, waiting, handled, crashes, letters)
        yield CounterMetricFamily("coterie_late_replies", "Replies that nothing waited for any more.", node.late)


def _answering(value: Callable[[], Any]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return json_of(value())

    return answer


async def _unknown(request: Request, error: Any) -> Response:
    return json_of({"error": error.detail}, error.status_code, error.headers)


async def _contained(work: Awaitable[None]) -> str:
    """Run *work*; return why it failed, or an empty text."""
    try:
        await work
    except Exception as error:  # a user's `on_start` may raise anything
        return str(error) if isinstance(error, CoterieError) else error_line(error)
    return ""


def _is_agent(node: "NodeStatus") -> bool:
    return node.kind not in _SUPERVISORS
