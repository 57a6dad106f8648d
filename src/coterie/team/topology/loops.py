"""Unbounded cycles of a flow, and the implied bound of a conditional back arrow without `max`.

A cycle is bounded by a `max` arrow on it whose count no round of the cycle resets: its scope is the run, or an agent
outside the strongly connected component, or a phase that contains the whole component, and no round starts that agent,
or enters that phase, from outside. Nested loops are checked from the outside in: the arrows that bound a component are
removed, and the remaining cycles must be bounded too.

An implied bound counts like a written one, also where the flow starts: a cycle that no arrow enters starts at the node
that only bounded arrows enter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import ArrowGroup, Flow

IMPLIED_MAX = 10
"""Implied `max` of a conditional back arrow."""

Phases = Mapping[str, float | None]
_Arrows = dict[int, ArrowGroup]  # the remaining groups, by their index in the flow
_SHOWN = 12


class Unbounded(Struct, frozen=True):
    """A cycle that no written `max` bounds.

    Attributes:
        path: The cycle as text, `a -> b -> a`; a long one is shortened in the middle.
        back: The index of the arrow group that closes it, seen from the first-mentioned node.
        target: The target of that arrow.
        implied: The index of the group that gets the implied bound, its last-mentioned `when` group without `max`; None
            without one: the cycle never ends.
        renewed: The scopes of the `max` arrows in its component whose counts reset every round.
    """

    path: str
    back: int
    target: str
    implied: int | None
    renewed: tuple[str, ...] = ()


def bounded(flow: Flow, phases: Phases | None = None) -> Flow:
    """*flow*, with `max 10` (`implied_max`) on each unbounded conditional back arrow.

    Args:
        phases: The phase of each node that has one; without phases, `per phase` counts per run.
    """
    return with_implied(flow, unbounded(flow, phases))


def with_implied(flow: Flow, cycles: Sequence[Unbounded]) -> Flow:
    """*flow* with the implied bounds of *cycles*, as returned by `unbounded`."""
    implied = {cycle.implied for cycle in cycles}
    if implied <= {None}:
        return flow
    groups = tuple(
        replace(group, max=IMPLIED_MAX, per="run", implied_max=True) if i in implied else group
        for i, group in enumerate(flow.groups)
    )
    return replace(flow, groups=groups)


def unbounded(flow: Flow, phases: Phases | None = None, graph: FlowGraph | None = None) -> list[Unbounded]:
    """Every cycle of *flow* that no written `max` bounds, each once.

    Args:
        phases: The phase of each node that has one.
        graph: The graph of *flow*, if already built.
    """
    phases = phases or {}
    graph = graph or FlowGraph(flow.mentions, flow.groups)
    if all(map(graph.leads_up, [i for i, group in enumerate(flow.groups) if group.max is None or group.per != "run"])):
        return []  # every cycle has a group that does not lead up; those counted per run bound it
    found: list[Unbounded] = []
    left: _Arrows = dict(enumerate(flow.groups))
    standing = dict(left)  # everything not bounded so far, including arrows between components
    parts = _inside(graph.cyclic_parts, left)
    while parts:
        left = {}  # arrows between components are on no cycle
        for part, inside in parts:
            starts = partial(_started_from, part, flow, tuple(found), standing)
            passing = {i: group for i, group in inside.items() if not _lasts(group, part, phases, standing, starts)}
            cycles = list(_cycles(part, inside, graph.place)) if len(passing) == len(inside) else []
            for cycle in cycles:
                _take_away(cycle, passing)
            found += cycles
            left |= passing
        for i in [i for _, inside in parts for i in inside]:
            if i in left:
                standing[i] = left[i]
            else:
                del standing[i]
        parts = _inside(FlowGraph((), tuple(left.values())).cyclic_parts, left)
    return sorted(found, key=lambda cycle: cycle.back)


def _inside(parts: Sequence[frozenset[str]], arrows: _Arrows) -> list[tuple[frozenset[str], _Arrows]]:
    """Each of *parts* that has internal arrows, with their groups."""
    part_of = {name: part for part in parts for name in part}
    found: dict[frozenset[str], _Arrows] = {}
    for i, group in arrows.items():
        part = part_of.get(group.source)
        if part is not None and not part.isdisjoint(group.targets):
            found.setdefault(part, {})[i] = group
    return list(found.items())


def _lasts(
    group: ArrowGroup, part: frozenset[str], phases: Phases, standing: _Arrows, starts: Callable[[], set[str]]
) -> bool:
    """Whether *group* bounds every cycle of *part* that it is on: no round resets its count.

    A round may also reset it from outside: *starts* gives the outside nodes it can start.
    """
    if group.max is None or group.per == "run":
        return group.max is not None
    if group.per != "phase":
        return group.per not in part and group.per not in starts()
    inside = {phases.get(name) for name in part}
    if len(inside) > 1 or inside == {None}:
        return len(inside) == 1  # without phases it counts per run
    started = starts()
    return not any(
        phases.get(arrow.source) not in inside
        and any(name in started and phases.get(name) in inside for name in arrow.targets)
        for arrow in standing.values()
    )


def _started_from(part: frozenset[str], flow: Flow, found: Sequence[Unbounded], standing: _Arrows) -> set[str]:
    """The nodes outside *part* that its rounds may start: reached by *standing* arrows and not downstream.

    Downstream nodes, which rank above the part and can be marked from all of it by a forward arrow, wait until the
    part is settled.
    """
    targets: dict[str, list[str]] = {}
    for group in standing.values():
        targets.setdefault(group.source, []).extend(group.targets)
    reached, front = set(part), list(part)
    while front:
        for name in targets.get(front.pop(), ()):
            if name not in reached:
                reached.add(name)
                front.append(name)
    graph = FlowGraph(flow.mentions, with_implied(flow, found).groups)
    last = max(graph.rank[name] for name in part)
    all_of_it = sum(1 << graph.rank[name] for name in part)
    return {name for name in reached - part if graph.rank[name] < last or graph.upstream(name) & all_of_it != all_of_it}


def _take_away(cycle: Unbounded, arrows: _Arrows) -> None:
    if cycle.implied is not None:
        arrows.pop(cycle.implied, None)
    elif (group := arrows.get(cycle.back)) is not None:
        targets = tuple(name for name in group.targets if name != cycle.target)
        arrows[cycle.back] = replace(group, targets=targets)


def _cycles(part: frozenset[str], arrows: _Arrows, place: Mapping[str, int]) -> Iterator[Unbounded]:
    """The cycles closed by a depth-first walk through *part*, in mention order."""
    out: dict[str, list[tuple[int, str]]] = {name: [] for name in part}
    for i, group in arrows.items():
        out[group.source] += [(i, name) for name in dict.fromkeys(group.targets) if name in part]
    renewed = tuple(dict.fromkeys(group.per for group in arrows.values() if group.max is not None))
    start = min(part, key=place.__getitem__)
    path, came_by = [start], list[int]()  # path[k] leads to path[k + 1] by came_by[k]
    depth = {start: 0}  # position on the path; -1 once done
    todo = [iter(out[start])]
    while todo:
        for i, name in todo[-1]:
            at = depth.get(name)
            if at is None:
                depth[name] = len(path)
                path.append(name)
                came_by.append(i)
                todo.append(iter(out[name]))
                break
            if at >= 0:
                yield Unbounded(_in_words(path, at), i, name, _last_open(came_by, at, i, arrows), renewed=renewed)
        else:
            todo.pop()
            depth[path.pop()] = -1
            if came_by:
                came_by.pop()


def _last_open(came_by: Sequence[int], start: int, back: int, arrows: _Arrows) -> int | None:
    """The last-mentioned conditional group without `max` of the cycle that *back* closes."""
    last = back if _is_open(arrows[back]) else -1
    for k in range(start, len(came_by)):
        if came_by[k] > last and _is_open(arrows[came_by[k]]):
            last = came_by[k]
    return None if last < 0 else last


def _is_open(group: ArrowGroup) -> bool:
    return group.when is not None and group.max is None


def _in_words(path: Sequence[str], start: int) -> str:
    length = len(path) - start
    if length <= _SHOWN:
        names = [*path[start:], path[start]]
    else:
        names = [*path[start : start + _SHOWN // 2], "…", *path[-2:], path[start]]
    return " -> ".join(names)
