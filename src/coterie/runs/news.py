"""What is new in a run and its child runs since they were read last; nothing is read twice."""

from collections.abc import Iterator

from coterie.ids import child_run_id
from coterie.journal import records as r
from coterie.journal.lines import Reading
from coterie.journal.runs import RunRecord
from coterie.runs.repository import Runs

_OVER = (r.AttemptFailed, r.AttemptInterrupted, r.TurnFinished, r.TurnFailed, r.TurnCancelled)


class NewRecords:
    """Reads the records of *run* and its child runs that came since the last call, each run's in order.

        news = NewRecords(runs, run)
        for name, record in news.read(): ...

    Raises:
        NoSuchRun, JournalUnreadable: If one cannot be read.
    """

    def __init__(self, runs: Runs, run: str) -> None:
        self._runs = runs
        self._read: dict[str, Reading | int] = {run: self._reading(run)}
        self._attempts: dict[str, bool] = {}
        """The attempts that may be child runs, by the id that these have, and whether they are over."""

    def read(self) -> Iterator[RunRecord]:
        """What is new now."""
        left = list(self._read)
        while left:
            for run in left:
                for record in self._news(run):
                    self._note(run, record)
                    yield run, record
            left = [child for child in self._attempts if self._runs.has(child)]
            self._read |= {child: self._reading(child) for child in left}
            self._attempts = {id: over for id, over in self._attempts.items() if id not in left and not over}

    def _reading(self, run: str) -> Reading | int:
        """How *run* is read on: a file from where it ended, other journals by number."""
        path = self._runs.file(run)
        return Reading(path) if self._runs.is_here and path.exists() else 0

    def _news(self, run: str) -> list[r.Record]:
        reading = self._read[run]
        if isinstance(reading, Reading):
            reading.go_on()
            found, reading.records = reading.records, []
            return found
        records = list(self._runs.read(run, reading + 1))
        self._read[run] = records[-1].seq if records else reading
        return records

    def _note(self, run: str, record: r.Record) -> None:
        if isinstance(record, r.TurnStarted):
            self._attempts[child_run_id(run, record.turn, record.attempt)] = False
        elif isinstance(record, _OVER):
            turn = f"{run}/{record.turn}."
            self._attempts |= {id: True for id in self._attempts if id.startswith(turn)}
