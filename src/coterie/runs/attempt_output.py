"""What agents print and do while they work, from what is kept of their attempts."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
from msgspec import Struct

from coterie.backends.base import AttemptRef, Permission, SessionOpened, Text, Tool, Used
from coterie.ids import child_run_id
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttentionAnswered,
    Record,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.runs.attention import with_prompt
from coterie.runs.news import JournalNews
from coterie.runs.repository import Runs
from coterie.views.attention import AttentionView
from coterie.views.timeline import sentence

CHECK_EVERY = 0.1
"""Seconds between two looks at the output of attempts that are followed; *CHECK_ELSEWHERE* where it is not here."""
CHECK_ELSEWHERE = 0.5
QUIET_CHECKS = 2
"""After so many looks in a row without an owner and without new output, all was read."""


Streamed = Text | Tool | Permission | SessionOpened | Used
"""The events that are kept of an attempt."""
_DECODER: msgspec.json.Decoder[Streamed] = msgspec.json.Decoder(Streamed)


class Attended(Struct, frozen=True, kw_only=True, tag="attention", tag_field="kind"):
    """An attempt needs a person, or was answered; *text* says which. The output of the attempt has no such event."""

    text: str


class AttemptOver(Struct, frozen=True):
    """The attempt has ended: nothing more of it comes."""


class Heard(Struct, frozen=True, kw_only=True):
    """An event of an attempt, as its output or the journal has it."""

    run: str
    turn: str
    attempt: int
    event: Streamed | Attended | AttemptOver

    @property
    def ref(self) -> AttemptRef:
        """The name of the attempt."""
        return AttemptRef(run=self.run, turn=self.turn, attempt=self.attempt, epoch=0)


class StreamReader:
    """Reads what the attempts of a run have printed and done since it read last, and what they needed a person for.

    Args:
        turn: Only this turn's; a turn that is a child run has all turns in it.
    """

    def __init__(self, runs: Runs, run: str, turn: str = "") -> None:
        self._runs, self._run, self._turn = runs, run, turn
        self._seen: dict[str, int] = {}
        """How far the output of an attempt was read, by its mark."""
        self._attempts: dict[str, list[TurnStarted]] = {}
        self._news_of: dict[str, JournalNews] = {}
        self._attention = AttentionView()
        self._questions: dict[tuple[str, str], int] = {}
        """The open questions to humans: the attempt, by run and turn."""
        names = run.split("/")
        for above in ("/".join(names[:k]) for k in range(1, len(names))):  # their plans say which agents are humans
            for record in runs.read(above):
                self._attention.apply(above, record)

    def read(self) -> list[Heard]:
        """What is new, in the order in which attempts began.

        Of an attempt that is over nothing more comes.
        """
        return self._news(self._run, self._turn)

    async def follow(self) -> AsyncIterator[Heard]:
        """What is there and what comes, until the run has no owner."""
        quiet = 0
        while quiet < QUIET_CHECKS:
            owned, news = self._runs.is_owned(self._run), self.read()
            for one in news:
                yield one
            quiet = 0 if owned or news else quiet + 1
            await asyncio.sleep(CHECK_EVERY if self._runs.is_here else CHECK_ELSEWHERE)

    def _news(self, run: str, turn: str) -> list[Heard]:
        known = self._attempts.setdefault(run, [])
        attended: dict[tuple[str, int], list[Heard]] = {}
        over = set[tuple[str, int]]()
        if run not in self._news_of:
            self._news_of[run] = JournalNews(self._runs, run)
        for record in self._news_of[run].read():
            if isinstance(record, TurnStarted):
                known.append(record)
            if isinstance(record, TurnFinished | AttemptFailed | AttemptInterrupted):
                over.add((record.turn, record.attempt))
            for one in self._attended(run, record):
                attended.setdefault((one.turn, one.attempt), []).append(one)
        found = []
        for start in known:
            if turn in ("", start.turn):
                found += self._of_attempt(run, start)
                found += attended.get((start.turn, start.attempt), [])
                if (start.turn, start.attempt) in over:
                    found.append(Heard(run=run, turn=start.turn, attempt=start.attempt, event=AttemptOver()))
                child = child_run_id(run, start.turn, start.attempt)
                if self._runs.has(child):
                    found += self._news(child, "")
        known[:] = [one for one in known if (one.turn, one.attempt) not in over]
        return found

    def _attended(self, run: str, record: Record) -> Iterator[Heard]:
        """What *record* of *run* says about persons, except for permissions: the file of the attempt has these."""

        def heard(attempt: int, text: str) -> Heard:
            return Heard(run=run, turn=getattr(record, "turn", ""), attempt=attempt, event=Attended(text=text))

        for one in self._attention.apply(run, record):
            match one.kind, record:
                case "stall", _:
                    yield heard(getattr(record, "attempt", 1), one.text)
                case "question", TurnStarted(turn=turn, attempt=attempt):
                    self._questions[run, turn] = attempt
                    yield heard(attempt, with_prompt(self._runs, one).text)
        match record:
            case AttentionAnswered(attempt=attempt):
                yield heard(attempt, sentence(record))
            case TurnFinished(turn=turn) | TurnFailed(turn=turn) if attempt := self._questions.pop((run, turn), 0):
                yield heard(attempt, sentence(record))

    def _of_attempt(self, run: str, start: TurnStarted) -> list[Heard]:
        """What is new in the output of an attempt, up to its last whole line."""
        mark = child_run_id(run, start.turn, start.attempt)
        begin = self._seen.get(mark, 0)
        data = self._runs.printed(mark, begin)
        self._seen[mark] = begin + len(data)
        found = []
        for line in data.splitlines():
            try:
                event = _DECODER.decode(line)
            except msgspec.DecodeError:
                continue  # written by a newer coterie
            found.append(Heard(run=run, turn=start.turn, attempt=start.attempt, event=event))
        return found
