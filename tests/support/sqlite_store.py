"""Journals in one SQLite file: what a store of one's own needs, for the contract of stores and for `Runs`."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from coterie.errors import JournalFailed, NoSuchRun
from coterie.history.journal.codec import Decoder, Encoder
from coterie.history.journal.jsonl import folder_of
from coterie.history.journal.lock import RunLock, is_held
from coterie.history.journal.records import Record, RunFinished, RunStopped
from coterie.history.journal.rules import Claims, at_rest, check_claim, check_next, root_of
from coterie.history.journal.status import RunStatus


class SqliteStore:
    """Keeps the journals of the state directory *root* in its `journals.sqlite`; see `JournalStore`."""

    def __init__(self, root: Path, poll: float = 0.001) -> None:
        self.root, self._poll = root, poll
        root.mkdir(parents=True, exist_ok=True)
        self._file = root / "journals.sqlite"
        self.writing = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        self.writing.execute("pragma journal_mode = wal")
        self.writing.execute("pragma synchronous = full")
        columns = "run text, seq integer, at real, lines blob, primary key (run, seq)"
        self.writing.execute(f"create table if not exists records ({columns}) without rowid")
        self.writers: dict[str, SqliteWriter] = {}
        self.locks: dict[str, RunLock] = {}
        self.claims = Claims()

    def claim(self, run: str) -> "SqliteWriter":
        root = root_of(run)
        check_claim(run, run in self.writers, root in self.writers)
        folder = folder_of(self.root, run)
        folder.mkdir(parents=True, exist_ok=True)
        if root == run:
            self.locks[run] = RunLock(run, folder / "lock")
        self.writers[run] = writer = SqliteWriter(self, run, self._last(run))
        self.claims.add(run)
        return writer

    def release(self, run: str) -> None:
        for name in (run, *self.claims.let_go(run)):
            self.writers.pop(name).is_closed = True
        if run in self.locks:
            self.locks.pop(run).release()

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        found = self._rows("select lines from records where run = ? order by seq", run)
        if not found and not self.has(run):
            raise NoSuchRun(run, self.list() if root_of(run) == run else ())
        records = Decoder(self.place(run)[0]).read(BytesIO(b"".join(lines for (lines,) in found)))
        return (record for record in records if record.seq >= from_seq)

    def list(self) -> list[str]:
        found = self._rows("select run from records where seq = 1 order by at, run")
        return [run for (run,) in found if root_of(run) == run]

    def has(self, run: str) -> bool:
        return bool(self._rows("select 1 from records where run = ? limit 1", run))

    def owned(self, run: str) -> bool:
        return root_of(run) in self.writers or is_held(folder_of(self.root, root_of(run)) / "lock")

    def status(self, run: str) -> RunStatus:
        if self.owned(run):
            return RunStatus("running")
        match [*self.read(run)][-1] if self.has(run) else None:
            case RunFinished(outcome=outcome, reason=reason, at=at):
                return RunStatus(outcome, reason, at)
            case RunStopped(reason=reason, until=until):
                return RunStatus(f"stopped: {reason}", until=until)
        return RunStatus("cut off")

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        return f"{self._file} run {run}", seq

    async def load(self, run: str) -> Sequence[Record]:
        return await asyncio.to_thread(lambda: tuple(self.read(run)))

    def load_now(self, run: str, *, is_claimed_next: bool = False) -> Sequence[Record]:
        return tuple(self.read(run))

    async def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        last: Record | None = None
        seen = from_seq - 1
        while True:
            rests = at_rest(last, owned=False) and at_rest(last, self.owned(run))
            news = [*self.read(run, seen + 1)]
            for last in news:
                seen = last.seq
                yield last
            if rests and not news:
                return
            if not news:
                await asyncio.sleep(self._poll)

    def close(self) -> None:
        self.writing.close()

    def __del__(self) -> None:  # a test forgets it where a process would end
        self.close()

    def _last(self, run: str) -> int:
        [(last,)] = self._rows("select coalesce(max(seq), 0) from records where run = ?", run)
        return int(last)

    def _rows(self, query: str, *values: object) -> Sequence[tuple[Any, ...]]:
        connection = sqlite3.connect(self._file)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()


class SqliteWriter:
    """The owner of one journal: what it appends is one transaction with what its store's other owners append."""

    repaired = None

    def __init__(self, store: SqliteStore, run: str, last: int) -> None:
        self._store, self._run, self.last, self._safe = store, run, last, last
        self.is_closed = False

    def append(self, records: Sequence[Record]) -> int:
        if self.is_closed:
            raise JournalFailed(self._run, "its writer is closed")
        last = check_next(self.last, records)
        database = self._store.writing
        if records and not database.in_transaction:
            database.execute("begin")
        rows = [(self._run, one.seq, one.at, Encoder(sealed=True).encode([one])) for one in records]
        database.executemany("insert into records values (?, ?, ?, ?)", rows)
        self.last = last
        return last

    def is_durable(self, seq: int) -> bool:
        return seq <= self._safe

    def begin(self) -> bool:
        return True

    def sync(self) -> bool:
        if self._store.writing.in_transaction:
            self._store.writing.execute("commit")
        for writer in self._store.writers.values():
            writer._safe = writer.last
        return True

    async def durable(self, seq: int) -> None:
        if seq > self.last:
            raise ValueError(f"record {seq} was never appended to run {self._run!r}, whose last is {self.last}")
        self.sync()

    async def close(self) -> None:
        if not self.is_closed:
            self.sync()
            self._store.release(self._run)
