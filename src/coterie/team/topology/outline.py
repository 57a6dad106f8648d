"""Outline of a team: each node with its outputs and arrows.

A plain value to render. `coterie.team.planning` chooses each node's backend, so the caller passes that in.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from coterie.team.topology.checks.facts import kind_of
from coterie.team.topology.checks.names import fallback_of
from coterie.team.topology.conditions import as_text
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.handoffs import handoffs, starters
from coterie.team.topology.loop import Loop
from coterie.team.topology.loops import bounded
from coterie.team.topology.model import (
    Agent,
    AgentGroup,
    AnyNode,
    ArrowGroup,
    Flow,
    Gate,
    Human,
    Orchestrator,
    Output,
    Topology,
)
from coterie.team.topology.patterns.model import Pattern


class OutlinedArrow(Struct, frozen=True, kw_only=True):
    """An arrow group, or the handoff of an event.

    Attributes:
        event: The event that triggers it; empty in a flow.
        when: The condition as written; empty for none.
        max: How often it may fire; *implied* if that is not in the file.
        on_max: What happens when only exhausted arrows would fire.
        kept: Attributes that have no effect.
        loop: It is a back arrow.
    """

    targets: tuple[str, ...]
    event: str = ""
    when: str = ""
    max: int | None = None
    per: str = "run"
    implied: bool = False
    on_max: str = "forward"
    kept: tuple[str, ...] = ()
    loop: bool = False


class OutlinedNode(Struct, frozen=True, kw_only=True):
    """A node.

    Attributes:
        kind: `agent`, `action`, `gate`, `human` or `group`.
        thinks: Short description of its backend.
        outputs: Each as `name: type`, an enum as its members.
        in_flow: Whether the flow mentions it.
        place: Position of a gate that the flow does not mention: `on writer -> reviewer`, `behind writer`; for an agent
            of a pattern that fills no slot, the agent it is the fallback of.
        starts: The flow starts here.
        tools: Allowed tools; None: the backend's default.
        reads: Agents and files whose contents are added to its prompt.
        rules: How it is mapped, `each scout.files, at-most 50`, and its rules for failures and timeouts: `retry 2`,
            `timeout 30s`, `on-fail skip`.
        team: The team that runs here.
    """

    name: str
    kind: str
    thinks: str = ""
    description: str = ""
    outputs: tuple[str, ...] = ()
    arrows: tuple[OutlinedArrow, ...] = ()
    in_flow: bool = True
    place: str = ""
    starts: bool = False
    phase: float | None = None
    tools: tuple[str, ...] | None = None
    reads: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    team: "Outline | None" = None


class Outline(Struct, frozen=True, kw_only=True):
    """A team: the flow's nodes in order of first mention, then the others.

    Attributes:
        settings: Settings of a pattern, `max_rounds: 2`.
        kept: Parts of the file that have no effect, one sentence each.
    """

    name: str
    patterns: tuple[str, ...] = ()
    description: str = ""
    settings: tuple[str, ...] = ()
    nodes: tuple[OutlinedNode, ...] = ()
    kept: tuple[str, ...] = ()


def outline(
    topology: Topology,
    thinks: Mapping[str, str] | None = None,
    kept: Sequence[str] = (),
    teams: Mapping[str, Outline] | None = None,
) -> Outline:
    """Outline of *topology*: its nodes; for a loop its roles and auxiliary agents; for a pattern its slots.

    Args:
        thinks: Backend description of each node; default: the file's model.
        kept: Parts of the file that have no effect, one sentence each.
        teams: The team that runs at a node, by its name.
    """
    thinks, teams = thinks or {}, teams or {}
    if topology.loop is not None:
        return Outline(name=topology.name, nodes=tuple(_roles(topology.loop, thinks, teams)), kept=tuple(kept))
    if topology.pattern is not None:
        return _of_pattern(topology, topology.pattern, thinks, kept, teams)
    declared = {node.name: node for node in reversed(topology.nodes)}
    phases = {name: node.phase for name, node in declared.items()}
    flow = bounded(topology.flow, phases) if topology.flow is not None else Flow()
    shape = FlowGraph(flow.mentions, flow.groups)
    mapped = {one.node: str(one) for one in reversed(flow.each)}
    arrows: dict[str, list[OutlinedArrow]] = {}
    for i, group in enumerate(flow.groups):
        arrows.setdefault(group.source, []).append(_arrow(group, shape.is_loop_group(i)))
    starts, in_flow = set(shape.entries), set(flow.mentions)
    names = dict.fromkeys((*flow.mentions, *(node.name for node in topology.nodes)))
    seen = (
        replace(
            (node := _node(name, declared.get(name), name in in_flow)),
            rules=(*([mapped[name]] if name in mapped else ()), *node.rules),
            thinks=thinks.get(name) or str(getattr(declared.get(name), "model", "")),
            arrows=tuple(arrows.get(name, ())),
            starts=name in starts,
            team=teams.get(name),
        )
        for name in names
    )
    return Outline(
        name=topology.name,
        patterns=topology.patterns,
        description=str(topology.meta.get("description", "")),
        nodes=tuple(seen),
        kept=tuple(kept),
    )


def _of_pattern(
    topology: Topology, pattern: Pattern, thinks: Mapping[str, str], kept: Sequence[str], teams: Mapping[str, Outline]
) -> Outline:
    """The slots, the handoffs between them, and their requirements."""
    from coterie.team.topology.patterns import as_flow  # imported on demand

    rules = {slot.name: tuple(as_flow.rules(slot)) for slot in pattern.slots}
    flow = as_flow.as_flow(topology)
    team = outline(flow, thinks, kept, teams)
    relieved = {fallback_of(node): f"fallback of {node.name}" for node in reversed(flow.nodes)}
    nodes = (
        replace(
            node,
            rules=(*rules.get(node.name, ()), *node.rules),
            place="" if node.in_flow else relieved.get(node.name, "fills no slot"),
        )
        for node in team.nodes
    )
    return replace(team, settings=tuple(as_flow.settings(pattern)), nodes=tuple(nodes))


def _roles(loop: Loop, thinks: Mapping[str, str], teams: Mapping[str, Outline]) -> Iterator[OutlinedNode]:
    starts = starters(loop)
    for role in loop.roles:
        own = list(handoffs(loop, role))
        whens = [(each.event, role.events.get(each.event, "")) for each in own if not each.targets]
        rules = [f"completes with {event}" + (f" when {when}" if when else "") for event, when in whens]
        if "timeout" in role.backend:
            rules.append(f"timeout {_duration(role.backend['timeout'])}")
        yield OutlinedNode(
            name=role.id,
            kind="agent",
            thinks=thinks.get(role.id, ""),
            description=first_line(role.prompt),
            arrows=tuple(
                OutlinedArrow(targets=each.targets, event=each.event, when=role.events.get(each.event, ""))
                for each in own
                if each.targets
            ),
            starts=role.id in starts,
            rules=tuple(rules),
            team=teams.get(role.id),
        )
    known = {role.id for role in loop.roles}
    for name, who in thinks.items():
        if name not in known:
            yield OutlinedNode(name=name, kind="agent", thinks=who, starts=not known and name == "@loop")


def first_line(text: str) -> str:
    """The first line of *text* that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _node(name: str, node: AnyNode | None, in_flow: bool) -> OutlinedNode:
    """Failure, timeout and other rules of *node*."""
    if node is None:
        return OutlinedNode(name=name, kind="undeclared", in_flow=in_flow)
    return OutlinedNode(
        name=name,
        kind="agent" if isinstance(node, Orchestrator) else kind_of(node),
        description=node.description,
        outputs=tuple(map(_output, node.outputs)),
        in_flow=in_flow,
        place=_place(node) if isinstance(node, Gate) and not in_flow else "",
        phase=node.phase,
        tools=node.tools if isinstance(node, Agent) else None,
        reads=node.reads if isinstance(node, Agent) else (),
        rules=tuple(_rules(node)),
    )


