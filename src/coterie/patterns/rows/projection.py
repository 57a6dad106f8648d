"""Write runs as rows while they run: executions, instances, messages and results, in short transactions.

The journal is the truth, and rows follow its durable records. `observe` only queues a record; a task folds the queue
into rows (`coterie.patterns.rows.fold`) and writes many at once, on separate connections. A transaction contains only
such writes, so none is open while an agent is called, and other writers wait for milliseconds. A row is written whole
and by its id, so writing it again changes nothing, and `project` rewrites rows that were lost with a process or a whole
database.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from coterie.errors import CoterieError, RowsFailed, UsageError
from coterie.execution.runs.repository import STATE_DIR, find
from coterie.history.journal.records import Record, RunFinished, RunStarted
from coterie.history.journal.rules import root_of
from coterie.history.journal.runs import Read, history
from coterie.patterns.identity import execution_id
from coterie.patterns.rows.engine import open_engine
from coterie.patterns.rows.fold import RowFold, RowUpdate
from coterie.patterns.rows.tables import upgrade
from coterie.patterns.rows.writing import Writing

ROWS = "rows.sqlite"
"""The default database, beside the runs."""
LINGER = 0.05
"""Seconds to wait for more records before writing."""
MOST = 500
"""The most records folded, and rows written, at a time."""
KEPT = 100
"""The number of finished runs kept: a record of a child run may follow the end of its root."""

Place = str | Path | URL | AsyncEngine
"""The location of rows: a URL, the path of an SQLite file, or a caller's engine."""


