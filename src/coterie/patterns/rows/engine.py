"""Separate connections to the database of rows: SQLite, one file, or PostgreSQL."""

import asyncio
import sqlite3
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, StaticPool, event, make_url
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from coterie.errors import RowsFailed, UsageError

BUSY = 30.0
"""Seconds that a writer waits while another one writes to the same SQLite file."""
READS = "coterie_reads"
"""The execution option of a read-only connection, whose transactions wait for no writer."""

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()
_REFUSALS = ("22", "23")
"""Prefixes of SQLSTATE codes for invalid data and violated constraints."""
_NO_TABLE = ("no such table", "UndefinedTable")


def url_of(place: str | Path | URL) -> URL:
    """*place* as a URL with an asynchronous driver: `sqlite:///rows.db`, `postgresql://…`, or the path of a file.

    Raises:
        UsageError: If it is another kind of database.
    """
    if isinstance(place, Path):
        return URL.create("sqlite+aiosqlite", database=str(place))
    url = make_url(place)
    if url.drivername in _DRIVERS:
        return url.set(drivername=_DRIVERS[url.drivername])
    if url.drivername not in _DRIVERS.values():
        raise UsageError(f"rows are kept in sqlite:///… or postgresql://…, not in {url.drivername!r}")
    return url


def open_engine(place: str | Path | URL) -> AsyncEngine:
    """A new engine for *place*.

    On SQLite a transaction waits for other writers when it begins, unless its connection only `READS`, so it never has
    to give up half-way; readers neither wait nor block.
    """
    url = url_of(place)
    engine = create_async_engine(url)
    if url.get_backend_name() == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare)
        event.listen(engine.sync_engine, "begin", _begin)
    return engine


def probe(engine: AsyncEngine) -> None:
    """Check that the file of *engine*, if any, can be opened.

    Without this check, a failing asynchronous driver leaves a thread that complains.

    Raises:
        sqlite3.Error: If it cannot.
    """
    path = engine.url.database
    if engine.dialect.name == "sqlite" and path and not path.startswith((":", "file:")):
        sqlite3.connect(path).close()


def alone(engine: AsyncEngine) -> AbstractAsyncContextManager[object]:
    """Serialise writers of this program to one SQLite database while a transaction is open.

    SQLite allows one writer at a time, but keeps no queue: it admits the one that tries at the right moment. Users of
    an in-memory database share one connection, so one could commit, or lose, the work of another.
    """
    if engine.dialect.name != "sqlite":
        return nullcontext()
    locks = _locks.setdefault(asyncio.get_running_loop(), {})
    name = str(id(engine.sync_engine)) if isinstance(engine.pool, StaticPool) else str(engine.url.database)
    return locks.setdefault(name, asyncio.Lock())


def begin_now(connection: Connection) -> None:
    """Begin the transaction of *connection*, of any SQLite engine, here, when no other one writes.

    By default the driver of a caller's engine would begin none for statements that create tables: each would count at
    once, and two processes would create them at the same time.
    """
    driver: Any = connection.connection.driver_connection
    if not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def failed(engine: AsyncEngine, error: Exception, hint: str = "") -> RowsFailed:
    """Convert *error*, a driver's, for users of rows; *hint* is used unless tables are missing."""
    why = reason(error)
    if any(words in why for words in _NO_TABLE):
        hint = "`await coterie.patterns.upgrade(…)` makes the tables"
    return RowsFailed(engine.url.render_as_string(hide_password=True), why, hint)


def reason(error: Exception) -> str:
    """The message of *error*, without the statement."""
    return str(getattr(error, "orig", None) or error) or type(error).__name__


def is_refusal(error: Exception) -> bool:
    """Whether *error* is about the written data, and not about a database that is unavailable, locked or full: then
    another attempt would fail the same way.
    """
    if not isinstance(error, DBAPIError):
        return isinstance(error, StatementError | LookupError | ValueError | TypeError | OverflowError)
    said = error.orig
    state = str(getattr(said, "sqlstate", None) or "")
    not_encoded = isinstance(said.__cause__ if said is not None else None, ValueError)  # asyncpg's DataError
    return isinstance(error, IntegrityError | DataError) or state[:2] in _REFUSALS or not_encoded


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions by itself, and later
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY * 1000)}")
    with suppress(sqlite3.OperationalError):  # locked: another connection is doing it just now
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")  # `project` rewrites what a power cut takes from the end
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
