"""Runs written as rows, behind them: executions, instances, messages and results, in short transactions.

The journal is the truth, and rows follow what is durable in it. `observe` only takes a note; a task of its own tells
the notes as rows (`coterie.patterns.rows.fold`) and writes many at once, on connections of its own. A transaction holds
nothing but such writes, so none is open while an agent is asked, and whoever else writes to the database waits for
milliseconds. A row is written whole and by its id: writing it again changes nothing, so what was lost, with a process
or with the whole database, is told again by `project`.
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
from coterie.journal.jsonl import JsonlStore
from coterie.journal.records import Record, RunFinished, RunStarted
from coterie.journal.rules import root_of
from coterie.patterns.identity import execution_id
from coterie.patterns.rows.engine import open_engine
from coterie.patterns.rows.fold import Read, RowFold, RowUpdate, family
from coterie.patterns.rows.migrations import upgrade
from coterie.patterns.rows.writing import Writing
from coterie.runs import index
from coterie.runs.folder import STATE_DIR

ROWS = "rows.sqlite"
"""The database beside the runs, when no other is named."""
LINGER = 0.05
"""Seconds in which more may come before what has come is written."""
MOST = 500
"""Records that are told, and rows that are written, at a time."""
KEPT = 100
"""Runs that are over and are known still: a record of a child run may come behind the end of its root."""

Place = str | Path | URL | AsyncEngine
"""Where rows are kept: a URL, the path of an SQLite file, or an engine of the caller's."""


class Projection:
    """Writes runs as rows while they run.

        async with Projection("sqlite:///rows.sqlite") as rows:
            await coterie.run(team, {"question": …}, observe=rows.observe)

    What cannot be written, because the database is away or locked for long, is kept and tried again with what comes
    next. A run never waits for its rows, and never fails for them.

    Args:
        place: A URL or a path, whose tables are made or brought up to date; or an engine of the caller's, whose tables
            are there (`upgrade` makes them), and who disposes of it.
        read: Reads a run's journal, as `store.read`: needed for runs that are resumed, since nobody observes their
            first records any more.
        linger: Seconds in which more may come before what has come is written.
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
        """Make the tables if they are missing, and begin to write. What was observed before is not lost.

        Raises:
            RowsFailed: If the database cannot be used.
        """
        await self._prepare()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="rows")

    def observe(self, run: str, record: Record) -> None:
        """Take note of *record*, which is durable: an observer of runs.

        It takes a microsecond or two. What was observed before is passed over. Never raises: a run does not fail for
        its rows, and what is wrong with these, `flush` and `close` tell.
        """
        expected, root = self._seen.get(run, 0) + 1, root_of(run)
        if record.seq > expected or (root != run and root not in self._seen):
            self._catch_up(run, record)
        elif record.seq == expected:
            self._note(run, record)

    async def flush(self) -> None:
        """Return once the rows of all that was observed are written.

        Raises:
            RowsFailed: If they cannot be; they are kept, and tried again with what comes next. Also if the database
                will never take one of them, which is then let go while all others are written; and if a run was not
                observed from its beginning, and `read` was not given: then it has no rows.
        """
        await self._prepare()
        await self._write()
        missed, self._missed = self._missed, {}
        for problem in missed.values():
            raise problem

    async def close(self) -> None:
        """Write what is left, and let go: no execution stays `running`. Idempotent.

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
        """Write the rows of the root run *run* from its journal; the ids of its executions, the first the outermost.

        Args:
            owned: Somebody drives it, so that it may well be running.

        Raises:
            NoSuchRun, JournalUnreadable: If it cannot be read.
            RowsFailed: If the rows cannot be written.
        """
        fold, executions = RowFold(), []
        for name, record in family(read, run):
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
            with suppress(RowsFailed):  # they are kept; whoever flushes or closes is told
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
        """Turn some of what was noted into rows to write."""
        for run, record in [self._news.popleft() for _ in range(min(MOST, len(self._news)))]:
            try:
                self._take(self._fold, run, record)
            except Exception as error:  # whoever flushes is told, and the rows of other runs are written
                self._miss(run, f"record {record.seq} of run {run!r} cannot be told: {error!r}")
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
        """Note what was not observed of *run* and those it belongs with, *record* included."""
        if self._read is None:
            why = f"record {record.seq} of run {run!r} came before {self._seen.get(run, 0) + 1}"
            hint = "Projection(…, read=store.read) finds the first records of a run that is resumed"
            self._miss(run, why, hint)
            return
        try:
            for name, one in family(self._read, root_of(run)):
                if one.seq == self._seen.get(name, 0) + 1:
                    self._note(name, one)
        except (CoterieError, OSError) as error:
            self._miss(run, str(error))

    def _miss(self, run: str, why: str, hint: str = "") -> None:
        place = self._engine.url.render_as_string(hide_password=True)
        self._missed.setdefault(run, RowsFailed(place, why, hint))


async def project(run: str = "last", place: Place | None = None, *, state_dir: str | Path = STATE_DIR) -> list[UUID]:
    """Write the rows of a run and its child runs from their journals; the ids of its executions, the outermost first.

        execution, *nested = await coterie.patterns.project("last", "sqlite:///rows.sqlite")

    Rows that are there already are written over with the same. One that nobody drives is `paused` if it can be resumed.

    Args:
        run: Its id, the beginning of one, or `last`.
        place: Where to, see `Projection`; by default `rows.sqlite` beside the run's journals.

    Raises:
        NoSuchRun, JournalUnreadable: If it cannot be read.
        UsageError: If it is no run of a pattern, and none is part of it.
        RowsFailed: If the rows cannot be written.
    """
    folder = index.find(run, Path(state_dir))
    kept = folder.parent.parent
    store = JsonlStore(kept)
    async with Projection(kept / ROWS if place is None else place) as rows:
        executions = await rows.project(folder.name, store.read, store.owned(folder.name))
    if not executions:
        raise UsageError(f"run {folder.name!r} is none of a pattern that rows tell of: debate, chain, delegation, …")
    return executions
