"""What a run used: tokens, money and time, in total and by agent."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from coterie.journal.records import NO_USAGE, AttemptFailed, Record, TurnCancelled, TurnFinished, TurnStarted, Usage


class Totals(Struct, kw_only=True, gc=False):
    """What one agent, or a whole run, has used so far.

    Attributes:
        turns: Turns started.
        attempts: Attempts started; a turn has at least one.
        nested: Turns inside child runs, which are known when the child's turn ends.
        cached_tokens: Those of the input tokens that a provider had in its cache.
        cost: US dollars, as far as backends know it.
        unpriced: Answers without a known price; *cost* leaves them out.
        seconds: Time the attempts ran, added up.
    """

    turns: int = 0
    attempts: int = 0
    nested: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    cached_tokens: int = 0
    unpriced: int = 0

    def add(self, used: Usage) -> None:
        """Add what one attempt used."""
        self.nested += used.turns
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cost += used.cost
        self.seconds += used.seconds
        self.cached_tokens += used.cached_tokens
        self.unpriced += used.unpriced


class UsageView:
    """Adds up what a run used; its children's use is in the turns that they are.

    Attributes:
        agents: What each agent used, in order of first start.
    """

    def __init__(self) -> None:
        self.agents: dict[str, Totals] = {}
        self._turns: dict[str, Totals] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            TurnStarted: self._started,
            TurnFinished: self._used,
            AttemptFailed: self._used,
            TurnCancelled: self._used,
        }

    @property
    def total(self) -> Totals:
        """What all agents used together."""
        total = Totals()
        for agent in self.agents.values():
            for name in Totals.__struct_fields__:
                setattr(total, name, getattr(total, name) + getattr(agent, name))
        return total

    def apply(self, record: Record) -> None:
        """Take the next record in."""
        if (handler := self._handlers.get(type(record))) is not None:
            handler(record)

    def _started(self, record: TurnStarted) -> None:
        totals = self._turns.get(record.turn)
        if totals is None:
            totals = self._turns[record.turn] = self.agents.setdefault(record.agent, Totals())
            totals.turns += 1
        totals.attempts += 1

    def _used(self, record: TurnFinished | AttemptFailed | TurnCancelled) -> None:
        totals = self._turns.get(record.turn)
        if totals is not None and record.usage is not NO_USAGE:
            totals.add(record.usage)


def fold(records: Iterable[Record]) -> UsageView:
    """The view of *records*, which begin at a run's first."""
    view = UsageView()
    apply = view.apply
    for record in records:
        apply(record)
    return view
