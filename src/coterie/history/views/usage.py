"""The usage of a run: tokens, money and time, in total and by agent."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from msgspec import Struct

from coterie.history.journal import records as r


class Totals(Struct, kw_only=True, gc=False):
    """The usage of one agent, or of a whole run, so far.

    Attributes:
        turns: Turns started.
        attempts: Attempts started; a turn has at least one.
        nested: Turns inside child runs, known when the child's turn ends.
        cached_tokens: Input tokens that a provider had in its cache.
        cost: US dollars, as reported by backends.
        unpriced: Answers without a known price, which *cost* does not include.
        seconds: Total time of the attempts; an attempt that a crash cut off counts until the last record before that.
        unsettled: US dollars that lost attempts may have cost, beyond their reported cost.
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
    unsettled: float = 0.0

    def add(self, used: r.Usage) -> None:
        """Add the usage of one attempt."""
        self.nested += used.turns
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cost += used.cost
        self.seconds += used.seconds
        self.cached_tokens += used.cached_tokens
        self.unpriced += used.unpriced
        self.unsettled += used.unsettled

    def merge(self, other: "Totals") -> None:
        """Add the usage in *other*."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


Label = Callable[[r.TurnStarted], str | None]


class UsageView:
    """Sums up the usage of a run; usage of a child run counts in its turn.

    Args:
        label: Returns the label that a turn counts for; None: it does not count. By default its agent.

    Attributes:
        agents: The usage of each agent or label, in order of first start.
    """

    def __init__(self, label: Label = attrgetter("agent")) -> None:
        self._label = label
        self.agents: dict[str, Totals] = {}
        self._turns: dict[str, Totals] = {}
        self._began: dict[str, float] = {}
        self._steps: dict[str, r.Usage] = {}
        self._last = self._crashed = 0.0
        self._handlers: dict[type, Callable[[Any], None]] = {
            r.TurnStarted: self._started,
            r.AttemptStep: self._stepped,
            r.TurnFinished: self._used,
            r.AttemptFailed: self._used,
            r.AttemptInterrupted: self._used,
            r.TurnCancelled: self._used,
            r.RunOwned: self._owned,
            r.RunReopened: self._reopened,
        }

    @property
    def total(self) -> Totals:
        """The usage of all agents together."""
        total = Totals()
        for agent in self.agents.values():
            total.merge(agent)
        return total

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        if (handler := self._handlers.get(type(record))) is not None:
            handler(record)
        self._last = record.at

    def _owned(self, record: r.RunOwned) -> None:
        self._crashed = self._last

    def _reopened(self, record: r.RunReopened) -> None:
        for turn, usage in record.reported.items():
            if (totals := self._turns.get(turn)) is not None:
                totals.add(r.NO_USAGE - usage)

    def _started(self, record: r.TurnStarted) -> None:
        totals = self._turns.get(record.turn)
        if totals is None:
            if (label := self._label(record)) is None:
                return
            totals = self._turns[record.turn] = self.agents.setdefault(label, Totals())
            totals.turns += 1
        totals.attempts += 1
        self._began[record.turn] = record.at

    def _stepped(self, record: r.AttemptStep) -> None:
        if (totals := self._turns.get(record.turn)) is not None:
            self._steps[record.turn] = self._steps.get(record.turn, r.NO_USAGE) + record.usage
            totals.add(record.usage)

    def _used(self, record: r.TurnFinished | r.AttemptFailed | r.AttemptInterrupted | r.TurnCancelled) -> None:
        totals = self._turns.get(record.turn)
        if totals is None:
            return
        counted = self._steps.pop(record.turn, r.NO_USAGE)
        if record.usage is not counted:
            totals.add(record.usage - counted)
        began = self._began.pop(record.turn, None)
        is_cut_off = isinstance(record, r.AttemptInterrupted | r.TurnCancelled)
        if began is not None and not record.usage.seconds and is_cut_off:
            ended = self._crashed if getattr(record, "reason", "") == "crash" else record.at
            totals.seconds += max(ended - began, 0.0)


def fold(records: Iterable[r.Record]) -> UsageView:
    """The view of *records*, which begin with a run's first record."""
    view = UsageView()
    apply = view.apply
    for record in records:
        apply(record)
    return view
