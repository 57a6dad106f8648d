"""Plan a supervised system, and turn such a plan back into a system."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import fields as fields_of

from coterie.base.diagnostics import Diagnostic, warning
from coterie.team.planning.agents import Setting
from coterie.team.planning.plan import AgentPlan, Plan
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
from coterie.team.topology.checks.systems import unknown_target
from coterie.team.topology.model import AnyNode
from coterie.team.topology.system.fields import FLAT, TURNS, WRAPPED, AuthFields, GatewayFields, NodeFields
from coterie.team.topology.system.model import System, SystemNode

_PLANS: dict[str, type[Any]] = {
    "supervisor": SupervisorPlan,
    "agent": ActorPlan,
    "dynamic_supervisor": DynamicPlan,
    "http_gateway": GatewayPlan,
    "topology_server": TopologyServerPlan,
    "eval_agent": EvalPlan,
}

PlanNode = Callable[[AnyNode, Setting], AgentPlan | None]
"""Plans one node and the team that runs there; None, with a report, if that is impossible."""


def plan_system(system: System, setting: Setting, plan_node: PlanNode) -> Plan:
    """The plan of the topology of *setting*, which passed all checks and is the supervised *system*."""
    agents = {
        node.name: planned for node in setting.topology.nodes if (planned := plan_node(node, setting)) is not None
    }
    for found in (*_missing_files(system, setting), *_asked_agents(system, agents)):
        setting.report(found)
    return Plan(
        name=setting.topology.name,
        agents=agents,
        coordination=SystemPlan(
            root=_node(system.root), transport=system.transport, plugins=system.plugins, entry=system.entry
        ),
        folder=str(setting.folder) if setting.folder is not None else "",
    )


def as_system(plan: SystemPlan) -> System:
    """Convert *plan* back to its system.

    Raises:
        ValueError: If a child is a flow, a loop, a pattern, a model or a command, since the plan does not name their
            files.
    """
    return System(root=_as_node(plan.root), transport=plan.transport, plugins=plan.plugins, entry=plan.entry)


def contains_system(plan: Plan) -> bool:
    """Whether *plan* is a supervised system or contains one at a node."""
    children = (agent.child for agent in plan.agents.values() if agent.child is not None)
    return isinstance(plan.coordination, SystemPlan) or any(map(contains_system, children))


def _node(node: SystemNode) -> Any:
    values = _values(node.fields, type(node.fields))
    if node.kind in TURNS:
        common = {field.name for field in fields_of(TurnActorPlan)}
        return TurnActorPlan(
            runs=node.kind,  # type: ignore[arg-type]  # the keys of TURNS
            **{name: value for name, value in values.items() if name in common},
        )
    if node.kind == "supervisor":
        values["children"] = tuple(map(_node, node.children))
    return _PLANS[node.kind](**values)


def _as_node(plan: ChildPlan) -> SystemNode:
    kind = next((kind for kind, cls in _PLANS.items() if isinstance(plan, cls)), None)
    if kind is None:
        raise ValueError(f"{plan.name!r} answers with turns: write it as a child of its file")
    cls = {**WRAPPED, **FLAT}[kind]
    children = plan.children if isinstance(plan, SupervisorPlan) else ()
    return SystemNode(kind=kind, fields=cls(**_values(plan, cls)), children=tuple(map(_as_node, children)))


def _values(fields: msgspec.Struct, cls: type[NodeFields]) -> dict[str, Any]:
    return {field.name: getattr(fields, field.name) for field in fields_of(cls)}


def _asked_agents(system: System, agents: Mapping[str, AgentPlan]) -> Iterator[Diagnostic]:
    """The nodes of teams in *system* that name an agent that is not in its tree."""
    spans = {node.name: node.spans.get("source") or node.span for node in system.agents}
    for name, agent in agents.items():
        for path, asked in _asks(agent, name):
            yield from unknown_target(system, f"'ask' of {path!r}", asked, spans.get(name))


def _asks(agent: AgentPlan, path: str) -> Iterator[tuple[str, str]]:
    """The agents of the tree that the team of *agent* at *path* names, each with the path of its node."""
    for name, inner in agent.child.agents.items() if agent.child is not None else ():
        if asked := inner.options.get("ask"):
            yield f"{path}/{name}", str(asked)
        if inner.child is not None and not isinstance(inner.child.coordination, SystemPlan):
            yield from _asks(inner, f"{path}/{name}")


def _missing_files(system: System, setting: Setting) -> Iterator[Diagnostic]:
    """The TLS files and public keys of gateways, relative to the file, that do not exist."""
    for node in system.root.walk():
        if not isinstance(node.fields, GatewayFields) or setting.folder is None:
            continue
        config = node.fields.config
        files = {"tls_cert": config.tls_cert, "tls_key": config.tls_key}
        if isinstance(config.auth, AuthFields) and config.auth.jwt is not None:
            files["auth.jwt.public_key"] = config.auth.jwt.public_key
        for name, file in files.items():
            if file and not (setting.folder / file).is_file():
                span = node.spans.get(f"config.{name}") or node.span
                yield warning("missing-tls-file", f"{name!r} of {node.title} does not exist: {file!r}", span)
