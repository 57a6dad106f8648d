"""Sets: the starts of mapped nodes, each of which works on the items of a list.

A set knows which of its items are due, open and ended; the engine decides what follows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coterie.team.planning.plan import MapPlan


class Given(NamedTuple):
    """What one item gave."""

    text: str
    outputs: dict[str, Any]


class OpenSet:
    """A set that has not ended.

    An item holds its place of `at-once` from its first attempt until it has ended.

    Attributes:
        id: Its name in records.
        first: The number of the first item's turn; *number* is that of the next set's.
        inputs: The turns and sets whose results marked it; its items are shown *shown*.
        begun: Whether its start is recorded.
        ending: Whether all its items have ended, or its `until` holds.
        closed: Whether its end is decided.
        given: What each ended item gave; None for one that has no result.
        helpers: How many items each fallback works on.
    """

    def __init__(self, id: str, node: str, plan: MapPlan, items: Sequence[Any], first: int) -> None:
        self.id, self.node, self.plan, self.items, self.first = id, node, plan, items, first
        self.inputs: tuple[str, ...] = ()
        self.shown: tuple[str, ...] = ()
        self.begun = self.closed = self.early = False
        self.ending = not items
        self.given: dict[int, Given | None] = {}
        self.helpers: Counter[str] = Counter()
        self._next = 0
        self._open = 0
        self._tolerated = 0
        self._only_skipped = True

    def due(self, at_once: int | None) -> Iterable[int]:
        """Take places for the items that start now, in order; *at_once* is the run's own limit."""
        most = self.plan.at_once or at_once or len(self.items)
        while not self.ending and self._open < most and self._next < len(self.items):
            self._open += 1
            self._next += 1
            yield self._next - 1

    def finish(self, item: int, given: Given) -> None:
        """Note that *item* has its result."""
        self._end(item, given)
        until = self.plan.until
        if until is not None and until.field in given.outputs:
            value = given.outputs[until.field]
            self.early = value is not None and until.compares(value)
        self.ending = self.ending or self.early

    def drop(self, item: int, *, skipped: bool) -> None:
        """Note that *item* ended without a result; *skipped*: without judging what follows."""
        self._only_skipped = self._only_skipped and skipped
        self._end(item, None)

    def tolerates(self) -> bool:
        """Whether one more item may fail; it is counted if so."""
        if self._tolerated == self.plan.tolerated(len(self.items)):
            return False
        self._tolerated += 1
        return True

    @property
    def ends_path(self) -> bool:
        """Whether no arrow is judged, because every one of its items was skipped."""
        return bool(self.items) and self._only_skipped and not any(self.given.values())

    @property
    def done(self) -> int:
        """How many items have a result."""
        return sum(given is not None for given in self.given.values())

    def outputs(self, declared: Iterable[str]) -> tuple[str, ...]:
        """The names of its outputs: the *declared* ones, then the others that an item gave."""
        gave = (name for k in sorted(self.given) if (given := self.given[k]) is not None for name in given.outputs)
        return tuple(dict.fromkeys((*declared, *gave)))

    def results(self) -> list[Given | None]:
        """What each item gave, in the order of the items."""
        return [self.given.get(k) for k in range(len(self.items))]

    def _end(self, item: int, given: Given | None) -> None:
        self.given[item] = given
        self._open -= 1
        self.ending = self.ending or len(self.given) == len(self.items)


def joined(results: Sequence[Given | None], names: Iterable[str]) -> Given:
    """The text of a set, which is the texts of its items, and its outputs, which are lists."""
    outputs = {name: [one.outputs.get(name) if one is not None else None for one in results] for name in names}
    return Given("\n\n".join([one.text for one in results if one is not None and one.text]), outputs)
