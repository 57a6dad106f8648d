"""Convert the teams at the nodes of a plan to topologies, for outlines and drawings."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.team.topology.loop import Handoff, Loop, Role
from coterie.team.topology.model import Action, Agent, AnyNode, Each, Flow, Gate, Human, Output, Topology
from coterie.team.topology.patterns.model import Pattern, Slot


def children(plan: Plan | None) -> dict[str, Plan]:
    """The plan of each team that runs at a node of *plan*, by the node's name."""
    agents = plan.agents if plan is not None else {}
    return {name: agent.child for name, agent in agents.items() if agent.child is not None}


def as_topology(plan: Plan) -> Topology:
    """Convert *plan* to a topology: its nodes, their outputs, the flow with its gates, or its roles or slots."""
    if isinstance(plan.coordination, LoopPlan):
        return Topology(name=plan.name, loop=_loop(plan.coordination))
    if isinstance(plan.coordination, PatternPlan):
        return Topology(
            name=plan.name,
            nodes=tuple(_node(agent) for agent in plan.agents.values()),
            pattern=_pattern(plan.coordination),
        )
    flow = plan.flow
    return Topology(
        name=plan.name,
        nodes=tuple(_node(agent) for agent in plan.agents.values()),
        flow=Flow(mentions=flow.mentions, groups=flow.groups, each=tuple(_maps(flow))) if flow is not None else None,
    )


def _maps(flow: FlowPlan) -> Iterator[Each]:
    for node, one in flow.maps.items():
        yield Each(node=node, **{name: getattr(one, name) for name in one.__struct_fields__})


def settled(topology: Topology, plan: Plan | None) -> Topology:
    """*topology* with the settings of its *plan* applied: the event that completes a loop."""
    loop = plan.coordination if plan is not None else None
    if topology.loop is None or not isinstance(loop, LoopPlan):
        return topology
    return replace(topology, loop=replace(topology.loop, completion=loop.completion))


def briefly(plan: Plan | None) -> dict[str, str]:
    """A short name of each node's backend: `opus`, `lint.py`, `topology polish`."""
    return {name: _brief(agent) for name, agent in plan.agents.items()} if plan is not None else {}


def _brief(agent: AgentPlan) -> str:
    if agent.child is not None:
        return f"topology {agent.child.name}"
    argv = agent.argv or next(iter(agent.steps), ())
    if argv:
        return " ".join(PurePath(word).name for word in argv if word != "{python}")
    return agent.model or agent.backend


def _node(agent: AgentPlan) -> AnyNode:
    about: dict[str, Any] = {
        "name": agent.name,
        "description": agent.description,
        "phase": agent.phase,
        "outputs": tuple(
            Output(name=one.name, type=one.type, values=one.values) for one in agent.outputs if one.declared
        ),
    }
    match agent.kind:
        case "action":
            return Action(**about)
        case "gate":
            return Gate(**about)
        case "human":
            return Human(**about)
        case _:
            return Agent(**about, model=agent.model, tools=agent.tools)


def _loop(plan: LoopPlan) -> Loop:
    return Loop(
        completion=plan.completion,
        roles=tuple(map(_role, plan.roles)),
        handoff=tuple(Handoff(event=event, targets=targets) for event, targets in plan.handoff),
    )


def _role(role: RolePlan) -> Role:
    events = {event: when.comparison if when is not None else "" for event, when in role.events or ()}
    return Role(id=role.id, emits=role.emits, prompt=role.prompt, events=events)


def _pattern(plan: PatternPlan) -> Pattern:
    slots = (
        Slot(name=slot.name, node=slot.name, capabilities=slot.capabilities, calls=slot.calls, cost=slot.cost)
        for slot in plan.slots
    )
    return Pattern(type=plan.type, config=plan.config, slots=tuple(slots))
