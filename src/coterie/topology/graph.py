"""The shape of a flow: ranks, cycles, entries, and who can still reach whom.

Pure and static: it is built once from the arrows and looks at no condition and no counter. What follows from them
while a flow runs is decided in `coterie.engines.flow`; what is wrong with a shape, in `coterie.topology.checks`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import islice

from coterie.topology.model import ArrowGroup

Arrow = tuple[int, str]
"""One arrow into a node: the index of its group, and its source."""


class FlowGraph:
    """What can be known of a flow before it runs. Names count in order of first mention.

    An arrow with `max` that lies on no cycle is *forward*, like every arrow without `max`. On a cycle, an arrow with
    `max` to a node that does not rank above its source is a *loop arrow*; nobody waits for what comes along one.

    Args:
        mentions: The nodes, in order of first mention.
        groups: The arrow groups, in source order.
    """

    def __init__(self, mentions: Sequence[str], groups: Sequence[ArrowGroup]) -> None:
        self.groups = tuple(groups)
        self.nodes = tuple(dict.fromkeys((*mentions, *(name for g in groups for name in (g.source, *g.targets)))))
        self._out: dict[str, list[int]] = {node: [] for node in self.nodes}
        self._into: dict[str, list[Arrow]] = {node: [] for node in self.nodes}
        for i, group in enumerate(self.groups):
            self._out[group.source].append(i)
            for target in dict.fromkeys(group.targets):
                self._into[target].append((i, group.source))
        self._upstream: dict[str, int] = {}
        self._masks: dict[int, int] = {}

    def groups_of(self, node: str) -> list[int]:
        """The indices of the groups that leave *node*, in source order."""
        return self._out[node]

    def arrows_into(self, node: str) -> list[Arrow]:
        """The arrows into *node*, in source order."""
        return self._into[node]

    def on_cycle(self, i: int, target: str) -> bool:
        """Whether the arrow of group *i* to *target* lies on a cycle."""
        return self._component[self.groups[i].source] == self._component[target]

    def is_loop(self, i: int, target: str) -> bool:
        """Whether the arrow of group *i* to *target* is a loop arrow."""
        group = self.groups[i]
        return group.max is not None and self.rank[target] <= self.rank[group.source] and self.on_cycle(i, target)

    def is_loop_group(self, i: int) -> bool:
        """Whether group *i* holds a loop arrow."""
        return i in self._loop_groups

    @cached_property
    def _loop_groups(self) -> frozenset[int]:
        limited = (i for i, group in enumerate(self.groups) if group.max is not None)
        return frozenset(i for i in limited if any(self.is_loop(i, target) for target in self.groups[i].targets))

    @cached_property
    def components(self) -> list[frozenset[str]]:
        """The strongly connected parts, those that others lead to first; a node on no cycle is a part of its own."""
        return list(strong_parts(self._successors))

    @cached_property
    def parts(self) -> list[list[str]]:
        """The parts that no arrow connects, whatever its direction: each, and each within itself, in mention order."""
        part: dict[str, int] = {}
        for number, node in enumerate(self.nodes):
            front = [] if node in part else [node]
            while front:
                name = front.pop()
                if name not in part:
                    part[name] = number
                    front += [*self._successors[name], *(source for _, source in self._into[name])]
        gathered: dict[int, list[str]] = {}
        for node in self.nodes:
            gathered.setdefault(part[node], []).append(node)
        return list(gathered.values())

    @cached_property
    def entries(self) -> list[str]:
        """Where the flow starts, in mention order: the nodes without an incoming arrow.

        In a part where every node has one it is the first-mentioned node that only `max` arrows enter; a part without
        such a node has no entry, and a cycle that nothing bounds.
        """
        found = {node for node in self.nodes if not self._into[node]}
        for part in self.parts:
            if found.isdisjoint(part):
                bounded = (node for node in part if all(self.groups[i].max for i, _ in self._into[node]))
                found.update(islice(bounded, 1))
        return [node for node in self.nodes if node in found]

    @cached_property
    def rank(self) -> dict[str, int]:
        """Each node's place in the order of the forward arrows, from 0; among ready nodes the first-mentioned is next.

        A node that only `max` arrows on cycles enter is ready once one of their sources is ranked. When nothing is
        ready, the first-mentioned such node is; failing that, which takes an unbounded cycle, the first node left.
        """
        place = {node: number for number, node in enumerate(self.nodes)}
        loose = self._loose
        held = {node: len(arrows) for node, arrows in self._into.items()}
        for _, target in loose:
            held[target] -= 1
        ready = [place[node] for node in self.nodes if not self._into[node]]
        heapify(ready)
        stuck = iter([*(node for node in self.nodes if not held[node]), *self.nodes])
        rank: dict[str, int] = {}
        while len(rank) < len(self.nodes):
            node = self.nodes[heappop(ready)] if ready else next(node for node in stuck if node not in rank)
            if node in rank:
                continue
            rank[node] = len(rank)
            for i in self._out[node]:
                group = self.groups[i]
                for target in group.targets if len(group.targets) == 1 else dict.fromkeys(group.targets):
                    held[target] -= group.max is None or (i, target) not in loose
                    if not held[target] and target not in rank:
                        heappush(ready, place[target])
        return rank

    def upstream(self, node: str) -> int:
        """A bit mask, by rank, of the nodes whose work could still mark *node* by a forward arrow.

        These are the nodes from which a path that does not pass through *node* ends in a forward arrow into it. The
        path to that last arrow may use any arrow. Computed when first asked for, then kept.
        """
        mask = self._upstream.get(node)
        if mask is None:
            mask = self._upstream[node] = self._find_upstream(node)
        return mask

    def _find_upstream(self, node: str) -> int:
        home = self._component[node]
        front = [source for i, source in self._into[node] if source != node and not self.is_loop(i, node)]
        mask = 0
        if len(self.components[home]) == 1:
            # No way to a source leads through the node: it would lie on a cycle with it.
            for source in front:
                reaching = self._reaching(self._component[source])
                mask = mask | reaching if mask else reaching
            return mask
        seen = {node}
        while front:
            name = front.pop()
            component = self._component[name]
            if component != home:
                mask |= self._reaching(component)
            elif name not in seen:
                seen.add(name)
                mask |= 1 << self.rank[name]
                front += [source for _, source in self._into[name]]
        return mask

    def _reaching(self, component: int) -> int:
        """The mask of a component and of all that leads to it; computed when first asked for, then kept."""
        mask = self._masks.get(component)
        if mask is None:
            mask = self._masks[component] = self._ancestors[component] | self._members(component)
        return mask

    @cached_property
    def _loose(self) -> frozenset[tuple[int, str]]:
        """The arrows that do not make their source rank first: those with `max` on a cycle, each with its target."""
        limited = ((i, name) for i, group in enumerate(self.groups) if group.max is not None for name in group.targets)
        return frozenset(arrow for arrow in limited if self.on_cycle(*arrow))

    @cached_property
    def _successors(self) -> dict[str, list[str]]:
        return {node: [t for i in self._out[node] for t in self.groups[i].targets] for node in self.nodes}

    @cached_property
    def _component(self) -> dict[str, int]:
        return {node: number for number, component in enumerate(self.components) for node in component}

    def _members(self, component: int) -> int:
        mask = 0
        for node in self.components[component]:
            mask |= 1 << self.rank[node]
        return mask

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each component the mask of what leads to it, without its own members."""
        masks = [0] * len(self.components)
        for number in reversed(range(len(self.components))):
            sources = {self._component[s] for node in self.components[number] for _, s in self._into[node]}
            for source in sources - {number}:
                masks[number] |= masks[source] | self._members(source)
        return masks


def strong_parts(successors: Mapping[str, Sequence[str]]) -> Iterator[frozenset[str]]:
    """The strongly connected parts, those that others lead to first; a node on no cycle is a part of its own.

    Tarjan's algorithm, with its own stack: chains of any length are fine.
    """
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []  # visited, not yet given out; `low` loses what is given out
    for root in successors:
        if root in number:
            continue
        path = [(root, iter(successors[root]))]
        number[root] = low[root] = len(number)
        open_.append(root)
        while path:
            node, rest = path[-1]
            for target in rest:
                if target not in number:
                    number[target] = low[target] = len(number)
                    open_.append(target)
                    path.append((target, iter(successors.get(target, ()))))
                    break
                if target in low:
                    low[node] = min(low[node], number[target])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == number[node] and open_[-1] == node:
                    open_.pop()
                    del low[node]
                    yield frozenset((node,))
                elif low[node] == number[node]:
                    part = set[str]()
                    while node not in part:
                        part.add(open_.pop())
                    for name in part:
                        del low[name]
                    yield frozenset(part)
