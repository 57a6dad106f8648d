"""Plan a pattern: its full configuration, an agent for each slot, and fallback agents."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import structs

from coterie.diagnostics import Diagnostic, did_you_mean, error
from coterie.planning.agents import Setting
from coterie.planning.notes import sentences
from coterie.planning.pattern import PatternPlan, SlotPlan
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.providers import Unclear, choose_provider
from coterie.planning.safety import not_enforced
from coterie.topology.checks.facts import title
from coterie.topology.checks.names import fallback_of
from coterie.topology.checks.patterns import span_of
from coterie.topology.model import Agent, AnyNode
from coterie.topology.patterns.configs import CompoundSettings, PipelineSettings
from coterie.topology.patterns.kinds import KINDS, kind_of, read_config
from coterie.topology.patterns.model import Pattern
from coterie.topology.patterns.outputs import keys_of
from coterie.topology.patterns.slots import subs

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
            agents[name] = _ruled(structs.replace(planned, name=name, fallback=_key(planned.fallback, names)), node)
    if isinstance(config, PipelineSettings):
        agents = {name: _staged(agent, declared[names[name]], config) for name, agent in agents.items()}
    if isinstance(config, CompoundSettings):
        for found in _unmappable(pattern, config, agents):
            setting.report(found)
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
        ),
        folder=str(setting.folder) if setting.folder is not None else "",
        notes=sentences(topology),
    )


def _unmappable(pattern: Pattern, config: CompoundSettings, agents: Mapping[str, AgentPlan]) -> Iterator[Diagnostic]:
    """An error for each key mapped from a team that is known not to output it."""
    for before, name in pairwise(subs(config, [slot.name for slot in pattern.slots])):
        child = agents[before].child if before in agents else None
        given = child.coordination if child is not None else None
        if not isinstance(given, PatternPlan) or given.type not in KINDS:
            continue
        known = keys_of(given.type)
        for key, source in config.mapping.get(name, {}).items():
            if source not in known:
                message = f"{key!r} of {name!r} is mapped from {source!r}, which {before!r} does not output"
                hint = did_you_mean(source, known) or f"its outputs: {', '.join(known)}"
                yield error("bad-mapping", message, span_of(pattern, f"config.mapping.{name}.{key}"), hint)


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
    return Setting(
        topology=setting.topology,
        folder=setting.folder,
        default=setting.default,
        backend=_backend(node, setting),
        report=setting.report,
    )


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


def _ruled(agent: AgentPlan, node: AnyNode) -> AgentPlan:
    """*agent* with default retries and timeout where its node sets none; teams and humans get neither."""
    if agent.kind != "agent":
        return agent
    return structs.replace(
        agent,
        retry=MAX_RETRIES if node.retry is None else node.retry,
        timeout=TIMEOUT if agent.timeout is None else agent.timeout,
    )


def _staged(agent: AgentPlan, node: AnyNode, config: PipelineSettings) -> AgentPlan:
    """*agent* as a stage: the pipeline's retries if they apply, else its node's."""
    if agent.kind == "human":
        return agent
    if not config.retry_failed_stages:
        return structs.replace(agent, retry=node.retry or 0)
    retries = config.max_stage_retries
    return structs.replace(agent, retry=retries, attempts=1 + retries, repairs=1)
