"""Partial-order reduction: of independent turns, explore only one order of their ends.

A running turn may be explored first, and alone, if nothing that can happen while it runs affects what its end affects:
no mark by a loop arrow, no condition, no counter, no shared agent, and no failure that ends the run. A node that both
mark is a join that waits for both. Then every run equals, except for the order of such steps, a run that explores it
first: the same turns, the same arrows, the same end. (In model checking, a persistent set of one.)
"""

from coterie.proofs.shape import FlowShape
from coterie.proofs.state import FlowState, bits
from coterie.proofs.system import FlowSystem


class Order:
    """Selects the turn that may be explored first."""

    def __init__(self, system: FlowSystem) -> None:
        self._shape = shape = system.shape
        self._chosen: dict[tuple[int, int, tuple[int, ...]], int | None] = {}
        self._facts = [_Facts(shape, node) for node in range(len(shape.names))]
        self._blocks = [
            sum(1 << other for other in range(len(shape.names)) if shape.upstream[other] >> node & 1)
            for node in range(len(shape.names))
        ]
        self._reach = [facts.targets | blocks for facts, blocks in zip(self._facts, self._blocks, strict=True)]
        """The nodes that the end of each turn marks or unblocks; *_starts* has the agents that may start then."""
        self._starts = [
            facts.agents.union(*(self._facts[n].agents for n in bits(reach)))
            for facts, reach in zip(self._facts, self._reach, strict=True)
        ]
        self._heeding = sum(1 << node for node, facts in enumerate(self._facts) if facts.heeds)
        """The nodes that others can affect; two nodes outside this set never affect each other."""
        self._is_off = any(group.on_max == "human" for group in shape.groups)  # rounds without end: no order is first

    def first(self, state: FlowState) -> list[int] | None:
        """The node whose turn may be explored first in *state*; None: any order may matter."""
        if self._is_off:
            return None
        waiting = tuple(node for node, _ in state.postponed)
        key = state.running, state.marked, waiting
        if key not in self._chosen:
            candidates = [node for node in bits(state.running) if node not in waiting]
            free = (node for node in candidates if self._is_free(node, state))
            self._chosen[key] = next(free, None) if len(candidates) > 1 else None
        node = self._chosen[key]
        return None if node is None else [node]

    def _is_free(self, node: int, state: FlowState) -> bool:
        """Whether nothing that may happen while *node* runs affects what the end of its turn affects."""
        mine, my_reach, my_starts = self._facts[node], self._reach[node], self._starts[node]
        if mine.fails:
            return False
        meanwhile = self._meanwhile(node, state)
        if (mine.targets | 1 << node) & meanwhile:
            return False
        for other in bits(meanwhile if mine.heeds else meanwhile & self._heeding):
            theirs, their_reach = self._facts[other], self._reach[other]
            if theirs.fails or theirs.loops & (my_reach | 1 << node) or mine.loops & (their_reach | 1 << other):
                return False
            if mine.reads & theirs.writes or theirs.reads & mine.writes:
                return False
            if not (mine.scopes | mine.fallbacks).isdisjoint(self._starts[other]):
                return False
            if not (theirs.scopes | theirs.fallbacks).isdisjoint(my_starts):
                return False
        return True

    def _meanwhile(self, node: int, state: FlowState) -> int:
        """The nodes whose turn may end before that of *node*: running ones, and all that may start without it."""
        free = ~self._blocks[node]
        found = state.running & ~(1 << node) | state.marked & free
        front = bits(found)
        while front:
            new = self._facts[front.pop()].targets & ~found & free
            found |= new
            front += bits(new)
        return found


class _Facts:
    """The effects of the end, or the start, of a node's turn.

    Attributes:
        targets: The nodes that its arrows mark.
        loops: Those that a loop arrow marks.
        reads: The conditions that its groups read.
        writes: The conditions that its outputs decide.
        agents: The agents that may run at it.
        fallbacks: Those that are not the node's own.
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
        members = {n for n in shape.names if phases is not None and shape.agent(n).phase == phases}
        self.scopes = frozenset({group.per for _, group in groups if group.per not in ("run", "phase")} | members)
        self.fails = any(group.on_max == "fail" for _, group in groups)
        self.heeds = bool(self.fails or self.loops or self.reads or self.scopes or self.fallbacks)
