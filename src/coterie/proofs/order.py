"""Partial-order reduction: explore only one order in which independent turns end.

A running turn may be explored first, and alone, if nothing that can happen meanwhile interferes with its end: no mark
by a loop arrow, no condition, no counter, no shared agent, and no failure that ends the run. (A node that both mark is
a join that waits for both.) Then every run is equal, except for the order of such steps, to a run that explores the
turn first: it has the same turns, the same arrows and the same end. In model checking this is a persistent set of one.
"""

from collections.abc import Iterator
from functools import cache

from coterie.proofs.shape import FlowShape
from coterie.proofs.state import FlowState, bits
from coterie.proofs.system import FlowSystem


class Order:
    """Selects the turn that may be explored first."""

    def __init__(self, system: FlowSystem) -> None:
        self._shape = shape = system.shape
        self._chosen: dict[tuple[int, int, tuple[int, ...]], int | None] = {}
        self._facts = [_Facts(shape, node) for node in range(len(shape.names))]
        self._blocks = cache(self._blocked_by)
        self._starts = cache(self._started_by)
        self._alike, self._waiting = dict[int, int](), dict[int, int]()
        """The nodes with the same targets, and those that wait for the same nodes, by these."""
        for node, (facts, above) in enumerate(zip(self._facts, shape.upstream, strict=True)):
            self._alike[facts.targets] = self._alike.get(facts.targets, 0) | 1 << node
            self._waiting[above] = self._waiting.get(above, 0) | 1 << node
        self._heeding = sum(1 << node for node, facts in enumerate(self._facts) if facts.heeds)
        """The nodes that others can affect; two nodes outside this set never affect each other."""
        self._is_off = bool(shape.maps) or any(group.on_max == "human" for group in shape.groups)
        """No turn is explored first where rounds may be unlimited, or where a set reads its list when it starts."""

    def first(self, state: FlowState) -> list[int] | None:
        """The node whose turn may be explored first in *state*; None: any order may matter."""
        if self._is_off:
            return None
        waiting = tuple(node for node, _ in state.postponed)
        key = state.running, state.marked, waiting
        if key not in self._chosen:
            candidates = state.running & ~sum(1 << node for node in waiting)
            free = (node for node in _lowest_first(candidates) if self._is_free(node, state))
            self._chosen[key] = next(free, None) if candidates.bit_count() > 1 else None
        node = self._chosen[key]
        return None if node is None else [node]

    def _is_free(self, node: int, state: FlowState) -> bool:
        """Whether nothing that may happen while *node* runs interferes with the end of its turn."""
        mine, my_reach, my_starts = self._facts[node], self._reach(node), self._starts(node)
        if mine.fails:
            return False
        meanwhile = self._meanwhile(node, state)
        if (mine.targets | 1 << node) & meanwhile:
            return False
        for other in bits(meanwhile if mine.heeds else meanwhile & self._heeding):
            theirs, their_reach = self._facts[other], self._reach(other)
            if theirs.fails or theirs.loops & (my_reach | 1 << node) or mine.loops & (their_reach | 1 << other):
                return False
            if mine.reads & theirs.writes or theirs.reads & mine.writes:
                return False
            if not (mine.scopes | mine.fallbacks).isdisjoint(self._starts(other)):
                return False
            if not (theirs.scopes | theirs.fallbacks).isdisjoint(my_starts):
                return False
        return True

    def _blocked_by(self, node: int) -> int:
        """The nodes that wait for *node* while it is in flight."""
        return sum(nodes for above, nodes in self._waiting.items() if above >> node & 1)

    def _reach(self, node: int) -> int:
        """The nodes that the end of a turn marks or unblocks."""
        return self._facts[node].targets | self._blocks(node)

    def _started_by(self, node: int) -> frozenset[str]:
        """The agents that may start when a turn of *node* ends."""
        return self._facts[node].agents.union(*(self._facts[n].agents for n in bits(self._reach(node))))

    def _meanwhile(self, node: int, state: FlowState) -> int:
        """The nodes whose turn may end before that of *node*: running nodes, and nodes that may start without it."""
        free = ~self._blocks(node)
        found = state.running & ~(1 << node) | state.marked & free
        front = found
        while front:
            targets = self._facts[(front & -front).bit_length() - 1].targets
            new = targets & ~found & free
            found |= new
            front = front & ~self._alike[targets] | new
        return found


def _lowest_first(mask: int) -> Iterator[int]:
    """The positions of the set bits of *mask*, each found when it is needed."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Facts:
    """The effects of the end, or the start, of a node's turn.

    Attributes:
        targets: The nodes that its arrows mark.
        loops: The targets that a loop arrow marks.
        reads: The conditions that its groups read.
        writes: The conditions that its outputs decide.
        agents: The agents that may run at it.
        fallbacks: The agents other than the node's own.
        scopes: The agents whose starts reset its counters.
        fails: Whether its end can fail the run, whichever agent answers.
    """

    def __init__(self, shape: FlowShape, node: int) -> None:
        name, groups = shape.names[node], [(i, shape.groups[i]) for i in shape.out[node]]
        self.targets = self.loops = self.reads = 0
        for i, _ in groups:
            for target in shape.targets[i]:
                self.targets |= 1 << target
                if shape.graph.is_loop(i, shape.names[target]):
                    self.loops |= 1 << target
            if shape.condition_of[i] >= 0:
                self.reads |= 1 << shape.condition_of[i]
        self.writes = shape.own[node]
        self.agents = frozenset(shape.chains[node])
        self.fallbacks = self.agents - {name}
        phases = shape.agent(name).phase if any(group.per == "phase" for _, group in groups) else None
        members = {n for n in shape.names if shape.agent(n).phase == phases} if phases is not None else set[str]()
        self.scopes = frozenset({group.per for _, group in groups if group.per not in ("run", "phase")} | members)
        self.fails = any(group.on_max == "fail" for _, group in groups)
        self.heeds = bool(self.fails or self.loops or self.reads or self.scopes or self.fallbacks)
