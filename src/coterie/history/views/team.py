"""The picture of a team: every node with its position and every arrow with its condition, before any run."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from coterie.team.planning.branches import BRANCH, branch_plan
from coterie.team.planning.coordination import Coordination
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan
from coterie.team.planning.system import SupervisorPlan, SystemPlan
from coterie.team.planning.teams import as_topology, briefly
from coterie.team.topology.drawing import Arrow, Box, Graph, draw, placed

ROOM = 72.0
"""Space beside the name of a node for its state and its count."""


class TeamBox(Struct, frozen=True, kw_only=True):
    """A node and its position in the picture.

    Attributes:
        kind: `agent`, `action`, `gate`, `human`, …; in a system the kind of its node.
        note: Its backend, in short; *about* has its description and outputs, one line each.
        starts: Whether the run begins with it.
        stage: The layer in which it is drawn, from 0; -1 outside the flow.
        nested: Whether a team with its own picture performs it.
    """

    name: str
    kind: str
    note: str = ""
    about: tuple[str, ...] = ()
    starts: bool = False
    phase: str = ""
    stage: int = 0
    nested: bool = False
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


class TeamArrow(Struct, frozen=True, kw_only=True):
    """An arrow and its path in the picture.

    Attributes:
        index: Its number in the team, from 0; *group* is that of its statement in a flow, -1 elsewhere.
        event: The event of a loop that it hands over.
        back: Whether it leads to a box of the same or a lower rank; *implied*: its bound is not in the file.
        points: Points from source to target: corners if *back*, else points that a curve passes vertically.
        label_at: x, y, width and height of its label; None without one.
    """

    index: int
    source: str
    target: str
    label: str = ""
    when: str = ""
    max: int | None = None
    per: str = ""
    event: str = ""
    group: int = -1
    back: bool = False
    implied: bool = False
    points: tuple[tuple[float, float], ...] = ()
    label_at: tuple[float, float, float, float] | None = None


class TeamPicture(Struct, frozen=True, kw_only=True):
    """The picture of a team. *kind*: `flow`, `loop`, `pattern`, `system`, `program`, or empty without coordination."""

    name: str
    kind: str = ""
    width: float = 0.0
    height: float = 0.0
    boxes: tuple[TeamBox, ...] = ()
    arrows: tuple[TeamArrow, ...] = ()


def teams(plan: Plan, place: str = "") -> Iterator[tuple[str, TeamPicture]]:
    """The team of *plan* at *place*, then the teams at its nodes, each with its place, such as `polish/inner`."""
    yield place, team(plan)
    for name, child in children_of(plan).items():
        yield from teams(child, f"{place}/{name}" if place else name)


def children_of(plan: Plan) -> dict[str, Plan]:
    """The plans of the teams at the nodes of *plan*, including the branch of a wave."""
    found = {name: agent.child for name, agent in plan.agents.items() if agent.child is not None}
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and loop.parallel is not None and not loop.branch:
        found[BRANCH] = branch_plan(plan, loop)
    return found


def team(plan: Plan) -> TeamPicture:
    """The picture of *plan*, without the teams at its nodes."""
    system = plan.coordination if isinstance(plan.coordination, SystemPlan) else None
    graph = _of_system(plan.name, system) if system is not None else draw(as_topology(plan), briefly(plan))
    is_loop = isinstance(plan.coordination, LoopPlan)
    return of_graph(graph, plan.name, kind_of(plan), children_of(plan), _groups(plan), is_loop=is_loop)


def of_graph(
    graph: Graph,
    name: str,
    kind: str = "",
    nested: Container[str] = (),
    groups: Sequence[Mapping[str, Any]] = (),
    *,
    is_loop: bool = False,
) -> TeamPicture:
    """The picture of *graph*.

    Args:
        nested: The nodes at which a team runs.
        groups: The values of each arrow from its statement.
        is_loop: Whether the arrows' labels are events.
    """
    layout = placed(graph, least=ROOM)
    rows = sorted({layout.boxes[box.name].y for box in graph.boxes if box.in_flow})
    phases = {name: phase.label for phase in graph.phases for name in phase.boxes}
    boxes = []
    for box in graph.boxes:
        at = layout.boxes[box.name]
        one = TeamBox(
            name=box.name,
            kind=box.kind,
            note=box.note,
            about=box.about,
            starts=box.starts,
            phase=phases.get(box.name, ""),
            stage=rows.index(at.y) if box.in_flow else -1,
            nested=box.name in nested,
            **_rounded(x=at.x, y=at.y, width=at.width, height=at.height),
        )
        boxes.append(one)
    arrows = []
    for index, route in enumerate(layout.routes):
        arrow, label = route.arrow, route.label
        corners = (
            None if label is None else tuple(_rounded(x=label.x, y=label.y, w=label.width, h=label.height).values())
        )
        one_arrow = TeamArrow(
            index=index,
            source=arrow.source,
            target=arrow.target,
            label=arrow.label,
            back=arrow.back,
            implied=arrow.implied,
            points=tuple((round(x, 1), round(y, 1)) for x, y in route.points),
            label_at=corners,
            **(groups[index] if index < len(groups) else {}),
            event=arrow.label if is_loop else "",
        )
        arrows.append(one_arrow)
    return TeamPicture(
        name=name,
        kind=kind,
        boxes=tuple(boxes),
        arrows=tuple(arrows),
        **_rounded(width=layout.width, height=layout.height),
    )


def kind_of(plan: Plan) -> str:
    """The kind of coordination of *plan*; empty: none."""
    coordination: Coordination | None = plan.coordination
    return str(coordination.__struct_config__.tag) if coordination is not None else ""


def _groups(plan: Plan) -> list[dict[str, Any]]:
    """The values of each arrow of a flow from its statement, in the order of the arrows."""
    return [
        {"group": n, "when": str(group.when or ""), "max": group.max, "per": group.per if group.max else ""}
        for n, group in enumerate(plan.flow.groups if plan.flow is not None else ())
        for _ in group.targets
    ]


def _of_system(name: str, system: SystemPlan) -> Graph:
    """The nodes of a supervision tree, and an arrow from each supervisor to each of its children."""
    boxes, arrows = list[Box](), list[Arrow]()
    for node in system.root.nodes():
        kind, about = str(node.__struct_config__.tag), tuple[str, ...]()
        if isinstance(node, SupervisorPlan):
            arrows += [Arrow(source=node.name, target=child.name) for child in node.children]
            about = (node.strategy, f"at most {node.max_restarts} restarts in {node.restart_window:g} s")
        note = str(getattr(node, "runs", "") or getattr(node, "type", ""))
        boxes.append(Box(name=node.name, kind=kind, note=note, about=about, starts=node is system.root))
    return Graph(name=name, boxes=tuple(boxes), arrows=tuple(arrows))


def _rounded(**numbers: float) -> dict[str, Any]:
    return {name: round(number, 1) for name, number in numbers.items()}
