"""The longest and the shortest paths through all states of a flow.

States have no cycle, so each is computed in one pass, from the ends to the start or back.
"""

from collections.abc import Callable, Mapping

from coterie.proofs.exploration import END, Edge, Space
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


def so_far(
    space: Space, weigh: Callable[[Step], float], admit: Admit
) -> tuple[list[float], dict[int, tuple[int, Step]]]:
    """For each state the least weight of a path from the start to it, and the step before it on such a path."""
    found = [float("inf")] * len(space.edges)
    before: dict[int, tuple[int, Step]] = {}
    if space.first != END:
        found[space.first] = 0.0
    for state in range(len(space.edges) - 1, -1, -1):
        here = found[state]
        for step, to in space.edges[state] if here < float("inf") else ():
            if to != END and admit(step) and (weight := here + weigh(step)) < found[to]:
                found[to], before[to] = weight, (state, step)
    return found, before


def descend(space: Space, at: int, choose: Callable[[Edge], float | None]) -> list[Step]:
    """The path from *at* to an end that takes, at each state, the edge with the least value of *choose*."""
    way: list[Step] = []
    while at != END:
        rated = [(value, n) for n, edge in enumerate(space.edges[at]) if (value := choose(edge)) is not None]
        edge = space.edges[at][min(rated)[1]]
        way.append(edge.step)
        at = edge.to
    return way


def back(space: Space, before: Mapping[int, tuple[int, Step]], state: int) -> list[Step]:
    """The path from the start to *state* by the steps that `so_far` found."""
    way: list[Step] = []
    while state != space.first:
        state, step = before[state]
        way.append(step)
    return way[::-1]
