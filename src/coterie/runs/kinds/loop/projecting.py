"""Writing `core.journal_file`: the runs of loops in the earlier system's lines, after the truth is durable.

One file holds all runs of a state directory. It is never read for a decision, may be deleted at any time, and can be
made again; when it cannot be written the run goes on without it.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from coterie import files
from coterie.errors import CoterieError
from coterie.journal.base import Reader, Store
from coterie.journal.records import Record, RunStarted
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import Plan, from_json
from coterie.runs.attempt_files import AttemptFiles
from coterie.views.projection import Projection, as_line, beginning, fold

Read = Callable[[str], Iterable[Record]]


class Projector:
    """Adds what happens in the run *run* to the file at *path*.

    Each record comes once it is durable. What an earlier owner did not get to is added first, so that after any crash
    the file tells the whole run, each line once.

    Args:
        files: Knows what the run's attempts were asked.
    """

    def __init__(self, journals: Reader, run: str, path: Path, files: AttemptFiles) -> None:
        self._journals, self._run, self._path = journals, run, path
        self._view = Projection(lambda turn, attempt: files.question(run, turn, attempt))
        self._seen = 0

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of the run; those of child runs are left alone."""
        if run != self._run:
            return
        with suppress(OSError, CoterieError):
            if record.seq != self._seen + 1:
                self._catch_up(record.seq)
            self._seen = record.seq
            lines = [as_line(line) for line in self._view.apply(record)]
            if lines:
                with _opened(self._path) as file:
                    file.write(b"".join(lines))

    def _catch_up(self, upto: int) -> None:
        """Add what is missing of the records before *upto*."""
        earlier = (record for record in self._journals.read(self._run, self._seen + 1) if record.seq < upto)
        lines = [as_line(line) for record in earlier for line in self._view.apply(record)]
        with _opened(self._path) as file:
            begins = beginning(self._run)
            file.seek(0)
            there = sum(line.startswith(begins) for line in file)
            file.write(b"".join(lines[there:]))


def journal_file(plan: Plan) -> Path | None:
    """Where the projection of a run of *plan* lies; None for a team that is no loop, or a loop that has no folder."""
    loop = plan.coordination
    if not isinstance(loop, LoopPlan) or not loop.place.project:
        return None
    return Path(loop.place.work_dir) / loop.place.journal_file


def rebuild(store: Store, runs: Iterable[str], files: AttemptFiles) -> dict[Path, int]:
    """Write the projections of *runs* anew, from their journals; gives the files, and how many runs each holds.

    Lines of other runs in these files are kept. A run whose journal cannot be read is left out.
    """
    made: dict[Path, list[tuple[str, bytes]]] = {}
    for run in runs:
        with suppress(OSError, ValueError, CoterieError):
            records = list(store.read(run))
            first = records[0] if records else None
            path = journal_file(from_json(first.plan)) if isinstance(first, RunStarted) and first.plan else None
            if path is not None:
                lines = fold(records, lambda turn, attempt, run=run: files.question(run, turn, attempt))  # type: ignore[misc]
                made.setdefault(path, []).append((run, b"".join(map(as_line, lines))))
    for path, texts in made.items():
        with _opened(path) as file:
            begins = tuple(beginning(run) for run, _ in texts)
            file.seek(0)
            others = [line for line in file if not line.startswith(begins)]
            file.truncate(0)
            file.write(b"".join([*others, *(text for _, text in texts)]))
    return {path: len(texts) for path, texts in made.items()}


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file at *path*, for one writer at a time; what is written goes to its end.

    A line that somebody was cut off in is taken away: whose it is will miss it, and write it again.
    """
    files.make_folder(path.parent)
    with files.open_private(path, "a+b", follow=True) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if size := file.seek(0, 2):
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        yield file
        file.flush()
