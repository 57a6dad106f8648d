"""Build the agents of a plan that live in this process."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.classes import load_class
from coterie.agents.actors.dead_letters import Sink
from coterie.agents.actors.evaluation import EvalAgent, evaluators
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.reply_streams import ReplyStreams
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.agents.actors.transports.base import Transport
from coterie.agents.actors.tree import kind_of
from coterie.base.clock import Clock
from coterie.errors import CannotStart
from coterie.team.planning.system import ActorPlan, ChildPlan, SystemPlan, TurnActorPlan

Factory = Callable[[], Any]
TurnActors = Callable[[TurnActorPlan], AgentProcess]


class SystemPorts(Struct, frozen=True, kw_only=True):
    """Services and options for the part of a system in one process, beside its plan.

    Attributes:
        clock: The wall clock; None: the system's.
        sink: Receives the records of its agents and supervisors.
        classes: Classes by the short names that the plan uses.
        factories: Build the agents of some names, in place of their class.
        turn_actor: Makes the agent for a `flow:`, `loop:`, `pattern:`, `model:` or `command:` child.
        plugins: Replace those of the plan.
        keep_plugins: Whether the caller closes the plugins.
        transport: Replaces that of the plan.
        reply_streams: Receives the records of streamed replies from the caller, once they are durable; None: from
            *sink*.
        folder: The folder of its file; the paths of a gateway's TLS files are relative to it.
    """

    clock: Clock | None = None
    sink: Sink | None = None
    classes: Mapping[str, type] = {}
    factories: Mapping[str, Factory] = {}
    turn_actor: TurnActors | None = None
    plugins: Plugins | None = None
    keep_plugins: bool = False
    transport: Transport | None = None
    reply_streams: ReplyStreams | None = None
    folder: str = ""


def node_of(
    plan: SystemPlan, plugins: Plugins, transport: Transport, sink: Sink | None, clock: Clock | None
) -> ActorNode:
    """The node of the agents of *plan* in this process."""
    found, tracer = evaluators(plan.root), plugins.tracer
    node = ActorNode(
        clock=clock, sink=sink, store=plugins.state, transport=transport, plugins=plugins, evaluators=found
    )
    node.on_span = tracer.handled if tracer.exporters else None
    return node


class AgentBuilder:
    """Builds the agents of a process from their plans."""

    def __init__(self, node: ActorNode, ports: SystemPorts) -> None:
        self._node, self._ports = node, ports

    def build(self, plan: ActorPlan | TurnActorPlan, path: str) -> AgentChild:
        """Build the agent of *plan* without starting it; its class is imported.

        Args:
            path: The names of the supervisors above it, joined with `/`.

        Raises:
            ClassNotFound: If its class cannot be imported.
            CannotStart: If its class is not an agent class, or it needs a run.
        """
        if isinstance(plan, ActorPlan):
            factory = self._ports.factories.get(plan.name) or self._factory(plan)
            timeout = plan.handle_timeout
        else:
            make, timeout = self._ports.turn_actor, None
            if make is None:
                raise CannotStart(f"child {plan.name!r} ({plan.runs}) needs a run: start the system with `coterie run`")

            def factory() -> AgentProcess:
                return make(plan)

        # the class may have another default than the plan
        size = None if plan.mailbox_size == AgentProcess.mailbox_size else plan.mailbox_size
        return AgentChild(spec_of(plan, factory), self._node, path=path, mailbox_size=size, handle_timeout=timeout)

    def _factory(self, plan: ActorPlan) -> Factory:
        cls = self._ports.classes.get(plan.type) or load_class(plan.type)
        if not issubclass(cls, AgentProcess):
            raise CannotStart(f"agent {plan.name!r}: {plan.type} is not an AgentProcess")
        if issubclass(cls, EvalAgent):
            raise CannotStart(
                f"agent {plan.name!r}: {plan.type} is an eval agent: write type: eval_agent, class: {plan.type}"
            )
        return lambda: cls(plan.name, **plan.config)


def spec_of(plan: ChildPlan, factory: Factory | None = None) -> ChildSpec:
    """The spec with which a supervisor starts and stops the child of *plan*."""
    return ChildSpec(name=plan.name, kind=kind_of(plan), factory=factory, restart=plan.restart, shutdown=plan.shutdown)
