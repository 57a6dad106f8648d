"""The graph of a flow: ranks, cycles, entries and reachability.

Pure and static: built once from the arrows, ignoring conditions and counters. `coterie.history.engines.flow` evaluates
those during a run; `coterie.team.topology.checks` reports faults.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import chain, islice

from coterie.team.topology.model import ArrowGroup

Arrow = tuple[int, str]
"""One arrow into a node: the index of its group, and its source."""


class FlowGraph:
    """Static properties of a flow. Nodes are ordered by first mention.

    An arrow with `max` that lies on no cycle is *forward*, like every arrow without `max`. On a cycle, an arrow with
    `max` to a node that does not rank above its source is a *loop arrow*; nodes do not wait for loop arrows.

    Attributes:
        nodes: In order of first mention.
        place: Each node's index in that order.

    Args:
        mentions: The nodes, in order of first mention.
        groups: The arrow groups, in source order.
    """

    # Internally a node is its index: lists of integers are compact in memory, which matters for big flows.

    def __init__(self, mentions: Iterable[str], groups: Sequence[ArrowGroup]) -> None:
        self.groups = tuple(groups)
        self.place: dict[str, int] = dict.fromkeys(mentions, 0)
        for group in self.groups:
            self.place.setdefault(group.source, 0)
            for name in group.targets:
                self.place.setdefault(name, 0)
        self.nodes = tuple(self.place)
        for n, name in enumerate(self.nodes):
            self.place[name] = n
        self._source = [self.place[group.source] for group in self.groups]
        self._targets = [_places(group.targets, self.place) for group in self.groups]
        self._out: list[list[int]] = [[] for _ in self.nodes]
        for i, source in enumerate(self._source):
            self._out[source].append(i)
        self._upstream: dict[str, int] = {}
        self._masks: dict[int, int] = {}

    def groups_of(self, node: str) -> list[int]:
        """The indices of the groups that leave *node*, in source order."""
        return self._out[self.place[node]]

    def arrows_into(self, node: str) -> list[Arrow]:
        """The arrows into *node*, in source order."""
        return [(i, self.groups[i].source) for i in self._into[self.place[node]]]

    def leads_up(self, i: int) -> bool:
        """Whether all targets of group *i* rank above its source. A cycle has a group that does not."""
        rank = self._ranks[self._source[i]]
        return all(self._ranks[target] > rank for target in self._targets[i])

    def is_loop(self, i: int, target: str) -> bool:
        """Whether the arrow of group *i* to *target* is a loop arrow."""
        return self.place[target] in self._loose.get(i, ()) and self._leads_back(i, self.place[target])

    def is_loop_group(self, i: int) -> bool:
        """Whether group *i* holds a loop arrow."""
        return i in self._loop_groups

    def leads_to(self, start: str, end: str) -> bool:
        """Whether a path of arrows, loop arrows included, leads from *start* to *end*, or they are the same."""
        reaching = self._reaching(self._component[self.place[end]])
        return bool(reaching >> self._ranks[self.place[start]] & 1)

    def beyond(self, nodes: Iterable[str]) -> set[str]:
        """Everything reachable from any of *nodes*, including these."""
        front = [self.place[name] for name in nodes]
        found = set(front)
        while front:
            for i in self._out[front.pop()]:
                for target in self._targets[i]:
                    if target not in found:
                        found.add(target)
                        front.append(target)
        return {self.nodes[n] for n in found}

    @cached_property
    def looping(self) -> list[str]:
        """The nodes that a loop arrow leaves, in mention order."""
        return [self.nodes[n] for n in sorted({self._source[i] for i in self._loop_groups})]

    @cached_property
    def cyclic_parts(self) -> list[frozenset[str]]:
        """The strongly connected components that contain a cycle."""
        return [
            frozenset([self.nodes[n] for n in part])
            for part in self._components
            if len(part) > 1 or any(part[0] in self._targets[i] for i in self._out[part[0]])
        ]

    @cached_property
    def parts(self) -> list[list[str]]:
        """The weakly connected components, each sorted, in mention order."""
        known = list(range(len(self.nodes)))  # union-find: an earlier node of the same component, or itself
        for source, targets in zip(self._source, self._targets, strict=True):
            for target in targets:
                one, other = source, target
                while known[one] != one:
                    known[one] = one = known[known[one]]
                while known[other] != other:
                    known[other] = other = known[known[other]]
                known[max(one, other)] = min(one, other)
        gathered: dict[int, list[str]] = {}
        for n, name in enumerate(self.nodes):
            known[n] = known[known[n]]
            gathered.setdefault(known[n], []).append(name)
        return list(gathered.values())

    @cached_property
    def entries(self) -> list[str]:
        """Where the flow starts, in mention order: the nodes without an incoming arrow.

        In a component where every node has one it is the first-mentioned node that only `max` arrows enter; a component
        without such a node has no entry, and an unbounded cycle.
        """
        entered = set(chain.from_iterable(self._targets))
        found = {name for n, name in enumerate(self.nodes) if n not in entered}
        for part in self.parts:
            if found.isdisjoint(part):
                bounded = (node for node in part if all(self.groups[i].max for i in self._into[self.place[node]]))
                found.update(islice(bounded, 1))
        return sorted(found, key=self.place.__getitem__)

    @cached_property
    def rank(self) -> dict[str, int]:
        """Each node's position in topological order of the forward arrows, from 0; ties go to the first-mentioned.

        A node that only `max` arrows on cycles enter is ready once one of their sources is ranked. If no node is ready,
        the first-mentioned such node is taken; without one, which implies an unbounded cycle, the first remaining node.
        """
        return {self.nodes[n]: rank for rank, n in enumerate(self._ranked)}

    @cached_property
    def _ranks(self) -> list[int]:
        """The rank of each node."""
        found = [0] * len(self.nodes)
        for rank, n in enumerate(self._ranked):
            found[n] = rank
        return found

    @cached_property
    def _ranked(self) -> list[int]:
        """The nodes by their rank."""
        held = [0] * len(self.nodes)
        for target in chain.from_iterable(self._targets):
            held[target] += 1
        ready = [n for n, count in enumerate(held) if not count]  # sorted, so already a heap
        for target in chain.from_iterable(self._loose.values()):
            held[target] -= 1
        stuck = iter([*(n for n, count in enumerate(held) if not count), *range(len(held))])
        is_ranked = [False] * len(held)
        ranked: list[int] = []
        while len(ranked) < len(held):
            node = heappop(ready) if ready else next(n for n in stuck if not is_ranked[n])
            if is_ranked[node]:
                continue
            is_ranked[node] = True
            ranked.append(node)
            for i in self._out[node]:
                loose = self._loose.get(i, ())
                for target in self._targets[i]:
                    held[target] -= target not in loose
                    if not held[target] and not is_ranked[target]:
                        heappush(ready, target)
        return ranked

    def upstream(self, node: str) -> int:
        """A bit mask, by rank, of the nodes whose work could still mark *node* by a forward arrow.

        These are the nodes from which a path that does not pass through *node* ends in a forward arrow into it. The
        path to that last arrow may use any arrow. Computed on first use and cached.
        """
        mask = self._upstream.get(node)
        if mask is None:
            mask = self._upstream[node] = self._find_upstream(self.place[node])
        return mask

    def _find_upstream(self, node: int) -> int:
        home = self._component[node]
        forward = [i for i in self._into[node] if not (node in self._loose.get(i, ()) and self._leads_back(i, node))]
        front = [source for i in forward if (source := self._source[i]) != node]
        mask = 0
        if len(self._components[home]) == 1:
            # No path to a source passes through the node: the source would be on a cycle with it.
            for source in front:
                reaching = self._reaching(self._component[source])
                mask = mask | reaching if mask else reaching
            return mask
        seen = {node}
        while front:
            n = front.pop()
            component = self._component[n]
            if component != home:
                mask |= self._reaching(component)
            elif n not in seen:
                seen.add(n)
                mask |= 1 << self._ranks[n]
                front += [self._source[i] for i in self._into[n]]
        return mask

    def _reaching(self, component: int) -> int:
        """The mask of a component and its predecessors; computed on first use and cached."""
        mask = self._masks.get(component)
        if mask is None:
            mask = self._masks[component] = self._ancestors[component] | self._members(component)
        return mask

    def _leads_back(self, i: int, target: int) -> bool:
        """Whether *target* does not rank above the source of group *i*."""
        return self._ranks[target] <= self._ranks[self._source[i]]

    @cached_property
    def _into(self) -> list[list[int]]:
        """The groups that enter each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for i, targets in enumerate(self._targets):
            for target in targets:
                found[target].append(i)
        return found

    @cached_property
    def _loop_groups(self) -> frozenset[int]:
        return frozenset(i for i, loose in self._loose.items() if any(self._leads_back(i, target) for target in loose))

    @cached_property
    def _loose(self) -> dict[int, frozenset[int]]:
        """The arrows ignored in ranking, those with `max` on a cycle: targets by group."""
        found: dict[int, frozenset[int]] = {}
        for i, group in enumerate(self.groups):
            if group.max is not None:
                home = self._component[self._source[i]]
                if targets := frozenset([target for target in self._targets[i] if self._component[target] == home]):
                    found[i] = targets
        return found

    @cached_property
    def _components(self) -> list[list[int]]:
        """The strongly connected components, successors first; a node on no cycle is a component by itself."""
        return strong_parts([[target for i in out for target in self._targets[i]] for out in self._out])

    @cached_property
    def _component(self) -> list[int]:
        """The number of each node's component."""
        found = [0] * len(self.nodes)
        for number, component in enumerate(self._components):
            for n in component:
                found[n] = number
        return found

    def _members(self, component: int) -> int:
        mask = 0
        for n in self._components[component]:
            mask |= 1 << self._ranks[n]
        return mask

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each component the mask of its predecessors, without its members."""
        masks = [0] * len(self._components)
        for number in reversed(range(len(self._components))):
            sources = {self._component[self._source[i]] for n in self._components[number] for i in self._into[n]}
            for source in sources - {number}:
                masks[number] |= masks[source] | self._members(source)
        return masks


def _places(names: tuple[str, ...], place: Mapping[str, int]) -> tuple[int, ...]:
    """The indices of *names*, without duplicates."""
    return (place[names[0]],) if len(names) == 1 else tuple([place[name] for name in dict.fromkeys(names)])


def strong_parts(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected components of a graph of integers, successors first.

    Tarjan's algorithm with an explicit stack, so long chains do not overflow.
    """
    count = len(successors)
    parts: list[list[int]] = []
    number = [0] * (count + 1)  # visit order, from 1
    low = [0] * (count + 1)  # low link; above all indices once the component is emitted
    open_: list[int] = []  # visited, component not yet emitted
    path, ways = [count], [iter(range(count))]  # start at an extra node that leads to all others
    begun = 0
    while True:
        node = path[-1]
        for target in ways[-1]:
            if not number[target]:
                begun += 1
                number[target] = low[target] = begun
                open_.append(target)
                path.append(target)
                ways.append(iter(successors[target]))
                break
            if low[target] < low[node]:
                low[node] = low[target]
        else:
            if node == count:
                return parts
            path.pop()
            ways.pop()
            if low[node] < number[node]:
                low[path[-1]] = min(low[path[-1]], low[node])
                continue
            part: list[int] = []
            while node not in part[-1:]:
                part.append(open_.pop())
                low[part[-1]] = count + 1
            parts.append(part)
