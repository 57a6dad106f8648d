"""How a failed run goes on: the part of its fold that a `run.reopened` concerns.

The engine does not take back what it decided. Between the record that ended the run and its reopening nothing is
decided at all: the fold keeps what happened then (`take_void`), and after the reopening the engine takes that in.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

from coterie.engines.commands import Command, Engine
from coterie.ids import attempt_id
from coterie.journal import records as r
from coterie.journal.owned import OwnedTime
from coterie.kernel.commands import NextAttempt, Turn
from coterie.kernel.retries import RetryCount

_END = r.RunFinished | r.TreesJoined | r.TreeMerged | r.TreeCleared | r.RunNotified
"""The end of a run and the steps before it."""


class Reopenable:
    """The state of a run, as far as it can be reopened; see `coterie.kernel.fold.Fold`."""

    engine: Engine
    turns: dict[str, Turn]
    todo: dict[r.Cause, Command | NextAttempt]
    time: OwnedTime
    used: r.Usage
    parked: dict[str, tuple[r.AttentionAsked, r.OperatorSaid | None]]
    _waiting: dict[str, r.Cause]

    def __init__(self) -> None:
        self._reopenings: deque[r.RunReopened] = deque()
        """Those to come, of the journal that is folded."""
        self._late: list[r.Record] = []
        """What came between a failure that ended the run and its reopening."""

    @abstractmethod
    def _take(self, record: r.Record, command: Command | NextAttempt | None) -> list[Command | NextAttempt]:
        """Take *record* in without the engine."""

    @abstractmethod
    def _settle_cost(self, turn: Turn, usage: r.Usage) -> None:
        """Count what an attempt of *turn* used."""

    def _reopening(self, record: r.Record) -> r.RunReopened | None:
        """The reopening that makes void what was decided at *record*, or that it is."""
        return self._reopenings[0] if self._reopenings and record.seq >= self._reopenings[0].since else None

    def _take_void(self, record: r.Record, reopened: r.RunReopened) -> list[Command | NextAttempt]:
        """Take *record* in, which came between the failure that ended the run and *reopened*.

        Turns that the failure cancelled were cut off.
        """
        if isinstance(record, _END):
            return []
        if not isinstance(record, r.TurnFailed | r.TurnCancelled) or record.turn not in reopened.asked:
            self._late.append(record)
            return self._take(record, None)
        turn = self.turns.get(record.turn)
        if isinstance(record, r.TurnFailed):
            self._void(record.turn)
        elif turn is not None and turn.status == "running":
            attempt, usage = turn.attempt, record.usage
            cut = r.AttemptInterrupted(
                seq=record.seq, at=record.at, turn=record.turn, attempt=attempt, reason="interrupted", usage=usage
            )
            self._late.append(cut)
            if turn.slot:
                return self._take(cut, None)
            self._settle_cost(turn, usage)
            turn.status = "between"  # a question to a human, or a team: neither had done anything by itself
        return []

    def _reopen(self, record: r.RunReopened) -> list[Command | NextAttempt]:
        """Let the run go on: its failed turns get their next attempts, or their child runs are reopened."""
        follows: list[Command | NextAttempt] = []
        for name in record.asked:
            turn = self.turns.get(name)
            if turn is None:
                continue  # it was cancelled before its start, for which it still waits
            if attempt_id(name, turn.attempt) in record.below:
                self._void(name)
                turn.status, turn.asked, turn.since = "running", record.at, self.time.seconds
                turn.failure, turn.reopened = None, record
            elif not isinstance(waiting := self.todo.get(self._waiting.get(name, (0, 0))), NextAttempt) or waiting.ask:
                self._void(name)
                self.parked.pop(name, None)
                turn.status = "between"
                follows.append(NextAttempt(turn=name, attempt=turn.attempt + 1, due=record.at))
            turn.retry_count, turn.cancelled = RetryCount(interrupted=turn.retry_count.interrupted), False
        self.used -= record.usage
        follows += self.engine.step(record)
        late, self._late = self._late, []
        for one in late:
            follows += self.engine.step(one)
        return follows

    def _void(self, turn: str) -> None:
        """Forget what is decided for *turn*, which does not run."""
        self.todo.pop(self._waiting.pop(turn, (0, 0)), None)


def reported(records: Sequence[r.Record], below: Iterable[str]) -> dict[str, r.Usage]:
    """Usage that turns of the run with *records* have reported whose child runs, *below* it, are reopened.

    Args:
        below: The attempts that these are; those of child runs are left out.
    """
    found: dict[str, r.Usage] = {}
    attempts = {attempt.rpartition(".")[0]: attempt for attempt in below if "/" not in attempt}
    for record in records:
        match record:
            case r.RunReopened():
                found.clear()  # it was taken back
            case r.AttemptFailed(turn=turn, attempt=n, usage=usage) if attempts.get(turn) == attempt_id(turn, n):
                found[turn] = usage
            case r.TurnCancelled(turn=turn, usage=usage) if turn in attempts:
                found[turn] = usage
    return {turn: usage for turn, usage in found.items() if usage != r.NO_USAGE}


def reopened_below(above: Turn, records: Sequence[r.Record], now: float) -> r.RunReopened | None:
    """The record by which the child run that *above* is, with *records*, is to be reopened; None: it is not."""
    record, last = above.reopened, records[-1] if records else None
    key = attempt_id(above.ask.turn, above.attempt)
    if record is None or last is None or not record.below.get(key):
        return None
    if any(isinstance(one, r.RunReopened) and one.above == record.seq for one in records):
        return None
    start = f"{key}/"
    below = {name[len(start) :]: since for name, since in record.below.items() if name.startswith(start)}
    return r.RunReopened(
        seq=last.seq + 1,
        at=max(now, last.at),
        source=record.source,
        turns=tuple(name[len(start) :] for name in record.turns if name.startswith(start)),
        below=below,
        since=record.below[key],
        reported=reported(records, below),
        by=record.by,
        reason=last.reason if isinstance(last, r.RunFinished) else "",
        above=record.seq,
    )
