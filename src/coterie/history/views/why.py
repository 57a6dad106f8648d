"""Why a turn ran: its causes, back to the start of the run."""

from collections import deque
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from coterie.errors import NoSuchTurn
from coterie.history.journal import records as r
from coterie.history.views.timeline import sentence
from coterie.history.views.words import shortened


class Reason(Struct, frozen=True, kw_only=True):
    """One link in the chain of causes.

    Attributes:
        seq: The number of its record.
        turn: The turn it explains; empty for the start of the run.
        text: A sentence, without full stop.
    """

    seq: int
    turn: str
    text: str


class Why:
    """Explains turns of a run; feed it the run's records in order."""

    def __init__(self) -> None:
        self._records: dict[int, r.Record] = {}
        self._starts: dict[str, r.TurnStarted | r.SetStarted] = {}
        self._ends: dict[str, r.Record] = {}
        self._retried: dict[str, list[r.Record]] = {}
        self._emitted: dict[str, list[r.Record]] = {}
        self._attention: dict[str, list[r.Record]] = {}
        self._exhausted: dict[str, r.LoopExhausted] = {}
        self._actors: dict[str, list[r.Record]] = {}
        self._heard: dict[str, str] = {}
        """The last turn that had ended when a program made a call, by the call's turn."""
        self._ended = ""

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        record = _shortened(record)
        self._records[record.seq] = record
        match record:
            case r.TurnStarted():
                self._starts.setdefault(record.turn, record)
            case r.SetStarted():
                self._starts[record.set] = record
            case r.SetEnded():
                self._ends[record.set] = record
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
        """The causes of *turn*, nearest first: its start, the ends of turns that led to it, and so on to the start.

        For an actor or a supervisor: its history and the reasons for its restarts.

        Args:
            most: For how many turns, the nearest ones, causes are given; None: all.

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
        """The turns whose results started *turn*; if it names none, the turn whose record requested it."""
        start = self._starts[turn]
        if isinstance(start, r.SetStarted):
            return tuple(dict.fromkeys((*start.inputs, *filter(None, (start.given_by,)))))
        if start.set:
            return (start.set,)
        return start.inputs or tuple(name for name in [self._asked_by(start)] if name)

    def _asked_by(self, start: r.TurnStarted | r.SetStarted) -> str:
        """The turn of the record that made the engine request *start*; empty if the record is not about a turn."""
        asked = self._records.get(start.cause[0]) if start.cause else None
        while asked is not None and not getattr(asked, "turn", getattr(asked, "set", "")) and asked.cause is not None:
            asked = self._records.get(asked.cause[0])  # a loop read its plan again meanwhile
        if isinstance(asked, r.CallAsked):
            return self._heard[asked.turn]
        return str(getattr(asked, "turn", "") or getattr(asked, "set", ""))

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

    def _start_text(self, start: r.TurnStarted | r.SetStarted) -> str:
        text = sentence(start)
        asked_by = self._asked_by(start)
        if not asked_by or asked_by in (*start.inputs, start.set):
            return text
        return f"{text}, once {asked_by} had ended" if asked_by in self._ends else f"{text}, asked for by {asked_by}"

    def _mishaps(self, turn: str) -> list[r.Record]:
        """The attempts of *turn* that another attempt followed."""
        mishaps = self._retried.get(turn, [])
        return mishaps if isinstance(self._ends.get(turn), r.TurnFinished) else mishaps[:-1]


def _shortened(record: r.Record) -> r.Record:
    """*record* without what no sentence about it shows."""
    match record:
        case r.TurnStarted():
            return msgspec.structs.replace(record, used={})
        case r.TurnFinished():
            return msgspec.structs.replace(record, text=shortened(record.text), outputs=shortened(record.outputs))
    return record


def fold(records: Iterable[r.Record]) -> Why:
    """An explainer of the turns in *records*, which begin with a run's first record."""
    view = Why()
    for record in records:
        view.apply(record)
    return view


def why(records: Iterable[r.Record], turn: str) -> list[Reason]:
    """The causes of *turn*, nearest first; see `Why.explain`."""
    return fold(records).explain(turn)
