"""Plan a pattern: its full configuration, an agent for each slot, and fallback agents."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from coterie.base.diagnostics import error
from coterie.team.planning.agents import Setting, tree_plan
from coterie.team.planning.notes import sentences
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.providers import Unclear, choose_provider
from coterie.team.planning.safety import not_enforced
from coterie.team.topology.checks.facts import title
from coterie.team.topology.checks.names import fallback_of
from coterie.team.topology.checks.patterns import span_of
from coterie.team.topology.model import Agent, AnyNode
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec, keys_of, kind_of, read_config
from coterie.team.topology.patterns.model import Pattern

MAX_RETRIES = 3
"""Default retries of an agent."""
TIMEOUT = 300.0
"""Default timeout of an attempt, in seconds."""

PlanNode = Callable[[AnyNode, Setting], AgentPlan | None]
"""Plans one node and the team that runs there; None, with a report, if that is impossible."""


def plan_pattern(pattern: Pattern, setting: Setting, plan_node: PlanNode) -> Plan:
    """The plan of the topology of *setting*, which passed all checks and is coordinated by *pattern*.

    Agents are named after their slots; agents that are only fallbacks keep their names.
    """
    topology = setting.topology
    kind = kind_of(pattern.type)
    config = read_config(kind.config, pattern.config)[0] if kind is not None else None
    declared = {node.name: node for node in reversed(topology.nodes)}
    names = _names(pattern, declared, setting)
    agents: dict[str, AgentPlan] = {}
    for name, node_name in names.items():
        node = declared[node_name]
        planned = plan_node(node, _for(node, setting))
        if planned is not None:
            planned = structs.replace(planned, name=name, fallback=_key(planned.fallback, names))
            agents[name] = _ruled(planned, node, kind)
    if config is not None:
        agents = {name: _retried(agent, config.all_retries()) for name, agent in agents.items()}
        for fault in config.plan_faults([slot.name for slot in pattern.slots], _outputs(agents)):
            setting.report(error(fault.code, fault.message, span_of(pattern, fault.where), fault.hint))
    for found in not_enforced(topology, {names[name]: agent for name, agent in agents.items()}):
        setting.report(found)
    return Plan(
        name=topology.name,
        agents=agents,
        coordination=PatternPlan(
            type=kind.name if kind is not None else pattern.type,
            # Normalized as it will be read back.
            config=msgspec.json.decode(msgspec.json.encode(dict(pattern.config) if config is None else config)),
            slots=tuple(
                SlotPlan(name=slot.name, capabilities=slot.capabilities, calls=slot.calls, cost=slot.cost)
                for slot in pattern.slots
            ),
            max_turns=pattern.max_turns,
        ),
        folder=str(setting.folder) if setting.folder is not None else "",
        notes=sentences(topology),
        worktree=tree_plan(setting.default),
    )


def _names(pattern: Pattern, declared: Mapping[str, AnyNode], setting: Setting) -> dict[str, str]:
    """The node of each name of the plan: those of the slots, then the fallbacks."""
    names = {slot.name: slot.node for slot in pattern.slots}
    front = list(names.values())
    for node_name in front:
        stands_in = fallback_of(declared[node_name])
        if not stands_in or stands_in in names.values():
            continue
        if stands_in in names:
            node = declared[node_name]
            message = f"{title(node)} falls back on {stands_in!r}, which is both an agent and the slot of another agent"
            setting.report(error("duplicate-name", message, node.spans.get("on-fail") or node.span, "rename the agent"))
            continue
        names[stands_in] = stands_in
        front.append(stands_in)
    return names


def _key(node: str, names: Mapping[str, str]) -> str:
    """The name of *node* in the plan."""
    return node if not node or names.get(node) == node else next((key for key in names if names[key] == node), node)


def _for(node: AnyNode, setting: Setting) -> Setting:
    return structs.replace(setting, backend=_backend(node, setting), asked={}, needed=(), phases={})


def _backend(node: AnyNode, setting: Setting) -> str | None:
    """The backend of a *node* without one: that of the run or the topology, else its model, if known.

    A model without a known provider gets no backend yet, so that the file can be rehearsed; a provider that is named
    must be known.
    """
    usual = setting.backend or setting.default.backend or ("command" if setting.default.command else "")
    if usual or not isinstance(node, Agent) or not node.model:
        return setting.backend
    options: dict[str, Any] = {"providers": {one.name: {} for one in setting.topology.block("providers").entries}}
    for key in ("provider", "base-url"):
        if value := node.extension.get(key):
            options[key.replace("-", "_")] = value
    is_open = "provider" not in options and isinstance(choose_provider(node.model, options), Unclear)
    return setting.backend if is_open else "model"


def _ruled(agent: AgentPlan, node: AnyNode, kind: PatternSpec | None) -> AgentPlan:
    """Add default retries and timeout to *agent* where its node sets none; teams and humans get neither."""
    if agent.kind != "agent":
        return agent
    retries = MAX_RETRIES if kind is None else kind.retries
    return structs.replace(
        agent,
        retry=retries if node.retry is None else node.retry,
        timeout=TIMEOUT if agent.timeout is None else agent.timeout,
    )


def _retried(agent: AgentPlan, retries: int | None) -> AgentPlan:
    """Set the *retries* of *agent* to those that its pattern sets for all agents."""
    if agent.kind == "human" or retries is None:
        return agent
    return structs.replace(agent, retry=retries, attempts=1 + retries, repairs=1)


def _outputs(agents: Mapping[str, AgentPlan]) -> dict[str, tuple[str, ...]]:
    """The keys of the results of the built-in patterns among *agents*."""
    given = {name: agent.child.coordination for name, agent in agents.items() if agent.child is not None}
    return {
        name: keys_of(one.type) for name, one in given.items() if isinstance(one, PatternPlan) and one.type in KINDS
    }
