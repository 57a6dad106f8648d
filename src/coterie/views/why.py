"""Why a turn ran: its causes, back to the start of the run."""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from coterie.errors import NoSuchTurn
from coterie.journal import records as r
from coterie.views.timeline import sentence


class Reason(Struct, frozen=True, kw_only=True):
    """One link in the chain of causes.

    Attributes:
        seq: The record that says so.
        turn: The turn it explains; empty for the start of the run.
        text: A sentence, without full stop.
    """

    seq: int
    turn: str
    text: str


class Why:
    """Keeps what is needed to explain any turn of a run; feed it the run's records in order."""

    def __init__(self) -> None:
        self._records: dict[int, r.Record] = {}
        self._starts: dict[str, r.TurnStarted] = {}
        self._ends: dict[str, r.Record] = {}
        self._retried: dict[str, list[r.Record]] = {}
        self._emitted: dict[str, list[r.Record]] = {}
        self._attention: dict[str, list[r.Record]] = {}
        self._exhausted: dict[str, r.LoopExhausted] = {}
        self._actors: dict[str, list[r.Record]] = {}
        self._heard: dict[str, str] = {}
        """What a program had heard of last when it made a call: the turn that had ended, by the call's."""
        self._ended = ""

    def apply(self, record: r.Record) -> None:
        """Take the next record in."""
        self._records[record.seq] = record
        match record:
            case r.TurnStarted():
                self._starts.setdefault(record.turn, record)
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self._ends[record.turn] = record
                self._ended = record.turn
            case r.CallAsked():
                self._heard[record.turn] = self._ended
            case r.RunReopened():
                for turn in record.asked:
                    self._ends.pop(turn, None)
                    self._retried.setdefault(turn, []).append(record)
            case r.AttemptFailed() | r.AttemptInterrupted():
                self._retried.setdefault(record.turn, []).append(record)
            case r.EventEmitted() | r.GateChecked():
                self._emitted.setdefault(record.turn, []).append(record)
            case r.AttentionAsked() | r.AttentionAnswered():
                self._attention.setdefault(record.turn, []).append(record)
            case r.ActorStarted() | r.ActorStopped() | r.ActorCrashed():
                self._actors.setdefault(record.name, []).append(record)
            case r.RestartPlanned():
                for name in {record.name, record.supervisor, *record.names}:
                    self._actors.setdefault(name, []).append(record)
            case r.SupervisorFailed():
                for name in (record.name, record.child):
                    self._actors.setdefault(name, []).append(record)
            case r.LoopExhausted():
                self._exhausted[record.turn] = record

    def explain(self, turn: str, most: int | None = None) -> list[Reason]:
        """The causes of *turn*, nearest first: its start, how the turns that led to it ended, theirs, the run's start.

        Of an actor or a supervisor: what happened to it and why it was restarted.

        Args:
            most: Turns of which causes are given, the nearest; None: all.

        Raises:
            NoSuchTurn: If the run has no such turn.
        """
        first = self._records.get(1)
        if turn in self._actors:
            return [Reason(seq=one.seq, turn=turn, text=sentence(one)) for one in reversed(self._actors[turn])]
        if turn not in self._starts:
            raise NoSuchTurn(first.run if isinstance(first, r.RunStarted) else "", turn, self._starts)
        reasons = [Reason(seq=1, turn="", text=sentence(first))] if first else []
        for each in self._ancestry(turn, most):
            reasons += self._about(each, with_end=each != turn)
        return sorted(reasons, key=lambda reason: -reason.seq)

    def _ancestry(self, turn: str, most: int | None) -> list[str]:
        """*turn*, the turns that led to it, those that led to them, and so on."""
        found, left = {turn: None}, deque([turn])
        while left and (most is None or len(found) < most):
            for cause in self._causes(left.popleft()):
                if cause in self._starts and cause not in found:
                    found[cause] = None
                    left.append(cause)
        return list(found)

    def _causes(self, turn: str) -> tuple[str, ...]:
        """The turns whose results *turn* was started on; if it names none, the turn whose record asked for it."""
        start = self._starts[turn]
        return start.inputs or tuple(name for name in [self._asked_by(start)] if name)

    def _asked_by(self, start: r.TurnStarted) -> str:
        """The turn of the record that made the engine ask for *start*; empty if it is no turn's."""
        asked = self._records.get(start.cause[0]) if start.cause else None
        while asked is not None and not getattr(asked, "turn", "") and asked.cause is not None:
            asked = self._records.get(asked.cause[0])  # a loop read its plan again in between
        if isinstance(asked, r.CallAsked):
            return self._heard[asked.turn]
        return str(getattr(asked, "turn", ""))

    def _about(self, turn: str, *, with_end: bool) -> list[Reason]:
        start = self._starts[turn]
        found: list[tuple[r.Record, str]] = [(start, self._start_text(start))]
        for mishap in self._mishaps(turn):
            after = "" if isinstance(mishap, r.RunReopened) else "; it was tried again"
            found.append((mishap, sentence(mishap) + after))
        found += [(each, sentence(each)) for each in self._attention.get(turn, [])]
        if with_end:
            found += [(emitted, sentence(emitted)) for emitted in self._emitted.get(turn, [])]
        if with_end and turn in self._ends:
            found.append((self._ends[turn], sentence(self._ends[turn])))
        if with_end and turn in self._exhausted:
            found.append((self._exhausted[turn], sentence(self._exhausted[turn])))
        return [Reason(seq=record.seq, turn=turn, text=text) for record, text in found]

    def _start_text(self, start: r.TurnStarted) -> str:
        text = sentence(start)
        asked_by = self._asked_by(start)
        if not asked_by or asked_by in start.inputs:
            return text
        return f"{text}, once {asked_by} had ended" if asked_by in self._ends else f"{text}, asked for by {asked_by}"

    def _mishaps(self, turn: str) -> list[r.Record]:
        """The attempts of *turn* that another attempt followed."""
        mishaps = self._retried.get(turn, [])
        return mishaps if isinstance(self._ends.get(turn), r.TurnFinished) else mishaps[:-1]


def fold(records: Iterable[r.Record]) -> Why:
    """What is needed to explain the turns in *records*, which begin at a run's first."""
    view = Why()
    for record in records:
        view.apply(record)
    return view


def why(records: Iterable[r.Record], turn: str) -> list[Reason]:
    """The causes of *turn*, nearest first; see `Why.explain`."""
    return fold(records).explain(turn)