def _rules(node: AnyNode) -> Iterator[str]:
    if node.retry:
        yield f"retry {node.retry}"
    if node.timeout is not None:
        yield f"timeout {_duration(node.timeout)}"
        if isinstance(node, Human):
            yield f"on-timeout {node.on_timeout}"
    if node.on_fail:
        yield f"on-fail {node.on_fail}"
    if isinstance(node, Gate) and node.behavior == "advisory":
        yield "advisory"
    if isinstance(node, AgentGroup):
        yield f"members {', '.join(node.members)}"


def _duration(seconds: float) -> str:
    """Duration in the notation, in the largest unit that fits."""
    unit, length = next((each for each in (("d", 86400), ("h", 3600), ("m", 60)) if not seconds % each[1]), ("s", 1))
    return f"{seconds / length:g}{unit}"


def _place(gate: Gate) -> str:
    if not gate.after:
        return ""
    return f"on {gate.after} -> {gate.before}" if gate.before else f"after {gate.after}"


def _output(output: Output) -> str:
    return f"{output.name}: {' | '.join(map(as_text, output.values)) if output.values else output.type}"


def _arrow(group: ArrowGroup, loop: bool) -> OutlinedArrow:
    return OutlinedArrow(
        targets=group.targets,
        when=str(group.when) if group.when is not None else "",
        max=group.max,
        per=group.per,
        implied=group.implied_max,
        on_max=group.on_max,
        kept=tuple(group.kept),
        loop=loop,
    )
