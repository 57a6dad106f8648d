"""The plan of a topology object: a copy of its definitions, so that the journal holds what was run."""

from coterie.errors import PatternRefused
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.program_run import HUMAN
from coterie.patterns.rows.configs import AgentConfig
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.program import AgentDefinition, ProgramPlan
from coterie.team.topology.composition import MAX_DEPTH
from coterie.team.topology.patterns.names import TopologyType


def plan_of(topology: Collaboration, correlation: str = "", above: tuple[Collaboration, ...] = ()) -> Plan:
    """The plan of *topology*, its teams included.

    Args:
        above: The topologies that contain it, from the root down.

    Raises:
        PatternRefused: If it contains itself, teams nest too deeply, or two of its members have one name.
    """
    path = (*above, topology)
    if any(one is topology for one in above):
        raise PatternRefused(f"Circular teams: {' -> '.join(one._defined.name for one in path)}")
    if len(above) > MAX_DEPTH:
        raise PatternRefused(f"teams nest more than {MAX_DEPTH} levels deep below {above[0]._defined.name!r}")
    defined = topology._defined
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
        if not isinstance(team, Collaboration):
            raise PatternRefused(f"team {name!r} of {defined.name!r} must be a topology, not {type(team).__name__}")
        if name in agents:
            raise PatternRefused(f"{name!r} is a slot and a team of {defined.name!r}: rename one of them")
        agents[name] = AgentPlan(name=name, kind="topology", child=plan_of(team, above=path))
    if asks_human and HUMAN in agents:
        raise PatternRefused(f"the slot name {HUMAN!r} is reserved where tools need a human's approval")
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
