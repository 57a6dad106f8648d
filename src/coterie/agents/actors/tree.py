"""The supervision tree of a system: the supervisor of each node, and spawning of agents into the tree."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, assert_never

from msgspec import Struct

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.classes import load_class
from coterie.agents.actors.evaluation import EvalAgent
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.message import IN_HAND, TERMINATED
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.supervision.dynamic import DynamicSupervisorActor
from coterie.agents.actors.supervision.entries import ChildEntry
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.agents.actors.supervision.supervisor import SupervisorActor
from coterie.errors import NoSuchAgent, SpawnError
from coterie.team.planning.system import (
    ActorPlan,
    ChildPlan,
    DynamicPlan,
    EvalPlan,
    GatewayPlan,
    SupervisorPlan,
    TopologyServerPlan,
    TurnActorPlan,
)
from coterie.team.topology.system.fields import NAME

HALT_AGAIN = 0.05
"""Seconds until a halt is retried while its supervisor is restarting."""


class NodeStatus(Struct, frozen=True, kw_only=True):
    """The status of one node of a running tree, as plain data.

    Attributes:
        kind: `agent`, `supervisor`, or another kind of node, as written in a file.
        path: The names of the supervisors above it, from the root, joined with `/`.
        type: The class of an agent.
        state: `starting`, `running`, `waiting` (for a restart), `absent` (there is no worker for it), `stopping` or
            `stopped`.
        restarts: Its restarts in its supervisor's lifetime.
        queued: Messages in its mailbox.
        handled: Messages handled by all incarnations.
        crashes: How often it crashed.
        last_message: When it took its latest message, in Unix seconds; 0: never.
        error: Why it last ended, in one line.
    """

    name: str
    kind: str
    path: str
    state: str
    type: str = ""
    restarts: int = 0
    queued: int = 0
    handled: int = 0
    crashes: int = 0
    last_message: float = 0.0
    error: str = ""


class SupervisionTree:
    """Knows the supervisor of every node by name, and spawns and stops agents.

    Args:
        classes: Classes by short name, which may be spawned by name everywhere.
    """

    def __init__(self, node: ActorNode, classes: Mapping[str, type] | None = None) -> None:
        self._node = node
        self._classes = classes or {}
        self._above: dict[str, SupervisorActor] = {}
        self._halts: set[asyncio.Task[None]] = set()
        self.root: SupervisorActor
        self.is_stopping = False

    def plant(self, root: SupervisorActor) -> None:
        """Add the whole tree below *root*, before its start."""
        self.root = root
        for supervisor, entry in root.walk():
            self._above[entry.name] = supervisor

    # What agents do

    async def spawn(
        self, parent: str, what: type | str, name: str, into: str | None = None, config: Mapping[str, Any] | None = None
    ) -> str:
        """Start an agent under the dynamic supervisor *into*, or the nearest one to *parent*; return its name.

        Raises:
            SpawnError: If a limit is reached, the type is not allowed, or there is no such supervisor.
            Exception: From its constructor or its `on_start`.
        """
        supervisor = self._nearest(parent, name) if into is None else self._dynamic(into, name)
        cls = self._class(what, name, supervisor)
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise SpawnError(str(name), f"cannot spawn {name!r}: a name has letters, digits, _, - and .")
        if name == self.root.name or name in self._above:
            raise SpawnError(name, f"cannot spawn {name!r}: there is a node of that name already")
        arguments = dict(config or {})
        spec = ChildSpec(name=name, factory=lambda: cls(name, **arguments), restart="transient", spawner=parent)
        self._above[name] = supervisor
        work = self._spawn(supervisor, AgentChild(spec, self._node, path=_path(supervisor)))
        await asyncio.shield(asyncio.get_running_loop().create_task(work))  # ends in order if its caller is cancelled
        return name

    async def _spawn(self, supervisor: DynamicSupervisorActor, child: AgentChild) -> None:
        try:
            await supervisor.spawn(child)
        except BaseException:
            self._above.pop(child.spec.name, None)
            raise

    async def despawn(self, name: str) -> None:
        """Stop a spawned agent.

        Raises:
            SpawnError: If it was not spawned, or is the caller itself.
        """
        supervisor = self._above.get(name)
        entry = supervisor.child(name) if supervisor else None
        if entry is not None and not entry.is_added:
            raise SpawnError(name, f"agent {name!r} was not spawned: its supervisor keeps it running")
        await self.stop_agent(name)

    async def stop_agent(self, name: str) -> None:
        """Stop a node for good, regardless of its restart type.

        Raises:
            NoSuchAgent: If there is no node of that name.
            SpawnError: If it is the caller itself, or its supervisor is not running.
        """
        supervisor, caller = self._supervisor_of(name)
        if not await supervisor.stop_child(name, caller):
            raise NoSuchAgent(name, self._above)

    async def restart_agent(self, name: str) -> None:
        """Stop a node and start it again, in any state; its mailbox is kept.

        Raises:
            NoSuchAgent: If there is no node of that name.
            SpawnError: If it is the caller itself, or its supervisor is not running.
            Exception: From its `on_start`.
        """
        supervisor, caller = self._supervisor_of(name)
        if not await supervisor.restart_child(name, caller):
            raise NoSuchAgent(name, self._above)

    def _supervisor_of(self, name: str) -> tuple[SupervisorActor, str]:
        """The supervisor of a node, which must not be the caller, and the caller."""
        held = IN_HAND.get()
        caller = "" if held is None else held.recipient
        if caller == name:
            raise SpawnError(name, f"agent {name!r} cannot stop itself this way: call self.exit()")
        supervisor = self._above.get(name)
        if supervisor is None:
            raise NoSuchAgent(name, self._above)
        return supervisor, caller

    def halt(self, name: str) -> None:
        """Stop a node for good, and return at once: it may be the caller, or a supervisor above it.

        Raises:
            NoSuchAgent: If there is no node of that name.
        """
        if name not in self._above:
            raise NoSuchAgent(name, self._above)
        task = self._node.create_task(self._halt(name))
        self._halts.add(task)
        task.add_done_callback(self._halts.discard)

    async def _halt(self, name: str) -> None:
        while not self.is_stopping and (supervisor := self._above.get(name)) is not None:
            try:
                await supervisor.stop_child(name)
                return
            except SpawnError:  # its supervisor is restarting, and would start it again
                await asyncio.sleep(HALT_AGAIN)

    def child_ended(self, spec: ChildSpec, reason: str) -> None:
        """Free the name of a spawned agent, and notify the agent that spawned it."""
        supervisor = self._above.pop(spec.name, None)
        if supervisor is not None and spec.spawner and not self.is_stopping:
            payload = {"name": spec.name, "reason": reason}
            self._node.notify(spec.spawner, payload, TERMINATED, supervisor.name)

    def _nearest(self, parent: str, name: str) -> DynamicSupervisorActor:
        supervisor = self._above.get(parent, self.root)
        while True:
            if isinstance(supervisor, DynamicSupervisorActor):
                return supervisor
            for entry in supervisor.children:
                if isinstance(entry.child, DynamicSupervisorActor):
                    return entry.child
            if supervisor is self.root:
                raise SpawnError(name, f"cannot spawn {name!r}: no dynamic_supervisor beside or above {parent!r}")
            supervisor = self._above[supervisor.name]

    def _dynamic(self, into: str, name: str) -> DynamicSupervisorActor:
        above = self._above.get(into)
        entry = above.child(into) if above else None
        if entry is not None and isinstance(entry.child, DynamicSupervisorActor):
            return entry.child
        raise SpawnError(name, f"cannot spawn {name!r}: {into!r} is not a dynamic_supervisor")

    def _class(self, what: type | str, name: str, supervisor: DynamicSupervisorActor) -> Callable[..., Any]:
        if isinstance(what, type):
            if issubclass(what, EvalAgent):
                raise SpawnError(name, f"cannot spawn {name!r}: an eval agent is declared in the tree")
            return what
        if what in self._classes:
            return self._classes[what]
        if what not in supervisor.limits.allow:
            raise SpawnError(
                name, f"cannot spawn {name!r}: type {what!r} is not in the allow list of {supervisor.name!r}"
            )
        return load_class(what)

    # What is shown

    def describe(self) -> Iterator[NodeStatus]:
        """The status of all nodes, in the order of the tree."""
        root = self.root
        yield NodeStatus(
            name=root.name, kind=root.spec.kind, path="", state="running" if root.is_running else "stopped"
        )
        for supervisor, entry in root.walk():
            yield self._status(supervisor, entry)

    def _status(self, supervisor: SupervisorActor, entry: ChildEntry) -> NodeStatus:
        child = entry.child
        health: AgentHealth | None = child.health() if hasattr(child, "health") else None
        return NodeStatus(
            name=entry.name,
            kind=entry.spec.kind,
            path=_path(supervisor),
            state=entry.state.value,
            type=health.type if health else "",
            restarts=entry.restarts,
            queued=health.queued if health else 0,
            handled=health.handled if health else 0,
            crashes=health.crashes if health else 0,
            last_message=health.last_message if health else 0.0,
            error=entry.error,
        )


def _path(supervisor: SupervisorActor) -> str:
    return f"{supervisor.path}/{supervisor.name}" if supervisor.path else supervisor.name


def kind_of(plan: ChildPlan) -> str:
    """The kind of a node, as written in a file."""
    match plan:
        case SupervisorPlan():
            return "supervisor"
        case DynamicPlan():
            return "dynamic_supervisor"
        case ActorPlan():
            return "agent"
        case TurnActorPlan():
            return plan.runs
        case GatewayPlan():
            return "http_gateway"
        case TopologyServerPlan():
            return "topology_server"
        case EvalPlan():
            return "eval_agent"
        case _:
            assert_never(plan)


def planned(plan: ChildPlan, path: str = "") -> Iterator[NodeStatus]:
    """The nodes of a plan, without a state, in the order of the tree."""
    yield NodeStatus(name=plan.name, kind=kind_of(plan), path=path, state="", type=getattr(plan, "type", ""))
    for child in plan.children if isinstance(plan, SupervisorPlan) else ():
        yield from planned(child, f"{path}/{plan.name}" if path else plan.name)


def draw(nodes: Iterable[NodeStatus], plan: SupervisorPlan) -> Iterator[str]:
    """Draw the tree of *nodes*, which are in the order of the tree, with the strategies of *plan*."""
    strategies = dict(_strategies(plan))
    below: dict[str, list[NodeStatus]] = {}
    for node in nodes:
        below.setdefault(node.path, []).append(node)

    def lines(path: str, indent: str) -> Iterator[str]:
        for node in below.get(path, ()):
            is_last = node is below[path][-1]
            branch = ("└── " if is_last else "├── ") if path else ""
            yield indent + branch + _label(node, strategies.get(node.name, ""))
            deeper = indent + ("    " if is_last else "│   ") if path else ""
            yield from lines(f"{path}/{node.name}" if path else node.name, deeper)

    return lines("", "")


def _strategies(plan: SupervisorPlan) -> Iterator[tuple[str, str]]:
    yield plan.name, plan.strategy
    for child in plan.children:
        if isinstance(child, SupervisorPlan):
            yield from _strategies(child)


def _label(node: NodeStatus, strategy: str) -> str:
    words = [node.name, strategy or node.type or f"({node.kind})"]
    if node.state not in ("", "running"):
        words.append(f"[{node.state}]")
    if node.restarts:
        words.append(f"restarts: {node.restarts}")
    return "  ".join(words)
