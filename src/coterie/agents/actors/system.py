"""The process of a system's supervisors: its node, supervision tree, state store and plugins, made from a plan."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, assert_never

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.classes import load_class
from coterie.agents.actors.dead_letters import hiding_secrets
from coterie.agents.actors.evaluation import CorrectionLimit, EvalAgent
from coterie.agents.actors.exits import Change, Down, Shutdown
from coterie.agents.actors.hosted import AgentBuilder, Factory, SystemPorts, node_of, spec_of
from coterie.agents.actors.message import Message
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.reply_streams import ReplyStreams
from coterie.agents.actors.supervision.dynamic import DynamicSupervisorActor
from coterie.agents.actors.supervision.policy import Backoff, BackoffKind, RestartLimit, RestartPolicy, RestartStrategy
from coterie.agents.actors.supervision.spec import SHUTDOWN, Supervised
from coterie.agents.actors.supervision.supervisor import SupervisorActor
from coterie.agents.actors.transports.choose import transport_for
from coterie.agents.actors.transports.peer_transport import PeerTransport
from coterie.agents.actors.tree import NodeStatus, SupervisionTree
from coterie.agents.actors.workers.host import WorkerSystem
from coterie.agents.actors.workers.pool import WorkerPool
from coterie.agents.actors.workers.requests import fingerprint, remote_agents
from coterie.errors import CannotStart
from coterie.team.planning.system import (
    ActorPlan,
    ChildPlan,
    DynamicPlan,
    EvalPlan,
    GatewayPlan,
    SupervisorPlan,
    SystemPlan,
    TopologyServerPlan,
    TurnActorPlan,
)


class ActorSystem:
    """A running system: agents under supervisors, which send messages to each other by name.

    With a transport between processes, agents that name a process live in workers, which come and go. All classes used
    here are imported at construction, so nothing has started if one is missing.

    Raises:
        ClassNotFound: If a class cannot be imported.
        PluginError: If a plugin cannot be made.
        CannotStart: If a part of the plan cannot be run.
    """

    def __init__(self, plan: SystemPlan, ports: SystemPorts) -> None:
        self.plan, self._ports = plan, ports
        self.plugins = ports.plugins or Plugins.from_plan(plan.plugins, ports.clock)
        tracer = self.plugins.tracer
        sink = tracer.before(ports.sink) if tracer.exporters else ports.sink
        self._reply_streams = ports.reply_streams or ReplyStreams()
        if ports.reply_streams is None:
            sink = self._reply_streams.numbering(sink)
        sink = hiding_secrets(sink)
        plan_hash = fingerprint(plan.root)
        transport = ports.transport or transport_for(plan.transport, system=plan.root.name, fingerprint=plan_hash)
        self.node = node_of(plan, self.plugins, transport, sink, ports.clock)
        self.tree = self.node.tree = SupervisionTree(self.node, ports.classes)
        self._sink = sink
        self._agents = AgentBuilder(self.node, ports)
        self._pool: WorkerPool | None = None
        if isinstance(transport, PeerTransport):
            self.node.remote_agents = remote_agents(plan.root, "")
            self._pool = WorkerPool(
                self.node,
                transport,
                plan_hash,
                patience=plan.transport.heartbeat_timeout / 5,
                sink=self.node.sink,
                tree=self.tree,
                clock=ports.clock,
            )
        self._names: set[str] = set()
        root = self._supervisor(plan.root, "")
        root.report = self._root_ended
        self.tree.plant(root)
        self._gave_up: asyncio.Future[str]
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start everything in order.

        Raises:
            Exception: From an `on_start`; everything that had started is stopped, in reverse order.
        """
        self._gave_up = asyncio.get_running_loop().create_future()
        self.plugins.check()
        await self.node.start()
        try:
            if self._pool is not None:
                await self._pool.start()
                self._pool.displaced.add_done_callback(self._displaced)
            await self.tree.root.start(1)
        except BaseException:
            await self._close()
            raise

    async def stop(self) -> None:
        """Stop everything in reverse order, within the shutdown times."""
        self.tree.is_stopping = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._stop_all())
        await asyncio.shield(self._closing)

    async def gave_up(self) -> str:
        """Wait until the root supervisor gives up; return the chain of causes, one line each, the innermost last."""
        return await asyncio.shield(self._gave_up)

    def send(
        self, recipient: str, payload: Any = None, message_type: str = "message", *, priority: int = 0
    ) -> Awaitable[None]:
        """Send a message to an agent; see `AgentProcess.send`."""
        return self.node.send(recipient, payload, message_type, priority=priority)

    def ask(
        self, recipient: str, payload: Any = None, message_type: str = "message", *, timeout: float | None = 30.0
    ) -> Awaitable[Message]:
        """Send a message to an agent and return its reply; see `AgentProcess.ask`."""
        return self.node.ask(recipient, payload, message_type, timeout=timeout)

    def describe(self) -> list[NodeStatus]:
        """The present status of all nodes of the tree."""
        return list(self.tree.describe())

    async def _stop_all(self) -> None:
        await self.tree.root.stop(SHUTDOWN)
        await self._close()

    async def _close(self) -> None:
        if self._pool is not None:
            await self._pool.stop()
        await self.node.stop()
        if not self._ports.keep_plugins:
            await self.plugins.close()

    def _root_ended(self, down: Change) -> None:
        lines = down.reason.causes if isinstance(down, Down) and isinstance(down.reason, Shutdown) else ()
        if not self._gave_up.done():
            self._gave_up.set_result("\n".join(lines))

    def _displaced(self, displaced: "asyncio.Future[str]") -> None:
        if not displaced.cancelled() and not self._gave_up.done():
            self._gave_up.set_result(displaced.result())

    # From the plan to the tree

    def _supervisor(self, plan: SupervisorPlan, path: str) -> SupervisorActor:
        self._name(plan.name)
        below = f"{path}/{plan.name}" if path else plan.name
        policy = RestartPolicy(
            strategy=RestartStrategy(plan.strategy),
            limit=RestartLimit(max_restarts=plan.max_restarts, window=plan.restart_window),
            backoff=Backoff(
                kind=BackoffKind(plan.backoff),
                base=plan.backoff_base,
                maximum=plan.backoff_max,
                jitter=plan.backoff_jitter,
            ),
        )
        children = [self._child(child, below) for child in plan.children]
        return SupervisorActor(spec_of(plan), policy, children, sink=self._sink, path=path)

    def _child(self, plan: ChildPlan, path: str) -> Supervised:
        match plan:
            case SupervisorPlan():
                return self._supervisor(plan, path)
            case DynamicPlan():
                self._name(plan.name)
                ended = self.tree.child_ended
                return DynamicSupervisorActor(spec_of(plan), plan, sink=self._sink, path=path, ended=ended)
            case ActorPlan() | TurnActorPlan():
                self._name(plan.name)
                if plan.process and self._pool is not None:
                    return self._pool.child(plan, spec_of(plan))
                return self._agents.build(plan, path)
            case EvalPlan():
                self._name(plan.name)
                return AgentChild(spec_of(plan, self._evaluator(plan)), self.node, path=path)
            case GatewayPlan():
                self._name(plan.name)
                return AgentChild(spec_of(plan, self._gateway(plan)), self.node, path=path)
            case TopologyServerPlan():
                from coterie.agents.actors.http.management import TopologyServerActor  # its libraries are optional

                self._name(plan.name)
                served = partial(TopologyServerActor, plan, self.tree, self.node, self.plan.transport.type)
                return AgentChild(spec_of(plan, served), self.node, path=path)
            case _:
                assert_never(plan)

    def _gateway(self, plan: GatewayPlan) -> Factory:
        from coterie.agents.actors.http.gateway import GatewayAgent  # its libraries are optional

        agents = {node.name: isinstance(node, ActorPlan | TurnActorPlan) for node in self.plan.root.nodes()}
        build = partial(GatewayAgent, plan, nodes=agents, reply_streams=self._reply_streams, folder=self._ports.folder)
        build()  # it imports its middleware
        return build

    def _evaluator(self, plan: EvalPlan) -> Factory:
        """A factory for an eval agent whose incarnations share one limit."""
        path = plan.class_
        cls = (self._ports.classes.get(path) or load_class(path)) if path else EvalAgent
        if not issubclass(cls, EvalAgent):
            raise CannotStart(f"eval agent {plan.name!r}: {path} is not an EvalAgent")
        limit = CorrectionLimit(plan.max_corrections_per_window, plan.window_seconds)
        make = self._ports.factories.get(plan.name) or (lambda: cls(plan.name))

        def build() -> AgentProcess:
            agent = make()
            agent.keep_to(limit)
            return agent

        return build

    def _name(self, name: str) -> None:
        if name in self._names:
            raise CannotStart(f"two nodes are named {name!r}: names are unique in a system")
        self._names.add(name)


def make_system(plan: SystemPlan, ports: SystemPorts) -> ActorSystem | WorkerSystem:
    """Make the part of a system that runs in this process."""
    return WorkerSystem(plan, ports) if plan.process else ActorSystem(plan, ports)
