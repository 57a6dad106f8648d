"""Explore all states of a flow.

A flow with bounded loops has no cycle of states, unless a human may grant further rounds; the exploration reports such
cycles.
"""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.errors import CoterieError
from coterie.proofs.order import Order
from coterie.proofs.state import FlowState, Step
from coterie.proofs.system import FlowSystem

END = -1

STEPS_A_STATE = 4
"""The maximum number of explored steps per allowed state; a step with many counters or arrows counts several times."""


class OverBudget(CoterieError):
    """The limit of states or steps is exceeded; the message says which."""


class Edge(NamedTuple):
    """A step from one state to another; `END` when it ends the run."""

    step: Step
    to: int


class Space:
    """All states of a system, numbered so that a step leads to a lower number (except endless rounds).

    Attributes:
        edges: The steps of each state.
        first: The initial state of a run; `END` if nothing ever runs.
        begins: The turns that start with the run.
        again: The steps by which a human grants a further round. They are not edges, because their number is unlimited.
        endless: A path that returns to an earlier state without a human; None: every path ends.
    """

    def __init__(self, system: FlowSystem, budget: int, *, reduced: bool = True) -> None:
        self._system, self._budget, self._effort = system, budget, STEPS_A_STATE * budget
        if sum(system.effort) > self._effort:
            raise OverBudget("too many steps to explore")
        self._order = Order(system) if reduced else None
        self._steps: dict[Step, Step] = {}
        self.states: list[FlowState] = []
        self.edges: list[list[Edge]] = []
        self.again: list[tuple[Step, FlowState]] = []
        self.endless: list[Step] | None = None
        self.begins, start = system.start()
        self._number: dict[FlowState, int] = {}  # of explored states; END while they are open
        if start.running:
            self._walk(start)
            for _, granted in self.again:  # grows while it is walked
                self._walk(granted)
        self.first = self._number.get(start, END)

    def _walk(self, start: FlowState) -> None:
        number = self._number
        if start in number:
            return
        number[start] = END
        path: list[tuple[FlowState, Iterator[tuple[Step, FlowState]], list[tuple[Step, FlowState]]]] = []
        path.append((start, self._steps_from(start), []))
        while path:
            state, rest, taken = path[-1]
            for step, to in rest:
                step = self._steps.setdefault(step, step)
                self._effort -= self._system.effort[step.node]
                if self._effort < 0:
                    raise OverBudget("too many steps to explore")
                if step.how == "again":
                    self.again.append((step, to))
                    continue
                if step.over:
                    taken.append((step, to))
                    continue
                known = number.get(to)
                if known == END:
                    self.endless = self.endless or [*(below[-1][0] for _, _, below in path[:-1]), step]
                    continue
                taken.append((step, to))
                if known is None:
                    if len(number) >= self._budget:
                        raise OverBudget("too many states to explore")
                    number[to] = END
                    path.append((to, self._steps_from(to), []))
                    break
            else:
                path.pop()
                number[state] = len(self.edges)
                self.states.append(state)
                self.edges.append([Edge(step, END if step.over else number[to]) for step, to in taken])

    def _steps_from(self, state: FlowState) -> Iterator[tuple[Step, FlowState]]:
        return self._system.steps(state, self._order.first(state) if self._order is not None else None)

    def all_steps(self) -> Iterator[Step]:
        """Every possible step, once."""
        return iter(self._steps)