class Projection:
    """Writes runs as rows while they run.

        async with Projection("sqlite:///rows.sqlite") as rows:
            await coterie.run(team, {"question": …}, observe=rows.observe)

    Rows that cannot be written, because the database is unavailable or locked for long, are kept and retried with the
    next ones. A run never waits for its rows, and never fails because of them.

    Args:
        place: A URL or a path, whose tables are created; or a caller's engine, whose tables exist
            (`upgrade` creates them), and which the caller disposes of.
        read: Reads a run's journal, as `store.read`: needed for resumed runs, whose first records are not observed.
        linger: Seconds to wait for more records before writing.
    """

    def __init__(self, place: Place, *, read: Read | None = None, linger: float = LINGER) -> None:
        self._given = isinstance(place, AsyncEngine)
        self._engine = place if isinstance(place, AsyncEngine) else open_engine(place)
        self._writing = Writing(self._engine)
        self._read, self._linger = read, linger
        self._fold = RowFold()
        self._seen: dict[str, int] = {}
        self._missed: dict[str, RowsFailed] = {}
        self._over: deque[str] = deque()
        self._news: deque[tuple[str, Record]] = deque()
        self._rows: dict[tuple[str, UUID], RowUpdate] = {}
        self._came = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._ready = self._closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Create missing tables, and start writing. Records observed before are not lost.

        Raises:
            RowsFailed: If the database cannot be used.
        """
        await self._prepare()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="rows")

    def observe(self, run: str, record: Record) -> None:
        """Queue *record*, which is durable: an observer of runs.

        It takes a microsecond or two. Records observed before are skipped. Never raises, because a run does not fail
        because of its rows: `flush` and `close` report problems.
        """
        expected, root = self._seen.get(run, 0) + 1, root_of(run)
        if record.seq > expected or (root != run and root not in self._seen):
            self._catch_up(run, record)
        elif record.seq == expected:
            self._note(run, record)

    async def flush(self) -> None:
        """Return once the rows of all observed records are written.

        Raises:
            RowsFailed: If they cannot be; they are kept, and retried with the next ones. Also if the database rejects
                one of them permanently, which is then dropped while all others are written; and if a run was not
                observed from its beginning, and `read` was not given: then it has no rows.
        """
        await self._prepare()
        await self._write()
        missed, self._missed = self._missed, {}
        for problem in missed.values():
            raise problem

    async def close(self) -> None:
        """Write the remaining rows, and mark running executions as paused. Idempotent.

        Raises:
            RowsFailed: If something could not be written; `project` writes it later.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self._prepare()
            await self._write()
            self._keep(self._fold.let_go())
            await self.flush()
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
            if not self._given:
                await self._engine.dispose()

    async def project(self, run: str, read: Read, owned: bool = False) -> list[UUID]:
        """Write the rows of the root run *run* from its journal; return the ids of its executions, the outermost first.

        Args:
            owned: The run has an owner, so it may be running.

        Raises:
            NoSuchRun, JournalUnreadable: If it cannot be read.
            RowsFailed: If the rows cannot be written.
        """
        fold, executions = RowFold(), []
        for name, record in history(read, run):
            self._take(fold, name, record)
            if isinstance(record, RunStarted) and fold.definition(name) is not None:
                executions.append(execution_id(name))
        if not owned:
            self._keep(fold.let_go())
        await self.flush()
        return executions

    # -- behind the run -----------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        if not self._given and not self._ready:
            await upgrade(self._engine)
            self._ready = True

    async def _work(self) -> None:
        while True:
            await self._came.wait()
            await asyncio.sleep(self._linger)
            self._came.clear()
            with suppress(RowsFailed):  # they are kept; `flush` and `close` report it
                await self._write()

    async def _write(self) -> None:
        async with self._lock:
            while self._news or self._rows:
                self._tell()
                some = list(islice(self._rows.items(), MOST))
                refused = await self._writing.write([row for _, row in some]) if some else []
                for row, problem in refused:
                    self._missed.setdefault(str(row.values.get("execution_id", row.id)), problem)
                for key, row in some:
                    if self._rows[key] is row:  # else it changed meanwhile
                        del self._rows[key]

    def _tell(self) -> None:
        """Fold some of the queued records into rows to write."""
        for run, record in [self._news.popleft() for _ in range(min(MOST, len(self._news)))]:
            try:
                self._take(self._fold, run, record)
            except Exception as error:  # `flush` reports it, and the rows of other runs are written
                self._miss(run, f"record {record.seq} of run {run!r} cannot be written as rows: {error!r}")
            if isinstance(record, RunFinished) and root_of(run) == run:
                self._over.append(run)
        while len(self._over) > KEPT:
            run = self._over.popleft()
            for name in self._fold.forget(run):
                self._seen.pop(name, None)

    def _take(self, fold: RowFold, run: str, record: Record) -> None:
        self._keep(fold.apply(run, record))
        if isinstance(record, RunStarted) and (definition := fold.definition(run)) is not None:
            self._writing.define(definition)

    def _keep(self, rows: Iterable[RowUpdate]) -> None:
        for row in rows:
            self._rows[row.table, row.id] = row

    def _note(self, run: str, record: Record) -> None:
        self._seen[run] = record.seq
        self._news.append((run, record))
        self._came.set()

    def _catch_up(self, run: str, record: Record) -> None:
        """Queue unobserved records of *run* and its relatives, *record* included."""
        if self._read is None:
            why = f"record {record.seq} of run {run!r} came before {self._seen.get(run, 0) + 1}"
            hint = "Projection(…, read=store.read) finds the first records of a run that is resumed"
            self._miss(run, why, hint)
            return
        try:
            for name, one in history(self._read, root_of(run)):
                if one.seq == self._seen.get(name, 0) + 1:
                    self._note(name, one)
        except (CoterieError, OSError) as error:
            self._miss(run, str(error))

    def _miss(self, run: str, why: str, hint: str = "") -> None:
        place = self._engine.url.render_as_string(hide_password=True)
        self._missed.setdefault(run, RowsFailed(place, why, hint))


async def project(run: str = "last", place: Place | None = None, *, state_dir: str | Path = STATE_DIR) -> list[UUID]:
    """Write the rows of a run and its child runs from their journals; return the ids of its executions, the outermost
    first.

        execution, *nested = await coterie.patterns.project("last", "sqlite:///rows.sqlite")

    Existing rows are overwritten with equal ones. A run without an owner is `paused` if it can be resumed.

    Args:
        run: Its id, the beginning of one, or `last`.
        place: The database, see `Projection`; by default `rows.sqlite` beside the run's journals.

    Raises:
        NoSuchRun, JournalUnreadable: If it cannot be read.
        UsageError: If neither it nor a child run is a run of a pattern.
        RowsFailed: If the rows cannot be written.
    """
    runs, run = find(run, Path(state_dir))
    async with Projection(runs.root / ROWS if place is None else place) as rows:
        executions = await rows.project(run, runs.read, runs.status(run) == "running")
    if not executions:
        raise UsageError(f"run {run!r} has no rows: only runs of built-in patterns have")
    return executions
