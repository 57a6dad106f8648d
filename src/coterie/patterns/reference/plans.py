"""The plan of a topology object: its definitions, copied, so that the journal holds what was run."""

from typing import TYPE_CHECKING

from coterie.errors import PatternRefused
from coterie.patterns.reference.performance import HUMAN
from coterie.patterns.rows import AgentConfig, TopologyType
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.program import AgentDefinition, ProgramPlan

if TYPE_CHECKING:
    from coterie.patterns.reference.base import BaseTopology


def plan_of(topology: "BaseTopology", correlation: str = "") -> Plan:
    """The plan of *topology*, its teams included."""
    defined = topology.topology
    agents: dict[str, AgentPlan] = {}
    slots: dict[str, AgentDefinition] = {}
    asks_human = False
    for slot, agent in topology.agents.items():
        agent = topology.as_member(slot, agent)
        config = agent.get_typed_config()
        slots[slot] = AgentDefinition(
            name=agent.name,
            description=agent.description,
            role=str(agent.role),
            version=agent.version,
            config=agent.config,
        )
        agents[slot] = AgentPlan(
            name=slot,
            description=agent.description,
            backend="program",
            model=config.model,
            timeout=float(config.timeout_seconds),
            retry=topology.retries(config),
            attempts=topology.attempts(),
        )
        asks_human = asks_human or _may_ask_human(config)
    for name, team in topology.teams().items():
        agents[name] = AgentPlan(name=name, kind="topology", child=plan_of(team))
    if asks_human and HUMAN in agents:
        raise PatternRefused(f"no slot may be called {HUMAN!r} where tools need a human's word: that is who gives it")
    if asks_human:
        agents[HUMAN] = AgentPlan(
            name=HUMAN, kind="human", backend="human", description="allows what agents want to do"
        )
    made = type(topology)
    return Plan(
        name=defined.name,
        agents=agents,
        coordination=ProgramPlan(
            program=f"{made.__module__}:{made.__qualname__}",
            type=TopologyType(topology.topology_type).value,
            name=defined.name,
            description=defined.description,
            version=defined.version,
            config=defined.config,
            slots=slots,
            correlation=correlation,
        ),
    )


def _may_ask_human(config: AgentConfig) -> bool:
    return any(
        one.enabled and (one.name == "human_in_loop" or one.config.get("require_confirmation") is True)
        for one in config.capabilities
    )
