"""Journals in PostgreSQL: the export of a cluster, and the store that reads it.

    coterie.record(run, seq, at, line)   one row a record, as a journal on disk has its line
    coterie.blob(hash, data)             texts above 1 kB and submitted files, each once
    coterie.output(attempt, start, lines)  what attempts print, in pieces

The tables are created on first use. A password should be in PGPASSWORD or a password file; a password in a URL is left
out of every message.
"""

import asyncio
import hashlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import groupby
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from coterie.base.waits import waiting
from coterie.errors import ClusterFailed, ExportConflict, ExtraMissing, NoSuchRun
from coterie.history.journal.background import BackgroundLoop
from coterie.history.journal.codec import join, split
from coterie.history.journal.records import Record
from coterie.history.journal.rules import at_rest, root_of
from coterie.history.journal.runs import RunRecord, in_order
from coterie.history.journal.status import RunStatus, goes_on, status_after

T = TypeVar("T")

CONNECTIONS = 4
CHANNEL = "coterie"
"""The channel of NOTIFY; the payload is the id of the root run with new records."""
POLL = 0.5
"""Seconds after which a follower reads again without a notification, which a connection pooler may lose."""
FIRST_PAGE, PAGE = 20, 2000
"""How many records one query reads, so that reading the first record does not load a long journal."""
CONNECT_WITHIN = 5.0
ANSWER_WITHIN, FOLLOW_WITHIN = 5.0, 60.0
"""How long a reader, or a follower, waits for a database that does not answer, in seconds."""
CLOSE_WITHIN = 1.0
_KNOWN_BLOBS = 100_000
"""How many hashes of written blobs are remembered."""
_REFERENCE = re.compile(r'"@text:([0-9a-f]{64})"')
_TABLES = """
create schema if not exists coterie;
create table if not exists coterie.record (
    run text collate "C" not null, seq bigint not null, at double precision not null, line text not null,
    primary key (run, seq)
);
create index if not exists record_began on coterie.record (at) where seq = 1;
create table if not exists coterie.blob (hash text collate "C" primary key, data bytea not null);
create table if not exists coterie.output (
    attempt text collate "C" not null, start bigint not null, lines bytea not null, primary key (attempt, start)
);
create table if not exists coterie.secret (run text collate "C" primary key, value bytea not null);
"""
_PUT_BLOBS = "insert into coterie.blob select * from unnest($1::text[], $2::bytea[]) on conflict do nothing"
_PUT_OUTPUT = """
insert into coterie.output select * from unnest($1::text[], $2::bigint[], $3::bytea[]) on conflict do nothing
"""
_PUT = """
insert into coterie.record
select * from unnest($1::text[], $2::bigint[], $3::double precision[], $4::text[]) on conflict do nothing
returning 1
"""
_SAME = """
select run, seq from unnest($1::text[], $2::bigint[], $3::text[]) as new (run, seq, line)
join coterie.record using (run, seq) where record.line <> new.line order by run, seq limit 1
"""
_ROOTS = r"""
select one.run from coterie.record one left join coterie.record own on own.run = one.run
    and own.seq = 1 + substring(one.line from '"forked_from":\{"run":"[^"]*","seq":(\d+)')::bigint
where one.seq = 1 and strpos(one.run, '/') = 0 order by coalesce(own.at, one.at), one.run
"""
"""A fork began with its first record that is not shared."""
_BELOW = "run = $1 or (run > $1 || '/' and run < $1 || '0')"
"""Matches the root run and its child runs: `0` follows `/` in the order of characters."""


class _ServerAway(ClusterFailed):
    """The database does not answer now but may answer later."""


