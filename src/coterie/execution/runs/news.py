"""Readers of new records in a run and its child runs; nothing is read twice."""

from collections.abc import Iterator

from coterie.base.ids import child_run_id
from coterie.errors import NoSuchRun
from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r
from coterie.history.journal.lines import Reading
from coterie.history.journal.runs import RunRecord

_OVER = (r.AttemptFailed, r.AttemptInterrupted, r.TurnFinished, r.TurnFailed, r.TurnCancelled)


class JournalNews:
    """Reads the new records of *run* alone since the last call: a file from its former end, other stores by number."""

    def __init__(self, runs: Runs, run: str) -> None:
        self._runs, self._run = runs, run
        path = runs.file(run)
        self._file = Reading(path) if runs.is_here and path.exists() else None
        self._last = 0

    def read(self) -> list[r.Record]:
        """Read the new records.

        Raises:
            NoSuchRun: If the run was removed, even if another one has its id by now.
            JournalUnreadable: If a line other than a torn last one cannot be read.
        """
        if self._file is not None:
            try:
                self._file.go_on()
            except FileNotFoundError:
                raise NoSuchRun(self._run) from None
            found, self._file.records = self._file.records, []
            if found and found[0].seq <= self._last:
                raise NoSuchRun(self._run)
        else:
            found = list(self._runs.read(self._run, self._last + 1))
        self._last = found[-1].seq if found else self._last
        return found


class NewRecords:
    """Reads the new records of *run* and its child runs since the last call, those of each run in order.

    Child runs that are removed meanwhile are left out.

        news = NewRecords(runs, run)
        for name, record in news.read(): ...

    Raises:
        NoSuchRun, JournalUnreadable: If one cannot be read, or *run* was removed.
    """

    def __init__(self, runs: Runs, run: str) -> None:
        self._runs, self._run = runs, run
        self._read = {run: JournalNews(runs, run)}
        self._attempts: dict[str, list[str]] = {}
        """The ids that child runs of a turn would have, by the turn and its run; those of *_over* are complete."""
        self._over = set[str]()

    def read(self) -> Iterator[RunRecord]:
        """Read the new records."""
        left = list(self._read)
        while left:
            for run in left:
                for record in self._new_of(run):
                    self._note(run, record)
                    yield run, record
            left = [child for children in self._attempts.values() for child in children if self._runs.has(child)]
            self._read |= {child: JournalNews(self._runs, child) for child in left}
            found = set(left)
            for turn in self._over:
                self._attempts.pop(turn, None)
            self._over.clear()
            for turn, children in self._attempts.items():
                self._attempts[turn] = [child for child in children if child not in found]

    def _new_of(self, run: str) -> list[r.Record]:
        try:
            return self._read[run].read()
        except NoSuchRun:
            if run == self._run:
                raise
            del self._read[run]  # without its folder the attempt counts as one that was not a child run
            return []

    def _note(self, run: str, record: r.Record) -> None:
        if isinstance(record, r.TurnStarted):
            turn = f"{run}/{record.turn}"
            self._attempts.setdefault(turn, []).append(child_run_id(run, record.turn, record.attempt))
            self._over.discard(turn)
        elif isinstance(record, _OVER):
            self._over.add(f"{run}/{record.turn}")
