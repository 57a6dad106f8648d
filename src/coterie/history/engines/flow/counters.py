"""Count how often groups fire: their `max` applies within the scope of `per`."""

from collections import Counter
from collections.abc import Mapping, Sequence

from coterie.team.topology.model import ArrowGroup


class Counters:
    """Counts the firings of groups that have a `max`.

    A new scope begins, with new counters, at each start of the agent that `per` names, or each time the phase
    of the group's source is entered: when one of its agents starts on a mark from an agent of another phase or of
    none. Without phases, `per phase` is `per run`.

    Args:
        phases: The phase of each node that has one.
    """

    def __init__(self, groups: Sequence[ArrowGroup], phases: Mapping[str, float]) -> None:
        self._groups = groups
        self._phases = phases
        self._entered: Counter[float] = Counter()
        self._started: dict[str, int] = {}
        self._numbers: dict[str, int] = {}  # how many turns of each agent have numbers
        self._fired: dict[int, tuple[int, int]] = {}  # group -> (scope, firings within it)

    def start_agent(self, agent: str, turns: int = 1) -> int:
        """Count a start of *agent*, and reserve the numbers of its *turns*, as `number` does."""
        self._started[agent] = self._started.get(agent, 0) + 1
        return self.number(agent, turns)

    def number(self, agent: str, turns: int = 1) -> int:
        """Reserve the numbers of so many *turns* of *agent*, and return the first."""
        first = self._numbers.get(agent, 0) + 1
        self._numbers[agent] = first + turns - 1
        return first

    def start_node(self, node: str, sources: Sequence[str]) -> None:
        """Enter the phase of *node*, which is started, if one of *sources* is outside of it."""
        phase = self._phases.get(node)
        if phase is not None and any(self._phases.get(source) != phase for source in sources):
            self._entered[phase] += 1

    def fire(self, i: int) -> None:
        """Count a firing of group *i*, which has a `max`."""
        self._fired[i] = (self._scope(i), self._firings(i) + 1)

    def is_spent(self, i: int) -> bool:
        """Whether group *i* has reached its `max`."""
        bound = self._groups[i].max
        return bound is not None and self._firings(i) >= bound

    def _firings(self, i: int) -> int:
        scope, firings = self._fired.get(i, (0, 0))
        return firings if scope == self._scope(i) else 0

    def _scope(self, i: int) -> int:
        group = self._groups[i]
        match group.per:
            case "run":
                return 0
            case "phase":
                return self._entered[self._phases[group.source]] if group.source in self._phases else 0
            case agent:
                return self._started.get(agent, 0)