class PostgresExport:
    """An export in PostgreSQL; see `coterie.history.journal.export.Export`. It belongs to one event loop.

    Args:
        patience: Seconds to wait for a database that has answered before but does not now.
        login: `password` or `passfile`, if they are neither in *url* nor in the environment of this process.
    """

    def __init__(self, url: str, patience: float = ANSWER_WITHIN, **login: str) -> None:
        try:
            import asyncpg
        except ImportError as missing:
            raise ExtraMissing("cluster", missing.name or "asyncpg", "an export in PostgreSQL") from None
        self._asyncpg: Any = asyncpg
        self._broken = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
        """The exceptions of a connection that breaks during a call."""
        self._url, self._login = url, login
        self.place, self.patience = shown(url), patience
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._written: set[str] = set()
        self._printed: dict[tuple[str, int], bytes] = {}
        self._printing = asyncio.Lock()
        self._listener: Any = None
        self._notified: Counter[str] = Counter()
        self._bell = asyncio.Event()

    async def put(self, records: Sequence[RunRecord]) -> None:
        """Add records; see `Export`."""
        rows, texts = [], dict[str, bytes]()
        for run, record in in_order(records):
            line, new = split(record)
            rows.append((run, record.seq, record.at, line))
            texts |= new
        runs, seqs, times, kept = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])

        async def write(connection: Any) -> None:
            async with connection.transaction():
                await self._put_blobs(connection, texts)
                if len(await connection.fetch(_PUT, runs, seqs, times, kept)) < len(rows):
                    for run, seq in await connection.fetch(_SAME, runs, seqs, kept):
                        raise ExportConflict(run, seq)
                for root in {root_of(run) for run in runs}:
                    await connection.execute("select pg_notify($1, $2)", CHANNEL, root)

        await self._patiently(write)
        self._written.update(texts)

    async def load(self, root: str) -> list[RunRecord]:
        """Every record of *root* and its child runs; see `Export`."""
        rows = await self._rows(f"select run, seq, line from coterie.record where {_BELOW} order by run, seq", root)
        return await self._records(rows)

    async def put_blob(self, data: bytes) -> str:
        """Store *data*; see `Export`."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._written:
            await self._patiently(lambda connection: self._put_blobs(connection, {digest: data}))
            self._written.add(digest)
        return digest

    async def blob(self, hash: str) -> bytes:
        """Read the data with that hash; see `Export`."""
        if hash not in (found := await self._blobs([hash])):
            raise ClusterFailed(self.place, f"there is no text or file {hash}")
        return found[hash]

    async def put_output(self, attempt: str, begin: int, lines: bytes) -> None:
        """Store output; see `Export`. Output of several attempts at the same time is written together."""
        self._printed[piece := (attempt, begin)] = lines
        async with self._printing:
            if piece not in self._printed:  # the previous write included it
                return
            some, self._printed = self._printed, {}
            attempts, begins = zip(*some, strict=True)
            rows = list(attempts), list(begins), list(some.values())
            try:
                await self._patiently(lambda connection: connection.execute(_PUT_OUTPUT, *rows))
            except BaseException:
                self._printed = some | self._printed
                raise

    async def output(self, attempt: str, begin: int) -> bytes:
        """Read the output from that byte on; see `Export`."""
        query = "select lines from coterie.output where attempt = $1 and start >= $2 order by start"
        return b"".join(lines for (lines,) in await self._rows(query, attempt, begin))

    async def claim(self, name: str, value: bytes) -> bytes:
        """The value that was stored first; see `Export`. Its table has the name that it had in earlier releases."""
        put = "insert into coterie.secret values ($1, $2) on conflict do nothing"
        key = hashlib.sha256(name.encode()).hexdigest()
        await self._patiently(lambda connection: connection.execute(put, key, value))
        found: bytes = (await self._rows("select value from coterie.secret where run = $1", key))[0][0]
        return found

    async def close(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_WITHIN):
                    if self._listener is not None:
                        await self._listener.close()
                    await pool.close()
            pool.terminate()

    async def read(self, run: str, from_seq: int = 1, most: int | None = None) -> list[Record]:
        """The records of *run* from *from_seq* on, at most *most*."""
        query = "select run, seq, line from coterie.record where run = $1 and seq >= $2 order by seq limit $3"
        return [record for _, record in await self._records(await self._rows(query, run, max(from_seq, 1), most))]

    async def last(self, run: str) -> dict[str, Any]:
        """The last line of *run* as plain data; empty if it has none."""
        query = "select line from coterie.record where run = $1 order by seq desc limit 1"
        return next((msgspec.json.decode(line) for (line,) in await self._rows(query, run)), {})

    async def roots(self) -> list[str]:
        """The ids of the root runs, oldest first."""
        return [run for (run,) in await self._rows(_ROOTS)]

    async def notifications(self, root: str) -> int:
        """The number of notifications so far about new records of *root*."""
        async with self._opening:  # if several followers begin at once, only one connects
            if self._listener is None or self._listener.is_closed():
                with suppress(self._asyncpg.PostgresError, *self._broken):
                    self._listener = await self._asyncpg.connect(self._url, timeout=CONNECT_WITHIN, **self._login)
                    await self._listener.add_listener(CHANNEL, self._notify)
        return self._notified[root]

    async def news(self, root: str, seen: int) -> None:
        """Wait for a notification of *root* after the first *seen* ones, at most `POLL` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL):
                while self._notified[root] == seen:
                    await self._bell.wait()

    def _notify(self, connection: Any, pid: int, channel: str, root: str) -> None:
        self._notified[root] += 1
        self._bell.set()
        self._bell.clear()

    async def _put_blobs(self, connection: Any, blobs: dict[str, bytes]) -> None:
        new = sorted((hash, data) for hash, data in blobs.items() if hash not in self._written)
        if new:
            await connection.execute(_PUT_BLOBS, *map(list, zip(*new, strict=True)))
        if len(self._written) > _KNOWN_BLOBS:
            self._written.clear()

    async def _blobs(self, hashes: Sequence[str]) -> dict[str, bytes]:
        return dict(await self._rows("select hash, data from coterie.blob where hash = any($1::text[])", hashes))

    async def _records(self, rows: Sequence[Any]) -> list[RunRecord]:
        """Decode the records in *rows*, those of each run in order."""
        hashes = {hash for _, _, line in rows for hash in _REFERENCE.findall(line)}
        texts = await self._blobs(sorted(hashes)) if hashes else {}
        found: list[RunRecord] = []
        for run, some in groupby(rows, key=lambda row: row[0]):
            lines = list(some)
            place = f"{self.place} run {run}"
            found += [(run, one) for one in join(place, lines[0][1], [line for _, _, line in lines], texts)]
        return found

    async def _rows(self, query: str, *values: Any) -> list[Any]:
        rows: list[Any] = await self._patiently(lambda connection: connection.fetch(query, *values))
        return rows

    async def _patiently(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run *work* with a connection; repeat it while the database is unavailable, for example during a restart."""
        began = time.monotonic()
        with waiting(f"{self.place} to answer"):
            while True:
                try:
                    async with self._connection() as connection:
                        return await work(connection)
                except _ServerAway:
                    self._written.clear()  # a replica that takes over may lack the newest data
                    if time.monotonic() - began > (self.patience if self._pool is not None else ANSWER_WITHIN):
                        raise
                    await asyncio.sleep(POLL)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        try:
            async with (await self._opened()).acquire() as connection:
                yield connection
        except (self._asyncpg.PostgresError, *self._broken, ValueError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            away = isinstance(error, self._broken) or str(getattr(error, "sqlstate", "")).startswith(
                ("08", "57P0")
            )  # the connection broke, or the server is starting or shutting down
            failed = _ServerAway if away else ClusterFailed
            raise failed(self.place, said.replace(self._url, self.place)) from None

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await self._open()
            return self._pool

    async def _open(self) -> Any:
        pool = await self._asyncpg.create_pool(
            self._url, **self._login, min_size=0, max_size=CONNECTIONS, timeout=CONNECT_WITHIN, statement_cache_size=0
        )
        async with pool.acquire() as connection, connection.transaction():
            if await connection.fetchval("select to_regclass('coterie.secret')") is None:
                await connection.execute("select pg_advisory_xact_lock(hashtext('coterie'))")
                await connection.execute(_TABLES)
        return pool


class PostgresArchive:
    """Reads the runs in an export in PostgreSQL; see `coterie.history.journal.base.Archive`.

    Args:
        url: The database, or an export that is used only on *background*.
        owned: Returns whether a root run is driven; None: it is driven unless its last record ends it.
        running: Returns the status of a driven root run.
    """

    def __init__(
        self,
        url: str | PostgresExport,
        owned: Callable[[str], bool | None] = lambda root: None,
        background: BackgroundLoop | None = None,
        running: Callable[[str], RunStatus] = lambda root: RunStatus("running"),
    ) -> None:
        self._running = running
        self._background = background or BackgroundLoop()
        self.export = PostgresExport(url) if isinstance(url, str) else url
        self._owned = owned

    def list(self) -> list[str]:
        """The ids of the root runs, oldest first."""
        return self._background.call(self.export.roots())

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""
        return bool(self._last(run))

    def owned(self, run: str) -> bool:
        """Whether *run* is driven."""
        root = root_of(run)
        driven = self._owned(root)
        return goes_on(self._last(root)) if driven is None else driven

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*."""
        return self._running(run) if self.owned(run) else status_after(self._last(run))

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        """The database and the run as a name, and the number of the record."""
        return f"{self.export.place} run {run}", seq

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on."""
        return self._pages(self._background.call(self._read(run, from_seq, FIRST_PAGE)), run)

    def _pages(self, page: Sequence[Record], run: str) -> Iterator[Record]:
        while page:
            yield from page
            page = self._background.call(self.export.read(run, page[-1].seq + 1, PAGE))

    async def load(self, run: str) -> Sequence[Record]:
        """All records of *run*."""
        return tuple(await self._background.wait(self._read(run)))

    def load_now(self, run: str, *, is_claimed_next: bool = False) -> Sequence[Record]:
        """All records of *run*."""
        return tuple(self.read(run))

    async def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        """Every existing and further record of *run*."""
        await self._background.wait(self._read(run, from_seq))
        root, seq, last = root_of(run), max(from_seq, 1), None
        self.export.patience = FOLLOW_WITHIN
        while True:
            seen = await self._background.wait(self.export.notifications(root))
            rests = at_rest(last, owned=False) and at_rest(last, self.owned(run))
            news = await self._background.wait(self.export.read(run, seq))
            for last in news:
                seq = last.seq + 1
                yield last
            if rests and not news:
                return
            if not news:
                await self._background.wait(self.export.news(root, seen))

    def close(self) -> None:
        """Close the connections."""
        self._background.call(self.export.close())
        self._background.close()

    async def _read(self, run: str, from_seq: int = 1, most: int | None = None) -> Sequence[Record]:
        found = await self.export.read(run, from_seq, most)
        if not found and not await self.export.last(run):
            raise NoSuchRun(run, await self.export.roots() if root_of(run) == run else ())
        return found

    def _last(self, run: str) -> dict[str, Any]:
        return self._background.call(self.export.last(run))


def shown(url: str) -> str:
    """The database in *url*, without user, password and options."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"postgresql://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
