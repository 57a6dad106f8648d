"""What is new in a run and its child runs since they were read last; nothing is read twice."""

from collections.abc import Iterator

from coterie.ids import child_run_id
from coterie.journal import records as r
from coterie.journal.lines import Reading
from coterie.journal.runs import RunRecord
from coterie.runs.repository import Runs

_OVER = (r.AttemptFailed, r.AttemptInterrupted, r.TurnFinished, r.TurnFailed, r.TurnCancelled)


class JournalNews:
    """Reads the records of *run* alone that came since the last call: a file from where it ended, others by number."""

    def __init__(self, runs: Runs, run: str) -> None:
        self._runs, self._run = runs, run
        path = runs.file(run)
        self._file = Reading(path) if runs.is_here and path.exists() else None
        self._last = 0

    def read(self) -> list[r.Record]:
        """What is new now."""
        if self._file is not None:
            self._file.go_on()
            found, self._file.records = self._file.records, []
        else:
            found = list(self._runs.read(self._run, self._last + 1))
            self._last = found[-1].seq if found else self._last
        return found


class NewRecords:
    """Reads the records of *run* and its child runs that came since the last call, each run's in order.

        news = NewRecords(runs, run)
        for name, record in news.read(): ...

    Raises:
        NoSuchRun, JournalUnreadable: If one cannot be read.
    """

    def __init__(self, runs: Runs, run: str) -> None:
        self._runs = runs
        self._read = {run: JournalNews(runs, run)}
        self._attempts: dict[str, list[str]] = {}
        """The ids that child runs of a turn would have, by the turn and its run; those of *_over* come no more."""
        self._over = set[str]()

    def read(self) -> Iterator[RunRecord]:
        """What is new now."""
        left = list(self._read)
        while left:
            for run in left:
                for record in self._read[run].read():
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

    def _note(self, run: str, record: r.Record) -> None:
        if isinstance(record, r.TurnStarted):
            turn = f"{run}/{record.turn}"
            self._attempts.setdefault(turn, []).append(child_run_id(run, record.turn, record.attempt))
            self._over.discard(turn)
        elif isinstance(record, _OVER):
            self._over.add(f"{run}/{record.turn}")
