"""The tables as they were and as they are: `upgrade` brings a database up to date, one migration after the other.

A new migration is a module in `versions` that names the one before it as its `down_revision`, and `HEAD` names it; a
test says when models and migrations differ.
"""

from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from coterie.patterns.rows.engine import READS, alone, begin_now, failed, open_engine, probe

HEAD = "0001"
"""The last migration."""
VERSIONS = "coterie_rows_version"
"""The table that says which migrations a database has seen; an application may have its own beside it."""

_LOCK = 0x636F_7465_7269_65
"""Who holds this lock in PostgreSQL migrates; others wait, and find that it is done."""


async def upgrade(place: str | Path | URL | AsyncEngine) -> None:
    """Make the tables, or bring them up to date: all of it or nothing, and by one process at a time.

    Tables that `SQLModel.metadata.create_all` made are taken over.

    Raises:
        RowsFailed: If the database cannot be used.
    """
    engine = place if isinstance(place, AsyncEngine) else open_engine(place)
    try:
        probe(engine)
        async with engine.connect() as connection:
            reading = await connection.execution_options(**{READS: True})
            if await reading.run_sync(version) == HEAD:
                return
        async with alone(engine), engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            else:
                await connection.run_sync(begin_now)
            await connection.run_sync(migrate)
    except Exception as error:  # a driver raises what it likes
        raise failed(engine, error) from error
    finally:
        if engine is not place:
            await engine.dispose()


def migrate(connection: Connection) -> None:
    """Apply what *connection*'s database lacks, in the transaction that is open."""
    if version(connection) == HEAD:
        return
    from alembic import command  # a fifth of a second, for a database that needs it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def version(connection: Connection) -> str | None:
    """The last migration that *connection*'s database has seen; None if none."""
    if not inspect(connection).has_table(VERSIONS):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSIONS}")).scalar()
