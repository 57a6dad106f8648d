"""The definitions behind executions: the topology and the agents of a plan, as the tables store them.

The plan of a program holds its user's definitions. For a pattern read from a file they are generated: an agent is named
after its team and its slot, because agents of several teams share names.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coterie.patterns.rows.enums import AgentRole
from coterie.patterns.rows.kinds import as_text
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.program import AgentDefinition, ProgramPlan
from coterie.team.topology.patterns.kinds import KINDS
from coterie.team.topology.patterns.names import TopologyType

Values = dict[str, Any]
"""The columns of a row, by name."""

_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024
_FOREIGN = re.compile(r"[^a-z0-9_-]+")


class ExecutionDefinition(Struct, frozen=True, kw_only=True):
    """The rows that an execution's rows refer to.

    Attributes:
        topology: The columns of its topology.
        agents: The columns of the agent types, by slot; a team at a slot of a compound has none.
        members: Whether the topology defines its members; for a program only the user does.
        correlation: The caller's id; None without one.
    """

    topology: Values
    agents: Mapping[str, Values]
    members: bool = False
    correlation: str | None = None

    @property
    def type(self) -> str:
        """The stored name of the topology's type."""
        return str(self.topology["topology_type"])


def definition(plan: Plan) -> ExecutionDefinition | None:
    """The definition of the executions of *plan*; None where the tables have no type: flows, loops, user-defined
    patterns.
    """
    match plan.coordination:
        case PatternPlan() as pattern if pattern.type in KINDS:
            return _of_pattern(plan, pattern)
        case ProgramPlan() as program:
            return _of_program(program)
        case _:
            return None


def _of_program(plan: ProgramPlan) -> ExecutionDefinition:
    topology = _topology(plan.name, plan.description, plan.type, plan.config, plan.version)
    agents = {slot: _defined(agent) for slot, agent in plan.slots.items()}
    return ExecutionDefinition(topology=topology, agents=agents, correlation=plan.correlation or None)


def _defined(agent: AgentDefinition) -> Values:
    role = agent.role or AgentRole.EXECUTOR.value
    return _agent(agent.name, agent.description or agent.name, role, agent.config, agent.version)


def _of_pattern(plan: Plan, pattern: PatternPlan) -> ExecutionDefinition:
    title = f"{KINDS[pattern.type].title}: {', '.join(slot.name for slot in pattern.slots)}"
    agents = {}
    for slot in pattern.slots:
        agent = plan.agents.get(slot.name) or AgentPlan(name=slot.name)
        if agent.child is None or pattern.type != TopologyType.COMPOUND.value:
            agents[slot.name] = _filled(plan.name, slot, agent, KINDS[pattern.type].roles)
    return ExecutionDefinition(
        topology=_topology(plan.name, title, pattern.type, pattern.config), agents=agents, members=True
    )


def _filled(team: str, slot: SlotPlan, agent: AgentPlan, roles: Mapping[str, str]) -> Values:
    config: Values = {"max_retries": agent.retry}
    if agent.model:
        config["model"] = agent.model
    if agent.prompt:
        config["system_prompt"] = agent.prompt
    if agent.timeout is not None:
        config["timeout_seconds"] = max(1, math.ceil(agent.timeout))
    if slot.capabilities:
        config["capabilities"] = [{"name": name} for name in slot.capabilities]
    role = roles.get(re.split(r"[_\d]", slot.name)[0], AgentRole.EXECUTOR.value)
    return _agent(f"{team}-{slot.name}", agent.description or f"{slot.name} of {team}", role, config)


def _agent(name: str, description: str, role: str, config: Values, version: str = "1.0.0") -> Values:
    return {
        "name": row_name(name),
        "description": as_text(description)[:_LONGEST_DESCRIPTION],
        "role": AgentRole(role),
        "version": as_text(version),
        "config": config,
    }


def _topology(name: str, description: str, type: str, config: Values, version: str = "1.0.0") -> Values:
    return {
        "name": row_name(name),
        "description": as_text(description or name)[:_LONGEST_DESCRIPTION],
        "topology_type": TopologyType(type),
        "version": as_text(version),
        "config": config,
    }


def row_name(text: str) -> str:
    """*text* as a valid name for the tables; a name that is too long ends in a hash of the whole."""
    name = _FOREIGN.sub("-", text.lower()).strip("-") or "team"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
