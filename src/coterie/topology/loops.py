"""Which cycles of a flow end, and the bound that a conditional way back has when the file writes none.

A cycle is bounded by a `max` arrow on it whose count no round of it begins anew: its scope is the run, or an agent
outside the strongly connected part, or a phase that holds the whole part, and no round starts that agent, or enters
that phase, from outside. Nested loops are judged from the outside in: the arrows that bound a part are taken away, and
what cycles are left must be bounded too.

An implied bound ends a cycle; it does not say where one begins. Where nothing leads into a cycle and no `max` marks its
way back, nobody would start, so there nothing is implied.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import Struct, structs

from coterie.topology.graph import FlowGraph
from coterie.topology.model import ArrowGroup, Flow

IMPLIED_MAX = 10
"""What a conditional way back counts as when the file gives no `max`."""

Phases = Mapping[str, float | None]
_Arrows = dict[int, ArrowGroup]  # the groups still looked at, by their index in the flow
_SHOWN = 12


class Unbounded(Struct, frozen=True):
    """A cycle that no written `max` bounds.

    Attributes:
        path: The cycle in words, `a -> b -> a`; a long one is cut in the middle.
        back: The index of the arrow group that closes it, seen from the first-mentioned node.
        target: Where that arrow leads.
        conditional: The index of its last-mentioned `when` group without `max`; None: there is none on it.
        startless: Nothing leads into its part of the flow: no node there starts.
        renewed: The scopes of the `max` arrows inside its part, whose counts begin anew in every round.
    """

    path: str
    back: int
    target: str
    conditional: int | None
    startless: bool = False
    renewed: tuple[str, ...] = ()

    @property
    def implied(self) -> int | None:
        """The index of the group that counts as `max 10`; None: nothing ends the cycle."""
        return None if self.startless else self.conditional


def bounded(flow: Flow, phases: Phases | None = None) -> Flow:
    """*flow*, with `max 10` (`implied_max`) on each conditional way back that the file leaves unbounded.

    Args:
        phases: The phase of each node that has one; without it a count `per phase` is one per run.
    """
    return with_implied(flow, unbounded(flow, phases))


def with_implied(flow: Flow, cycles: Sequence[Unbounded]) -> Flow:
    """*flow* with the implied bounds of *cycles*, which `unbounded` found in it."""
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
        graph: The shape of *flow*, where it is known.
    """
    phases = phases or {}
    graph = graph or FlowGraph(flow.mentions, flow.groups)
    if all(map(graph.leads_up, [i for i, group in enumerate(flow.groups) if group.max is None or group.per != "run"])):
        return []  # on every cycle there is a group that does not lead up, so one that counts per run
    found: list[Unbounded] = []
    left: _Arrows = dict(enumerate(flow.groups))
    standing = dict(left)  # all that nothing bounds so far, what leads from part to part included
    parts = _inside(graph.cyclic_parts, left)
    while parts:
        left = {}  # what leads from one part to another lies on no cycle
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
    startless = _startless(graph) if found else set()
    found = [structs.replace(cycle, startless=cycle.target in startless) for cycle in found]
    return sorted(found, key=lambda cycle: cycle.back)


def _startless(graph: FlowGraph) -> set[str]:
    """The nodes of those parts of the flow that, as it is written, nobody starts."""
    entries = set(graph.entries)
    return {name for part in graph.parts if entries.isdisjoint(part) for name in part}


def _inside(parts: Sequence[frozenset[str]], arrows: _Arrows) -> list[tuple[frozenset[str], _Arrows]]:
    """Each of *parts* that arrows run inside of, with the groups that do."""
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
    """Whether the count of *group* bounds every cycle of *part* that it lies on: no round of it begins the count anew.

    A round may do so from outside as well: *starts* gives the nodes that it can start there.
    """
    if group.max is None or group.per == "run":
        return group.max is not None
    if group.per != "phase":
        return group.per not in part and group.per not in starts()
    inside = {phases.get(name) for name in part}
    if len(inside) > 1 or inside == {None}:
        return len(inside) == 1  # without phases it is per run
    started = starts()
    return not any(
        phases.get(arrow.source) not in inside
        and any(name in started and phases.get(name) in inside for name in arrow.targets)
        for arrow in standing.values()
    )


def _started_from(part: frozenset[str], flow: Flow, found: Sequence[Unbounded], standing: _Arrows) -> set[str]:
    """The nodes outside *part* that its rounds may start: *standing* arrows lead there, and it is not behind the part.

    What is behind it waits, by the settled rule, until the part has let go: it can be marked from all of it by a
    forward arrow, and ranks above it.
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
    if cycle.conditional is not None:
        arrows.pop(cycle.conditional, None)
    elif (group := arrows.get(cycle.back)) is not None:
        targets = tuple(name for name in group.targets if name != cycle.target)
        arrows[cycle.back] = replace(group, targets=targets)


def _cycles(part: frozenset[str], arrows: _Arrows, place: Mapping[str, int]) -> Iterator[Unbounded]:
    """The cycles that a walk through *part*, first-mentioned node and arrow first, closes."""
    out: dict[str, list[tuple[int, str]]] = {name: [] for name in part}
    for i, group in arrows.items():
        out[group.source] += [(i, name) for name in dict.fromkeys(group.targets) if name in part]
    renewed = tuple(dict.fromkeys(group.per for group in arrows.values() if group.max is not None))
    start = min(part, key=place.__getitem__)
    path, came_by = [start], list[int]()  # path[k] leads to path[k + 1] by came_by[k]
    depth = {start: 0}  # of what is on the path; -1 once it is done
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
    """The last-mentioned group of the cycle that *back* closes, among those with a condition and no `max`."""
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
