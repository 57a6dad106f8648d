"""The longest and the shortest paths through all states of a flow.

States have no cycle, so one pass suffices, from the ends to the start or vice versa.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from coterie.proofs.exploration import END, Edge, Space
from coterie.proofs.state import FlowState, Step

Amounts = tuple[float, ...]
"""One amount for each measure: turns in total, turns of one agent, dollars."""
Gains = dict[int, float]
"""The amounts that are not zero, by the place of their measure."""
Weigh = Callable[[Step], Gains]
Admit = Callable[[Step], bool]
NEVER: Amounts = ()
"""No path leads to an end."""


def most(
    space: Space, weigh: Weigh, size: int, ends: Admit, halting: Callable[[FlowState], Amounts]
) -> tuple[list[float], Amounts]:
    """The most turns from each state to an end, -1 without an end; and from the first state, the maximum of each of
    *size* measures, independently, `NEVER` without an end.

    Args:
        ends: Whether a step that ends the run counts as an end.
        halting: The amounts of a failure that ends the run in a state; `NEVER` if a failure does not count as an end.
    """
    turns: list[float] = []
    amounts: dict[int, list[float]] = {}
    """The amounts of the states that later ones lead to; the last of these takes the list over."""
    uses = Counter(edge.to for edges in space.edges for edge in edges)
    uses[space.first] += 1
    for state, edges in enumerate(space.edges):
        best = list(halting(space.states[state]))
        for step, to in edges:
            uses[to] -= 1
            if to == END or to not in amounts:
                continue
            rest = amounts[to].copy() if uses[to] else amounts.pop(to)
            for n, gain in weigh(step).items():
                rest[n] += gain
            best = list(map(max, best, rest)) if best else rest
        for gains in (weigh(step) for step, to in edges if to == END and ends(step)):
            best = best or [0.0] * size
            for n, gain in gains.items():
                best[n] = max(best[n], gain)
        turns.append(best[0] if best else -1.0)
        if best:
            amounts[state] = best
    return turns, tuple(amounts.get(space.first, NEVER))


def fewest(space: Space, weigh: Callable[[Step], float], admit: Admit, ends: Admit) -> list[float]:
    """For each state, the least weight of a path to an end; infinite if there is none.

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
    """For each state, the least weight of a path from the start to it, and the last step of such a path."""
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
