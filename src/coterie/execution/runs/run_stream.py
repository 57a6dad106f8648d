"""The stream of a run: its records, those of its child runs, and what their agents say, in one order.

A *position* says how far a reader got, in every file that still grows, so a reader in any process goes on from there.
What has ended is in no position: the end of an attempt comes after everything that it said.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from coterie.agents.backends.base import Permission, SessionOpened, Stepped, Text, Tool, Used
from coterie.agents.backends.models.threads import in_thread
from coterie.base.ids import child_run_id
from coterie.errors import NoSuchRun
from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r
from coterie.history.journal.lines import Reading
from coterie.history.journal.runs import RunRecord
from coterie.history.views.live import position_text

T = TypeVar("T")
Streamed = Text | Tool | Permission | SessionOpened | Used | Stepped
"""The events that are stored for an attempt."""
CHECK_EVERY = 0.1
"""Seconds between two checks for news; *CHECK_ELSEWHERE* applies to runs of other machines."""
CHECK_ELSEWHERE = 0.5
QUIET_CHECKS = 2
"""After so many checks in a row without an owner and without news, everything has been read."""
_DECODER: msgspec.json.Decoder[Streamed] = msgspec.json.Decoder(Streamed)


class StreamItem(Struct, frozen=True):
    """What comes next in a run: a record of *run*, or an event of the *attempt* at its *turn*."""

    run: str
    turn: str
    attempt: int
    what: r.Record | Streamed


class RunStream:
    """Reads what a run and its child runs have recorded and said since the last read; nothing is read twice.

    Child runs that are removed meanwhile are left out.

    Args:
        turn: Read only what this turn says, or the items of this set; if it is a child run, all of it. Records of *run*
            itself are read anyway.
        text: Whether to read what agents say; otherwise there are only records.
        after: The position to go on from.
    """

    def __init__(
        self, runs: Runs, run: str, *, turn: str = "", text: bool = True, after: Mapping[str, int] | None = None
    ) -> None:
        self._runs, self._run, self._turn, self._text = runs, run, turn, text
        self._after = dict(after or {})
        passed = self._after.pop(run, 0)
        self._at: dict[str, int] = {run: passed}
        """How far each open journal was read, by run, and the output of each open attempt, by its mark and a slash."""
        self._journals = {run: _Journal(runs, run, passed, is_top=True)}

    @property
    def position(self) -> str:
        """Where the reader is after the item that it got last."""
        return position_text(self._at)

    def read(self) -> Iterator[StreamItem]:
        """Read what is new.

        Raises:
            NoSuchRun, JournalUnreadable: If it cannot be read, or the run was removed.
        """
        yield from self._new_of(self._journals[self._run])

    def records(self) -> Iterator[RunRecord]:
        """Read the records that are new, each with its run; see `read`."""
        for one in self.read():
            if isinstance(one.what, r.Record):
                yield one.run, one.what

    async def follow(self) -> AsyncGenerator[StreamItem, None]:
        """Yield what there is and what comes, until no process drives the run.

        What another machine stores is read in a thread, and waited for as long as followers wait.
        """
        self._runs.be_patient()
        quiet = 0
        while quiet < QUIET_CHECKS:
            is_owned, some = await self._asked(partial(self._runs.is_owned, self._run)), False
            next_item = partial(next, self.read(), None)
            while (one := await self._asked(next_item)) is not None:
                some = True
                yield one
            quiet = 0 if is_owned or some else quiet + 1
            await asyncio.sleep(CHECK_EVERY if self._runs.is_here else CHECK_ELSEWHERE)

    async def _asked(self, call: Callable[[], T]) -> T:
        return call() if self._runs.is_here else await in_thread(call, "stream")

    def _new_of(self, journal: "_Journal") -> Iterator[StreamItem]:
        for record in journal.next():
            is_new, ended = not journal.has(record), journal.ended_by(record)
            if is_new:
                for attempt in ended:
                    yield from self._said(journal, attempt)
                self._at[journal.run] = record.seq
            journal.note(record)
            for attempt in ended:
                self._close(journal, attempt)
            if is_new:
                yield StreamItem(journal.run, getattr(record, "turn", ""), getattr(record, "attempt", 0), record)
        for attempt in list(journal.open.values()):
            yield from self._said(journal, attempt)
            if attempt.is_over:
                self._close(journal, attempt)

    def _said(self, journal: "_Journal", attempt: "_Attempt") -> Iterator[StreamItem]:
        """What is new of *attempt*: its output, up to its last complete line, and its child run."""
        if self._turn not in ("", attempt.turn, attempt.set) and journal.run == self._run:
            return
        if self._text:
            yield from self._printed(journal.run, attempt)
        if attempt.mark not in self._journals and self._runs.has(attempt.mark):
            passed = self._after.pop(attempt.mark, 0)
            self._journals[attempt.mark] = _Journal(self._runs, attempt.mark, passed, is_again=attempt.reopened > 0)
            self._at[attempt.mark] = passed
        if (child := self._journals.get(attempt.mark)) is not None:
            child.reopened = attempt.reopened
            with suppress(NoSuchRun):  # it was removed meanwhile
                yield from self._new_of(child)

    def _printed(self, run: str, attempt: "_Attempt") -> Iterator[StreamItem]:
        output = f"{attempt.mark}/"
        begin = self._at.get(output) or self._after.pop(output, 0)
        for line in self._runs.printed(attempt.mark, begin).splitlines(keepends=True):
            begin += len(line)
            self._at[output] = begin
            with suppress(msgspec.DecodeError):  # written by a newer version of Coterie
                yield StreamItem(run, attempt.turn, attempt.n, _DECODER.decode(line))

    def _close(self, journal: "_Journal", attempt: "_Attempt") -> None:
        """Forget *attempt*, which is over; a child run that was called off has yet to record its end."""
        attempt.is_over = True
        child = self._journals.get(attempt.mark)
        is_due = attempt.mark in self._after if child is None else not child.has_ended
        if not (is_due and self._runs.has(attempt.mark)):
            self._journals.pop(attempt.mark, None)
            for ended in (attempt.mark, f"{attempt.mark}/"):
                self._at.pop(ended, None)
            del journal.open[attempt.mark]


class _Attempt:
    """An attempt that may still say something, or whose child run may still record something."""

    def __init__(self, run: str, turn: str, n: int, *, set: str = "", reopened: int = 0) -> None:
        self.mark, self.turn, self.n, self.set = child_run_id(run, turn, n), turn, n, set
        self.reopened, self.is_over = reopened, False


class _Journal:
    """The journal of one run, and its open attempts by their marks.

    Args:
        passed: The seq of the last record that the reader has.
        is_again: The reader has everything before the record that reopens the run, as *reopened* says.
        is_top: No run above it is read, so that its reopenings wait for none.

    Attributes:
        reopened: The seq of the record that last reopened the run above; later reopenings wait for theirs.
    """

    def __init__(self, runs: Runs, run: str, passed: int, *, is_again: bool = False, is_top: bool = False) -> None:
        self.run, self._passed, self._is_past, self._is_top = run, passed, is_again and not passed, is_top
        self._news = JournalNews(runs, run)
        self._left: r.Record | None = None
        self.open: dict[str, _Attempt] = {}
        self.reopened, self.has_ended = 0, False

    def next(self) -> Iterator[r.Record]:
        """Read the next records, up to one that reopens the run for a record that the run above has yet to read."""
        news = self._news.read()
        while (record := self._left or next(news, None)) is not None:
            self._left = record
            if not self.has(record) and self._waits(record):
                return
            self._left = None
            yield record

    def _waits(self, record: r.Record) -> bool:
        return isinstance(record, r.RunReopened) and not self._is_top and record.above not in (0, self.reopened)

    def has(self, record: r.Record) -> bool:
        """Whether the reader has *record* already."""
        if isinstance(record, r.RunReopened) and record.above == self.reopened:
            self._is_past = False
        return record.seq <= self._passed or self._is_past

    def ended_by(self, record: r.Record) -> list[_Attempt]:
        """The open attempts that end with *record*."""
        match record:
            case r.TurnFinished() | r.AttemptFailed() | r.AttemptInterrupted():
                found = self.open.get(child_run_id(self.run, record.turn, record.attempt))
                return [found] if found is not None else []
            case r.TurnFailed() | r.TurnCancelled():
                return [one for one in self.open.values() if one.turn == record.turn]
        return []

    def note(self, record: r.Record) -> None:
        """Note what *record* opens."""
        match record:
            case r.TurnStarted():
                self._open(_Attempt(self.run, record.turn, record.attempt, set=record.set))
            case r.RunReopened():
                for id in record.below:
                    turn, _, n = id.rpartition(".")
                    if "/" not in id:
                        self._open(_Attempt(self.run, turn, int(n), reopened=record.seq))
        if isinstance(record, r.RunFinished | r.RunReopened | r.RunOwned):
            self.has_ended = isinstance(record, r.RunFinished)

    def _open(self, attempt: _Attempt) -> None:
        known = self.open.setdefault(attempt.mark, attempt)
        known.is_over, known.reopened = False, attempt.reopened or known.reopened


class JournalNews:
    """Reads the new records of *run* alone since the last call: a file from its former end, other stores by number."""

    def __init__(self, runs: Runs, run: str) -> None:
        self._runs, self._run = runs, run
        path = runs.file(run)
        self._file = Reading(path) if runs.is_here and path.exists() else None
        self._last = 0
        self._going: Iterator[r.Record] | None = None

    def read(self) -> Iterator[r.Record]:
        """Read the new records, with those that the last call was not asked for.

        Raises:
            NoSuchRun: If the run was removed, even if another one has its id by now.
            JournalUnreadable: If a line other than a torn last one cannot be read.
        """
        self._going = self._going or self._new()
        try:
            for record in self._going:
                if record.seq <= self._last:
                    raise NoSuchRun(self._run)
                self._last = record.seq
                yield record
        except Exception:
            self._going = None
            raise
        self._going = None

    def _new(self) -> Iterator[r.Record]:
        if self._file is None:
            yield from self._runs.read(self._run, self._last + 1)
            return
        try:
            yield from self._file.news()
        except FileNotFoundError:
            raise NoSuchRun(self._run) from None
