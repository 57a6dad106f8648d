"""Walk through all states of a flow, and find the longest and shortest ways through them.

A flow whose loops are bounded has no cycle of states, so the longest way is found in one pass from the ends to the
start, and so is the shortest. Only a human who may grant further rounds makes a cycle; the walk says where.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from coterie.errors import CoterieError
from coterie.proofs.order import Order
from coterie.proofs.state import State, Step
from coterie.proofs.system import FlowSystem

Amounts = tuple[float, ...]
"""One amount for each measure: turns in total, turns of one agent, dollars."""

END = -1


class OverBudget(CoterieError):
    """There are more states than may be looked at."""


class Edge(NamedTuple):
    """A step from one state to another; `END` when it ends the run."""

    step: Step
    to: int


class Space:
    """All states of a system, numbered so that a step leads to a lower number (but for rounds without end).

    Attributes:
        edges: By state, its steps.
        first: The state a run begins in; `END` if nothing ever runs.
        begins: The turns a run begins with.
        again: The steps by which a human grants a further round. They are no edges: how many there are, nobody knows.
        endless: A step that closes a cycle without any human; None: every way ends.
    """

    def __init__(self, system: FlowSystem, budget: int, *, reduced: bool = True) -> None:
        self._system, self._budget = system, budget
        self._order = Order(system) if reduced else None
        self._steps: dict[Step, Step] = {}
        self.states: list[State] = []
        self.edges: list[list[Edge]] = []
        self.again: list[tuple[Step, State]] = []
        self.endless: Step | None = None
        self.begins, start = system.start()
        self._number: dict[State, int] = {}  # of states that are done; END while they are open
        if start.running:
            self._walk(start)
            for _, granted in self.again:  # grows while it is walked
                self._walk(granted)
        self.first = self._number.get(start, END)

    def _walk(self, start: State) -> None:
        number = self._number
        if start in number:
            return
        number[start] = END
        path: list[tuple[State, Iterator[tuple[Step, State]], list[tuple[Step, State]]]] = []
        path.append((start, self._steps_from(start), []))
        while path:
            state, rest, taken = path[-1]
            for step, to in rest:
                step = self._steps.setdefault(step, step)
                if step.how == "again":
                    self.again.append((step, to))
                    continue
                if step.over:
                    taken.append((step, to))
                    continue
                known = number.get(to)
                if known == END:
                    self.endless = step
                    continue
                taken.append((step, to))
                if known is None:
                    if len(number) >= self._budget:
                        raise OverBudget(f"more than {self._budget} states")
                    number[to] = END
                    path.append((to, self._steps_from(to), []))
                    break
            else:
                path.pop()
                number[state] = len(self.edges)
                self.states.append(state)
                self.edges.append([Edge(step, END if step.over else number[to]) for step, to in taken])

    def _steps_from(self, state: State) -> Iterator[tuple[Step, State]]:
        return self._system.steps(state, self._order.first(state) if self._order is not None else None)

    def all_steps(self) -> Iterator[Step]:
        """Every step that can happen, each once."""
        return iter(self._steps)


Weigh = Callable[[Step], Amounts]
Admit = Callable[[Step], bool]
NEVER: Amounts = ()
"""No way leads to an end."""


def most(space: Space, weigh: Weigh, size: int, ends: Admit, halting: Callable[[State], Amounts]) -> list[Amounts]:
    """For each state the most of each of *size* measures that can still come, each by itself; `NEVER` without an end.

    Args:
        ends: Whether a step that ends the run counts as an end.
        halting: What a failure counts that ends the run in a state; `NEVER` if it is no end.
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
    """For each state the least that a way to an end that counts can weigh; infinite where there is none.

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
    """For each state the least that a way from the start to it can weigh."""
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
    """The way from *at* to an end that takes, at each state, the edge with the least of what *choose* says."""
    way: list[Step] = []
    while at != END:
        rated = [(value, n) for n, edge in enumerate(space.edges[at]) if (value := choose(edge)) is not None]
        edge = space.edges[at][min(rated)[1]]
        way.append(edge.step)
        at = edge.to
    return way
