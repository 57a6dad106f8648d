"""The longest and the shortest paths through all states of a flow.

States have no cycle, so each is computed in one pass, from the ends to the start or back.
"""

from collections.abc import Callable

from coterie.proofs.exploring import END, Edge, Space
from coterie.proofs.state import FlowState, Step

Amounts = tuple[float, ...]
"""One amount for each measure: turns in total, turns of one agent, dollars."""
Weigh = Callable[[Step], Amounts]
Admit = Callable[[Step], bool]
NEVER: Amounts = ()
"""No path leads to an end."""


def most(space: Space, weigh: Weigh, size: int, ends: Admit, halting: Callable[[FlowState], Amounts]) -> list[Amounts]:
    """For each state the most of each of *size* measures that can still follow, each by itself; `NEVER` without an end.

    Args:
        ends: Whether a step that ends the run counts as an end.
        halting: The amounts of a failure that ends the run in a state; `NEVER` if it is no end.
    """
    nothing = (0.0,) * size
    found: list[Amounts] = []
    for state, edges in enumerate(space.edges):
        best = halting(space.states[state])
        for step, to in edges:
            if to == END and not ends(step):
                continue
            rest = nothing if to == END else found[to]
            if rest is NEVER:
                continue
            amounts = tuple(map(float.__add__, weigh(step), rest))
            best = amounts if best is NEVER else tuple(map(max, best, amounts))
        found.append(best)
    return found


def fewest(space: Space, weigh: Callable[[Step], float], admit: Admit, ends: Admit) -> list[float]:
    """For each state the least weight of a path to an end; infinite if there is none.

    Args:
        admit: Whether a step may be taken.
        ends: Whether a step that ends the run counts as an end.
    """
    found: list[float] = []
    for edges in space.edges:
        best = float("inf")
        for step, to in edges:
            if admit(step) and (to != END or ends(step)):
                best = min(best, weigh(step) + (0.0 if to == END else found[to]))
        found.append(best)
    return found


def so_far(space: Space, weigh: Callable[[Step], float], admit: Admit) -> list[float]:
    """For each state the least weight of a path from the start to it."""
    found = [float("inf")] * len(space.edges)
    if space.first != END:
        found[space.first] = 0.0
    for state in range(len(space.edges) - 1, -1, -1):
        here = found[state]
        if here == float("inf"):
            continue
        for step, to in space.edges[state]:
            if to != END and admit(step):
                found[to] = min(found[to], here + weigh(step))
    return found


def descend(space: Space, at: int, choose: Callable[[Edge], float | None]) -> list[Step]:
    """The path from *at* to an end that takes, at each state, the edge with the least value of *choose*."""
    way: list[Step] = []
    while at != END:
        rated = [(value, n) for n, edge in enumerate(space.edges[at]) if (value := choose(edge)) is not None]
        edge = space.edges[at][min(rated)[1]]
        way.append(edge.step)
        at = edge.to
    return way


class Back:
    """Finds the path from the start to a state by the weights of `so_far`."""

    def __init__(self, space: Space, to: list[float], weigh: Callable[[Step], float], admit: Admit) -> None:
        self._space, self._to, self._weigh, self._admit = space, to, weigh, admit
        self._before: dict[int, tuple[int, Step]] | None = None

    def way(self, state: int) -> list[Step]:
        """A path of the fewest turns to *state*."""
        if self._before is None:
            self._before = self._find()
        way: list[Step] = []
        while state != self._space.first:
            state, step = self._before[state]
            way.append(step)
        return way[::-1]

    def _find(self) -> dict[int, tuple[int, Step]]:
        before: dict[int, tuple[int, Step]] = {}
        for state in range(len(self._space.edges) - 1, -1, -1):
            if self._to[state] == float("inf"):
                continue
            for step, to in self._space.edges[state]:
                if to == END or to in before or not self._admit(step):
                    continue
                if self._to[state] + self._weigh(step) == self._to[to]:
                    before[to] = state, step
        return before
