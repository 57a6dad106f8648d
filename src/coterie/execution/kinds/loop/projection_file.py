"""Write `core.journal_file`: the runs of loops in the format of the earlier system, once records are durable.

One file has all runs of a state directory. No decision depends on it: it can be deleted and rebuilt at any time, and a
run continues even if it cannot be written.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from coterie.base import files
from coterie.base.waits import waiting
from coterie.errors import CoterieError
from coterie.execution.kernel.attempt_files import KeptPrompts
from coterie.history.journal.base import Reader, Store
from coterie.history.journal.records import Record, RunFinished, RunStarted
from coterie.history.views.projected_lines import as_line, beginning
from coterie.history.views.projection import LoopProjection, Prompts, fold
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan, from_json

_LARGEST = 1 << 30
"""The largest file, in bytes, to which lines are added: an agent can make one of any size there."""
Read = Callable[[str], Iterable[Record]]


class Projector:
    """Appends the records of *run* to the file at *path*.

    Records that an earlier owner did not write are added first, so after any crash the file has the whole run, each
    line once.

    Args:
        files: The stored prompts of the run's attempts.
    """

    def __init__(self, journals: Reader, run: str, top: Path, path: Path, files: KeptPrompts) -> None:
        self._journals, self._run, self._top, self._path = journals, run, top, path
        self._view = LoopProjection(prompts_of(files, run), partial(end_of, journals))
        self._seen = 0

    def observe(self, run: str, record: Record) -> None:
        """Add a durable record of the run; records of child runs are ignored."""
        if run != self._run:
            return
        with suppress(OSError, CoterieError):
            if record.seq != self._seen + 1:
                self._catch_up(record.seq)
            self._seen = record.seq
            lines = [as_line(line) for line in self._view.apply(record)]
            if lines:
                with _opened(self._top, self._path) as file:
                    file.write(b"".join(lines))

    def _catch_up(self, upto: int) -> None:
        """Add the records before *upto* that are missing."""
        earlier = (record for record in self._journals.read(self._run, self._seen + 1) if record.seq < upto)
        lines = [as_line(line) for record in earlier for line in self._view.apply(record)]
        with _opened(self._top, self._path) as file:
            begins = beginning(self._run)
            file.seek(0)
            there = sum(line.startswith(begins) for line in file)
            file.write(b"".join(lines[there:]))


def prompts_of(files: KeptPrompts, run: str) -> Prompts:
    """The stored prompts of the attempts of *run*."""
    return lambda turn, attempt: files.kept_question(run, turn, attempt)


def end_of(journals: Reader, run: str) -> str:
    """The reason for the end of the loop *run*; empty if it cannot be read or has not ended."""
    result: Any = None
    with suppress(OSError, ValueError, CoterieError):
        for record in journals.read(run):
            result = record.result if isinstance(record, RunFinished) else result
    return str(result.get("reason", "")) if isinstance(result, dict) else ""


def journal_file(plan: Plan) -> Path | None:
    """The projection file for a run of *plan*; None unless it is a loop with a folder."""
    loop = plan.coordination
    if not isinstance(loop, LoopPlan) or not loop.place.project:
        return None
    return Path(loop.place.work_dir) / loop.place.journal_file


def rebuild(store: Store, runs: Iterable[str], files: KeptPrompts) -> dict[Path, int]:
    """Rebuild the projections of *runs* from their journals; return the number of runs for each file.

    Lines of other runs in these files are kept. Runs with unreadable journals are skipped.
    """
    made: dict[tuple[Path, Path], list[tuple[str, bytes]]] = {}
    for run in runs:
        with suppress(OSError, ValueError, CoterieError):
            records = list(store.read(run))
            first = records[0] if records else None
            plan = from_json(first.plan) if isinstance(first, RunStarted) and first.plan else None
            if plan is not None and (path := journal_file(plan)) is not None:
                lines = fold(records, prompts_of(files, run), partial(end_of, store))
                top = Path(plan.coordination.place.work_dir) if isinstance(plan.coordination, LoopPlan) else path.parent
                made.setdefault((top, path), []).append((run, b"".join(map(as_line, lines))))
    for (top, path), texts in made.items():
        with _opened(top, path) as file:
            begins = tuple(beginning(run) for run, _ in texts)
            file.seek(0)
            others = [line for line in file if not line.startswith(begins)]
            file.truncate(0)
            file.write(b"".join([*others, *(text for _, text in texts)]))
    return {path: len(texts) for (_, path), texts in made.items()}


@contextmanager
def _opened(top: Path, path: Path) -> Iterator[IO[bytes]]:
    """Open the file at *path* for appending, one writer at a time; from the folder *top* on no link is followed.

    An incomplete last line is removed; the run that was cut off while writing it writes it again.
    """
    top, names = files.names_below(top, path)
    with (
        files.folder_below(top, names[:-1], create=files.PRIVATE_FOLDER) as folder,
        open(files.open_fd(names[-1], os.O_RDWR | os.O_APPEND | os.O_CREAT, dir_fd=folder), "a+b") as file,
    ):
        files.check_ours(file.fileno(), path)
        with waiting(f"another process to release the lock on {path}"):
            fcntl.flock(file, fcntl.LOCK_EX)
        if (size := file.seek(0, 2)) > _LARGEST:
            raise OSError(errno.EFBIG, "it is too large to be continued: move it away", str(path))
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        yield file
        file.flush()
