"""A team at a glance: each node with what it gives back, and where its arrows lead.

A value for people and pages to draw; whoever thinks at a node is decided in `coterie.planning`, so the caller says it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coterie.topology.loops import bounded
from coterie.topology.model import Action, AgentGroup, AnyNode, ArrowGroup, Gate, Human, Output, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinedArrow:
    """An arrow group.

    Attributes:
        when: The condition as it is written; empty for none.
        max: How often it may fire, also where the file leaves that open (*implied*).
        on_max: What happens when only spent arrows would fire.
        kept: Attributes that have no effect yet.
    """

    targets: tuple[str, ...]
    when: str = ""
    max: int | None = None
    per: str = "run"
    implied: bool = False
    on_max: str = "forward"
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinedNode:
    """A node.

    Attributes:
        kind: `agent`, `action`, `gate`, `human` or `group`.
        thinks: Who thinks there, in a few words.
        outputs: Each as `name: type`, an enum as its members.
        in_flow: Whether the flow mentions it.
        place: Where a gate stands that the flow does not mention: `on writer -> reviewer`, `behind writer`.
    """

    name: str
    kind: str
    thinks: str = ""
    description: str = ""
    outputs: tuple[str, ...] = ()
    arrows: tuple[OutlinedArrow, ...] = ()
    in_flow: bool = True
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A team: the flow's nodes in order of first mention, then the others.

    Attributes:
        kept: What the file says that has no effect yet, one sentence each.
    """

    name: str
    patterns: tuple[str, ...] = ()
    description: str = ""
    nodes: tuple[OutlinedNode, ...] = ()
    kept: tuple[str, ...] = ()


def outline(topology: Topology, thinks: Mapping[str, str] | None = None, kept: Sequence[str] = ()) -> Outline:
    """*topology* at a glance.

    Args:
        thinks: Who thinks at each node; else the file's own model does.
        kept: What the file says that has no effect yet, one sentence each.
    """
    thinks = thinks or {}
    declared = {node.name: node for node in reversed(topology.nodes)}
    phases = {name: node.phase for name, node in declared.items()}
    flow = bounded(topology.flow, phases) if topology.flow is not None else None
    arrows: dict[str, list[OutlinedArrow]] = {}
    for group in flow.groups if flow is not None else ():
        arrows.setdefault(group.source, []).append(_arrow(group))
    mentioned = flow.mentions if flow is not None else ()
    in_flow = set(mentioned)
    names = dict.fromkeys((*mentioned, *(node.name for node in topology.nodes)))
    return Outline(
        name=topology.name,
        patterns=topology.patterns,
        description=str(topology.meta.get("description", "")),
        nodes=tuple(
            _node(name, declared.get(name), thinks.get(name, ""), tuple(arrows.get(name, ())), name in in_flow)
            for name in names
        ),
        kept=tuple(kept),
    )


def _node(
    name: str, node: AnyNode | None, thinks: str, arrows: tuple[OutlinedArrow, ...], in_flow: bool
) -> OutlinedNode:
    return OutlinedNode(
        name=name,
        kind=_kind(node),
        thinks=thinks or str(getattr(node, "model", "")),
        description=node.description if node is not None else "",
        outputs=tuple(map(_output, node.outputs)) if node is not None else (),
        arrows=arrows,
        in_flow=in_flow,
        place=_place(node) if isinstance(node, Gate) and not in_flow else "",
    )


def _place(gate: Gate) -> str:
    if not gate.after:
        return ""
    return f"on {gate.after} -> {gate.before}" if gate.before else f"behind {gate.after}"


def _kind(node: AnyNode | None) -> str:
    match node:
        case None:
            return "undeclared"
        case Action():
            return "action"
        case Gate():
            return "gate"
        case Human():
            return "human"
        case AgentGroup():
            return "group"
        case _:
            return "agent"


def _output(output: Output) -> str:
    return f"{output.name}: {' | '.join(map(str, output.values)) if output.values else output.type}"


def _arrow(group: ArrowGroup) -> OutlinedArrow:
    return OutlinedArrow(
        targets=group.targets,
        when=str(group.when) if group.when is not None else "",
        max=group.max,
        per=group.per,
        implied=group.implied_max,
        on_max=group.on_max,
        kept=tuple(group.kept),
    )
