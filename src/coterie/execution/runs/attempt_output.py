"""Output and events of working agents, read from the stored files of their attempts."""

from collections.abc import AsyncIterator, Iterator

from msgspec import Struct

from coterie.agents.backends.base import AttemptRef
from coterie.execution.runs.attention import with_prompts
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.run_stream import RunStream, Streamed, StreamItem
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttentionAnswered,
    Record,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.history.views.attention import AttentionView
from coterie.history.views.timeline import sentence


class Attended(Struct, frozen=True, kw_only=True, tag="attention", tag_field="kind"):
    """An attempt needs a person, or was answered; *text* says which. Attempts do not print this event themselves."""

    text: str


class AttemptOver(Struct, frozen=True):
    """The attempt has ended; no further event follows."""


class Heard(Struct, frozen=True, kw_only=True):
    """An event of an attempt, from its output or from the journal."""

    run: str
    turn: str
    attempt: int
    event: Streamed | Attended | AttemptOver

    @property
    def ref(self) -> AttemptRef:
        """The name of the attempt."""
        return AttemptRef(run=self.run, turn=self.turn, attempt=self.attempt)


class StreamReader:
    """Reads new output of the attempts of a run since the last read, and their requests for a person.

    Args:
        turn: Read only this turn, or the items of this set; if it is a child run, all turns in it.
    """

    def __init__(self, runs: Runs, run: str, turn: str = "") -> None:
        self._runs, self._run, self._turn = runs, run, turn
        self._turns = {turn}
        self._stream = RunStream(runs, run, turn=turn)
        self._attention = AttentionView()
        self._questions: dict[tuple[str, str], int] = {}
        """Open questions to humans: the attempt, by run and turn."""
        names = run.split("/")
        for above in ("/".join(names[:k]) for k in range(1, len(names))):  # the plans say which agents are humans
            for record in runs.read(above):
                self._attention.apply(above, record)

    def read(self) -> Iterator[Heard]:
        """Read new events, those of each attempt in order.

        An attempt that is over yields no more events.
        """
        for one in self._stream.read():
            yield from self._heard(one)

    async def follow(self) -> AsyncIterator[Heard]:
        """Yield all existing and further events, until the run has no owner."""
        async for one in self._stream.follow():
            for heard in self._heard(one):
                yield heard

    def _heard(self, one: StreamItem) -> Iterator[Heard]:
        if not isinstance(one.what, Record):
            yield Heard(run=one.run, turn=one.turn, attempt=one.attempt, event=one.what)
            return
        if isinstance(one.what, TurnStarted) and one.what.set == self._turn:
            self._turns.add(one.turn)
        is_wanted = not self._turn or one.turn in self._turns or one.run != self._run
        for heard in self._attended(one.run, one.what):
            if is_wanted:
                yield heard
        if is_wanted and isinstance(one.what, TurnFinished | AttemptFailed | AttemptInterrupted):
            yield Heard(run=one.run, turn=one.turn, attempt=one.attempt, event=AttemptOver())

    def _attended(self, run: str, record: Record) -> Iterator[Heard]:
        """Events about persons in *record* of *run*, except permission requests, which are in the attempt's file."""

        def heard(attempt: int, text: str) -> Heard:
            return Heard(run=run, turn=getattr(record, "turn", ""), attempt=attempt, event=Attended(text=text))

        for one in self._attention.apply(run, record):
            match one.kind, record:
                case "stall", _:
                    yield heard(getattr(record, "attempt", 1), one.text)
                case "question", TurnStarted(turn=turn, attempt=attempt):
                    self._questions[run, turn] = attempt
                    yield heard(attempt, with_prompts(self._runs, [one])[0].text)
        match record:
            case AttentionAnswered(attempt=attempt):
                yield heard(attempt, sentence(record))
            case TurnFinished(turn=turn) | TurnFailed(turn=turn) if attempt := self._questions.pop((run, turn), 0):
                yield heard(attempt, sentence(record))
