"""A supervised system in Python: declare it or read it from a file, start it, send messages to its agents, stop it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from coterie.agents.actors.declared import Factory, Supervisor, plan_of
from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.plugins.loading import plan_of as plugin_plan
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.system import ActorSystem
from coterie.agents.actors.tree import NodeStatus, draw, planned
from coterie.base.escapes import printable
from coterie.errors import AgentStopped, CannotStart
from coterie.history.journal.records import (
    ActorCrashed,
    CorrectionDropped,
    CorrectionSent,
    LetterDead,
    Record,
    RestartPlanned,
    SupervisorFailed,
)
from coterie.team.planning.system import PluginsPlan, SystemPlan, TransportPlan

_LOG = logging.getLogger("coterie")


class Runtime:
    """A supervised system of agents in this process, and in its workers if the transport has any.

        runtime = Runtime(Supervisor("root", children=[Greeter("greeter")]))
        await runtime.start()
        reply = await runtime.ask("greeter", {"name": "Ada"})
        await runtime.stop()

    `async with runtime:` starts and stops it. The logger `coterie` logs crashes and restarts. With `zmq` and `nats`,
    agents with a process name live in the workers that `coterie run -t FILE -p NAME` starts; FILE must declare the same
    tree.

    Args:
        supervisor: The root of the tree.
        transport: `in_process`, `zmq` or `nats`.
        nats_servers: One URL or several.
        model_provider: The provider for `self.llm`; if there are several, the name of the model selects one.
        tools: The tools for `self.tools`.
        exporters: Receive the spans of the system.
        state_store: Keeps the state of agents; None: in memory.
        entry: The agent that answers for the whole system.

    Attributes:
        plan: The plan of the system, equal to that of the same system in YAML.

    Raises:
        CannotStart: If a value is not allowed.
    """

    plan: SystemPlan

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        transport: str = "in_process",
        zmq_pub_addr: str = "tcp://127.0.0.1:5559",
        zmq_sub_addr: str = "tcp://127.0.0.1:5560",
        zmq_start_proxy: bool = False,
        nats_servers: str | Sequence[str] = "nats://localhost:4222",
        nats_jetstream: bool = False,
        nats_stream_name: str = "AGENCY",
        connect_timeout: float = 5.0,
        heartbeat_timeout: float = 3.0,
        model_provider: Any = None,
        tools: Sequence[Any] = (),
        exporters: Sequence[Any] = (),
        state_store: Any = None,
        entry: str = "",
    ) -> None:
        root, factories = plan_of(supervisor)
        given = {
            "type": transport,
            "pub_addr": zmq_pub_addr,
            "sub_addr": zmq_sub_addr,
            "start_proxy": zmq_start_proxy,
            "servers": nats_servers,
            "jetstream": nats_jetstream,
            "stream_name": nats_stream_name,
            "connect_timeout": connect_timeout,
            "heartbeat_timeout": heartbeat_timeout,
        }
        try:
            carried = msgspec.convert(given, TransportPlan)
        except msgspec.ValidationError as error:
            from coterie.team.formats.yaml.system.typed import value_faults

            faults = value_faults(given, TransportPlan, "the transport")
            raise CannotStart("\n".join(faults) or f"the transport is wrong: {error}") from None
        models = () if model_provider is None else _several(model_provider)
        plugins = PluginsPlan(
            models=tuple(plugin_plan("model", one) for one in models),
            tools=tuple(plugin_plan("tool", one) for one in tools),
            exporters=tuple(plugin_plan("exporter", one) for one in exporters),
            state=None if state_store is None else plugin_plan("state", state_store),
        )
        self._begin(
            SystemPlan(root=root, transport=carried, plugins=plugins, entry=entry),
            factories=factories,
            plugins=lambda: Plugins(models, tools, exporters, state_store),
        )

    @classmethod
    def from_config(cls, path: str | Path, agent_classes: Mapping[str, type] | None = None) -> Self:
        """Read the system that a `topology.yaml` describes.

        Args:
            agent_classes: Classes by the short names that the file uses.

        Raises:
            TopologyError: If the file has errors; it has all diagnostics.
        """
        from coterie.team import formats
        from coterie.team.planning.resolve import plan_or_raise

        plan = plan_or_raise(formats.read(Path(path)).valid()).coordination
        if not isinstance(plan, SystemPlan):
            raise CannotStart(f"{path} describes no supervised system: `coterie run {path}` runs it")
        self = cls.__new__(cls)
        self._begin(plan, classes=agent_classes, folder=str(Path(path).parent))
        return self

    def _begin(
        self,
        plan: SystemPlan,
        *,
        classes: Mapping[str, type] | None = None,
        factories: Mapping[str, Factory] | None = None,
        plugins: Callable[[], Plugins] | None = None,
        folder: str = "",
    ) -> None:
        self.plan, self._plugins = plan, plugins
        self._ports = SystemPorts(sink=_log, classes=classes or {}, factories=factories or {}, folder=folder)
        self._system: ActorSystem | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start all nodes, in order.

        Raises:
            CannotStart, ClassNotFound: If it cannot start; nothing was started.
            Exception: From an `on_start`; everything that had started is stopped, in reverse order.
        """
        if self._system is not None:
            raise CannotStart("the runtime is started already")
        system = ActorSystem(self.plan, msgspec.structs.replace(self._ports, plugins=self._plugins and self._plugins()))
        await system.start()
        self._system = system
        self._watch = asyncio.get_running_loop().create_task(self._stop_when_root_gives_up(system))

    async def stop(self) -> None:
        """Stop all nodes in reverse order, within their shutdown times. Does nothing if it is not started."""
        system, self._system = self._system, None
        if system is not None:
            if self._watch is not None and self._watch is not asyncio.current_task():
                self._watch.cancel()
            await system.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def gave_up(self) -> str:
        """Wait until the root supervisor gives up, which stops the runtime; return the chain of causes."""
        return await self._started.gave_up()

    def ask(
        self, recipient: str, payload: Any = None, message_type: str = "message", *, timeout: float | None = 30.0
    ) -> Awaitable[Message]:
        """Send a message to an agent and return its reply.

        Raises:
            AgentCrashed, AgentStopped, NoSuchAgent: As soon as known, never only after the timeout.
            AskTimedOut: If there is no reply within *timeout* seconds.
        """
        return self._started.ask(recipient, payload, message_type, timeout=timeout)

    def send(
        self, recipient: str, payload: Any = None, message_type: str = "message", *, priority: int = 0
    ) -> Awaitable[None]:
        """Send a message to an agent; wait while its mailbox is full.

        Raises:
            NoSuchAgent, AgentStopped: If there is no such agent, or it has stopped.
        """
        return self._started.send(recipient, payload, message_type, priority=priority)

    async def spawn(self, what: type | str, name: str, into: str | None = None, **config: Any) -> str:
        """Start an agent under the dynamic supervisor *into*, or the first one below the root; return its name.

        Raises:
            SpawnError: If a limit is reached, the type is not allowed, or there is no such supervisor.
        """
        return await self._started.tree.spawn("", what, name, into, config)

    async def stop_agent(self, name: str) -> None:
        """Stop an agent or a supervisor without a restart, regardless of its restart type.

        Raises:
            NoSuchAgent: If there is no node of that name.
        """
        await self._started.tree.stop_agent(name)

    def describe(self) -> list[NodeStatus]:
        """The present status of all nodes, in the order of the tree."""
        return self._started.describe()

    def print_tree(self) -> None:
        """Print the tree; for a started system with spawned agents, restarts, and states other than `running`."""
        statuses = self._system.describe() if self._system else list(planned(self.plan.root))
        print(printable("\n".join(draw(statuses, self.plan.root))))

    @property
    def _started(self) -> ActorSystem:
        if self._system is None:
            todo = "write `async with runtime:` around its use"
            raise AgentStopped(self.plan.root.name, f"the runtime is not started: {todo}")
        return self._system

    async def _stop_when_root_gives_up(self, system: ActorSystem) -> None:
        await system.gave_up()
        await system.stop()


def _several(given: Any) -> Sequence[Any]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _log(record: Record) -> None:
    match record:
        case ActorCrashed():
            _LOG.error("agent %r crashed: %s\n%s", record.name, record.error, record.trace.rstrip())
        case RestartPlanned():
            names = ", ".join(record.names)
            _LOG.info("supervisor %r restarts %s in %g s", record.supervisor, names, record.delay)
        case SupervisorFailed():
            _LOG.error("%s", record.reason)
        case LetterDead():
            what = f"message {record.type}" if record.count == 1 else f"{record.count} messages"
            _LOG.warning("%s to %r not handled: %s", what, record.recipient, record.reason)
        case CorrectionSent():
            _LOG.info("%r corrects %r (%s): %s", record.evaluator, record.agent, record.kind, record.reason)
        case CorrectionDropped():
            _LOG.warning("correction of %r by %r was dropped: %s", record.agent, record.evaluator, record.problem)
        case _:
            pass
