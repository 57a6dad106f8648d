"""The contents of a drawing before layout: boxes, arrows, phases and nested teams."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.loops import bounded
from coterie.team.topology.model import ArrowGroup, Each, Flow, Gate, Topology
from coterie.team.topology.outline import Outline, OutlinedNode, outline
from coterie.team.topology.system.model import System


class Box(Struct, frozen=True, kw_only=True):
    """A node.

    Attributes:
        kind: `agent`, `action`, `gate`, `human`, `group`, or `undeclared`.
        note: Short description of its backend.
        about: Its description and its outputs, a line each.
        starts: The flow starts here.
        in_flow: An arrow enters or leaves it.
    """

    name: str
    kind: str
    note: str = ""
    about: tuple[str, ...] = ()
    starts: bool = False
    in_flow: bool = True


class Arrow(Struct, frozen=True, kw_only=True):
    """An arrow between two boxes.

    Attributes:
        label: Condition and bound; empty for none.
        back: It leads to a box that does not rank above its source.
        implied: Its bound is not in the file.
    """

    source: str
    target: str
    label: str = ""
    back: bool = False
    implied: bool = False


class Phase(Struct, frozen=True, kw_only=True):
    """The boxes of one phase."""

    label: str
    boxes: tuple[str, ...]


class Graph(Struct, frozen=True, kw_only=True):
    """A team to draw.

    Attributes:
        boxes: By rank; those outside the flow come last.
        arrows: In source order, one per target.
        phases: In order, if the file has any.
        nested: The team that runs at a box, by the box's name.
    """

    name: str
    about: str = ""
    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    phases: tuple[Phase, ...] = ()
    nested: Mapping[str, "Graph"] = {}


def draw(
    topology: Topology, thinks: Mapping[str, str] | None = None, nested: Mapping[str, Graph] | None = None
) -> Graph:
    """The graph of *topology*: loops bounded, gates placed on their arrows, and a pattern's slots as boxes.

    Args:
        thinks: Backend description of each node; default: the file's model.
        nested: The team that runs at a node, by the node's name.
    """
    if topology.system is not None:
        return _of_system(topology.name, topology.system, nested or {})
    if topology.pattern is not None:
        from coterie.team.topology.patterns.as_flow import as_flow  # imported on demand

        topology = as_flow(topology)
    team = outline(topology, thinks)
    if topology.loop is not None:
        return _of_loop(team, nested or {})
    shape = _shape(topology)
    rank = shape.rank
    starts = set(shape.entries)
    phases = {node.name: node.phase for node in topology.nodes}
    mapped = {one.node: one for one in topology.flow.each} if topology.flow is not None else {}
    seen = sorted(team.nodes, key=lambda node: rank.get(node.name, len(rank)))
    return Graph(
        name=topology.name,
        about=team.description,
        boxes=tuple(_box(node, node.name in rank, node.name in starts, mapped.get(node.name)) for node in seen),
        arrows=tuple(_arrows(shape)),
        phases=tuple(_phases(phases, rank)),
        nested=dict(nested or {}),
    )


def _of_system(name: str, system: System, nested: Mapping[str, Graph]) -> Graph:
    """The nodes of a supervision tree, and an arrow from each supervisor to each of its children."""
    from coterie.team.topology.system.outline import outline_node  # imported on demand

    boxes, arrows = list[Box](), list[Arrow]()
    for node in system.root.walk():
        first, *others = outline_node(node).about
        about = tuple(others) if node.kind == "supervisor" else tuple(each for each in others if each[0] == "@")
        boxes.append(Box(name=node.name, kind=node.kind, note=first, about=about, starts=node is system.root))
        arrows += [Arrow(source=node.name, target=child.name) for child in node.children]
    return Graph(name=name, boxes=tuple(boxes), arrows=tuple(arrows), nested=dict(nested))


def _of_loop(team: Outline, nested: Mapping[str, Graph]) -> Graph:
    """The roles of a loop, and an arrow for each handoff; auxiliary agents are left out."""
    given = {target for node in team.nodes for arrow in node.arrows for target in arrow.targets}
    roles = {node.name: node for node in team.nodes if node.arrows or node.rules or node.starts or node.name in given}
    rank = {name: at for at, name in enumerate(_in_order(roles))}
    return Graph(
        name=team.name,
        about=team.description,
        boxes=tuple(_box(roles[name], True, roles[name].starts) for name in rank),
        arrows=tuple(
            Arrow(source=name, target=target, label=arrow.event, back=rank[target] <= rank[name])
            for name, node in roles.items()
            for arrow in node.arrows
            for target in arrow.targets
        ),
        nested=dict(nested),
    )


def _in_order(roles: Mapping[str, OutlinedNode]) -> Iterator[str]:
    """The names of *roles* in breadth-first order of handoffs; then unreachable ones."""
    seen = dict.fromkeys(name for name, node in roles.items() if node.starts)
    front = list(seen)
    for name in front:
        new = [to for arrow in roles[name].arrows for to in arrow.targets if to not in seen]
        seen |= dict.fromkeys(new)
        front += dict.fromkeys(new)
    yield from dict.fromkeys((*seen, *roles))


def _shape(topology: Topology) -> FlowGraph:
    flow = topology.flow or Flow()
    flow = bounded(flow, {node.name: node.phase for node in topology.nodes})
    groups = list(flow.groups)
    for gate in topology.nodes:
        if isinstance(gate, Gate) and gate.after and gate.name not in flow.mentions:
            groups = list(_with_gate(groups, gate))
    return FlowGraph(flow.mentions, groups)


def _with_gate(groups: Iterable[ArrowGroup], gate: Gate) -> Iterator[ArrowGroup]:
    """The arrows, with *gate* on the one from its `after` to its `before`, or behind `after` without `before`."""
    entered = False
    for group in groups:
        if group.source == gate.after and gate.before in group.targets:
            targets = tuple(gate.name if name == gate.before else name for name in group.targets)
            entered = True
            yield replace(group, targets=targets)
        else:
            yield group
    if entered:
        yield ArrowGroup(source=gate.name, targets=(gate.before,))
    elif not gate.before:
        yield ArrowGroup(source=gate.after, targets=(gate.name,))


def _box(node: OutlinedNode, in_flow: bool, starts: bool, mapped: Each | None = None) -> Box:
    about = (node.description, *(f"gives {output}" for output in node.outputs))
    note = "" if node.thinks == node.kind else node.thinks
    if mapped is not None:
        by = f" by {mapped.by}" if mapped.by is not None else ""
        note = f"{note} × ≤ {mapped.at_most}{by}".lstrip()
    about = tuple(line for line in about if line)
    return Box(name=node.name, kind=node.kind, note=note, about=about, starts=starts, in_flow=in_flow)


def _arrows(shape: FlowGraph) -> Iterator[Arrow]:
    for group in shape.groups:
        for target in group.targets:
            yield Arrow(
                source=group.source,
                target=target,
                label=_label(group),
                back=shape.rank[target] <= shape.rank[group.source],
                implied=group.implied_max,
            )


def _label(group: ArrowGroup) -> str:
    """`verdict == "revise", max 3`: the agent's name is omitted if it is the arrow's source."""
    when = str(group.when).removeprefix(f"{group.source}.") if group.when is not None else ""
    bound = f"max {group.max}" if group.max is not None else ""
    bound += f" per {group.per}" if bound and group.per != "run" else ""
    on_max = f"on-max {group.on_max}" if group.on_max != "forward" else ""
    return ", ".join(filter(None, (when, bound, on_max, *group.kept)))


def _phases(phases: Mapping[str, float | None], rank: Mapping[str, int]) -> Iterator[Phase]:
    for number in sorted({phase for phase in phases.values() if phase is not None}):
        boxes = tuple(
            sorted((name for name in phases if phases[name] == number and name in rank), key=rank.__getitem__)
        )
        if boxes:
            yield Phase(label=f"phase {number:g}", boxes=boxes)
