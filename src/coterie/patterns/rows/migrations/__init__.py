"""Migrations of the tables; `upgrade` applies the missing ones in order.

A new migration is a module in `versions` that names its predecessor as `down_revision`, and becomes `HEAD`; a test
fails when models and migrations differ.
"""

from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from coterie.patterns.rows.engine import READS, alone, begin_now, failed, open_engine, probe

HEAD = "0001"
"""The last migration."""
VERSIONS = "coterie_rows_version"
"""The table with the applied migrations of a database; an application may have its own beside it."""

_LOCK = 0x636F_7465_7269_65
"""The advisory lock of PostgreSQL for migrations; others wait, and find them applied."""


async def upgrade(place: str | Path | URL | AsyncEngine) -> None:
    """Create or upgrade the tables: all or nothing, and one process at a time.

    Tables created by `SQLModel.metadata.create_all` are adopted.

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
    """Apply the missing migrations of *connection*'s database, in the open transaction."""
    if version(connection) == HEAD:
        return
    from alembic import command  # a fifth of a second, for a database that needs it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def version(connection: Connection) -> str | None:
    """The last applied migration of *connection*'s database; None if none."""
    if not inspect(connection).has_table(VERSIONS):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSIONS}")).scalar()
