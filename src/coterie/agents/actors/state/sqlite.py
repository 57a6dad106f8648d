"""Keep states in an SQLite database.

The table is `agent_state (agent_name, state)` with states as JSON text, as in Civitas, whose databases can be used
unchanged.
"""

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from coterie.agents.actors.plugins.configured import Configured
from coterie.agents.actors.state.plain import decode, encode
from coterie.base import files
from coterie.errors import StateFailed

T = TypeVar("T")

DB_PATH = "agency_state.db"
"""The default database."""
_BUSY = 60_000
"""Milliseconds to wait while other processes write; SQLite may let another process go first repeatedly."""
_PAUSE = 0.01
"""Seconds between two attempts to change the journal mode."""
_TABLE = "CREATE TABLE IF NOT EXISTS agent_state (agent_name TEXT PRIMARY KEY, state TEXT NOT NULL)"


class SQLiteStateStore(Configured):
    """Keeps states in the SQLite database *db_path*, which several processes may use at the same time.

    When `set` returns, the state is on disk and survives a power failure. States that are set at the same time share
    a commit. The database is opened, and if necessary created, on first use; the file and those that SQLite adds to it
    are private. All work is done in a thread.

    Args:
        db_path: The database; a relative path begins in the working directory.

    Attributes:
        path: The database.
    """

    def __init__(self, db_path: str | os.PathLike[str] = DB_PATH) -> None:
        self.path = Path(db_path)
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._next: _Batch | None = None
        self._writer: asyncio.Task[None] | None = None

    async def get(self, agent_name: str) -> dict[str, Any] | None:
        """The state of an agent; None if nothing is stored.

        Raises:
            StateFailed: If the database or the state cannot be read.
        """
        rows = await self._call(lambda: self._rows("SELECT state FROM agent_state WHERE agent_name = ?", agent_name))
        if not rows:
            return None
        try:
            return decode(rows[0])
        except (TypeError, ValueError) as error:
            reason = f"the state of agent {agent_name!r} is not a JSON object ({error})"
            raise StateFailed(self.path, reason, f"`coterie state clear {agent_name}` removes it") from error

    async def set(self, agent_name: str, state: Mapping[str, Any]) -> None:
        """Store the state of an agent durably.

        Raises:
            StateFailed: If the database cannot be written.
            StateRefused: If the state is not plain data.
        """
        await self._put(agent_name, encode(agent_name, state).decode())

    async def delete(self, agent_name: str) -> None:
        """Remove the state of an agent; without one, do nothing."""
        await self._put(agent_name, None)

    async def list_agents(self) -> list[str]:
        """The names of the agents that have a state, sorted."""
        names = await self._call(lambda: self._rows("SELECT agent_name FROM agent_state"))
        return sorted(names)

    async def close(self) -> None:
        """Finish pending writes and close the database. Idempotent; the next call opens it again."""
        if self._writer is not None:
            await self._writer
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await asyncio.get_running_loop().run_in_executor(thread, self._disconnect)
            thread.shutdown(wait=False)

    async def _put(self, agent_name: str, state: str | None) -> None:
        """Change one row, together with all others that are waiting."""
        if self._next is None:
            self._next = _Batch()
        batch = self._next
        batch.rows[agent_name] = state
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await asyncio.shield(batch.done)

    async def _write(self) -> None:
        """Write the waiting rows, and those that are added meanwhile, until there are none."""
        try:
            while (batch := self._next) is not None:
                self._next = None
                try:
                    await self._call(lambda rows=batch.rows: self._commit(rows))  # type: ignore[misc]
                except Exception as error:
                    batch.done.set_exception(error)
                except BaseException:
                    batch.done.cancel()
                    raise
                else:
                    batch.done.set_result(None)
        finally:
            self._writer = None

    async def _call(self, work: Callable[[], T]) -> T:
        """Call *work* in the thread of the database and return its result."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="coterie-state")

        def translated() -> T:
            try:
                return work()
            except sqlite3.Error as error:
                raise StateFailed(self.path, str(error)) from error
            except OSError as error:
                raise StateFailed(self.path, error.strerror or str(error)) from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, translated)

    def _rows(self, query: str, *values: str) -> list[Any]:
        return [row[0] for row in self._connected().execute(query, values)]

    def _commit(self, rows: Mapping[str, str | None]) -> None:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for name, state in rows.items():
                if state is None:
                    connection.execute("DELETE FROM agent_state WHERE agent_name = ?", (name,))
                else:
                    connection.execute("INSERT OR REPLACE INTO agent_state VALUES (?, ?)", (name, state))
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            _make_private(self.path)
            connection = sqlite3.connect(self.path.absolute(), isolation_level=None, timeout=_BUSY / 1000)
            try:
                _write_ahead(connection)
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(_TABLE)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


class _Batch:
    """Rows that are written in one commit; None deletes a row."""

    def __init__(self) -> None:
        self.rows: dict[str, str | None] = {}
        self.done = asyncio.get_running_loop().create_future()


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Set the journal mode to WAL, and wait for other processes, since SQLite does not wait during this change."""
    until = time.monotonic() + _BUSY / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_PAUSE)


def _make_private(path: Path) -> None:
    """Create the file *path*, or make it private. An existing file is not opened: closing it would end SQLite's locks.

    Raises:
        OSError: If it cannot be created or is not a regular file.
    """
    files.make_folder(path.absolute().parent)
    try:
        os.close(files.open_fd(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, follow=True))
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(files.PRIVATE_FILE)
