"""The tables of rows: `upgrade` creates missing ones, and refuses tables of a newer coterie."""

from pathlib import Path

from sqlalchemy import URL, Column, Connection, MetaData, String, Table, inspect, select
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlmodel import SQLModel

from coterie.patterns.rows import models
from coterie.patterns.rows.engine import READS, alone, begin_now, failed, open_engine, probe

HEAD = "0001"
"""The version of the tables; a later one is greater as a text."""
VERSIONS = "coterie_rows_version"
"""The table with the version of a database; an application may have its own beside it."""

TABLES = tuple(
    SQLModel.metadata.tables[str(one.__tablename__)]
    for one in (
        models.AgentType,
        models.Topology,
        models.TopologyMembership,
        models.Execution,
        models.AgentInstance,
        models.Message,
        models.Result,
    )
)
"""The tables of rows, without tables that an application declares beside them."""

_VERSION = Table(VERSIONS, MetaData(), Column("version_num", String(32), primary_key=True))
_LOCK = 0x636F_7465_7269_65
"""The advisory lock of PostgreSQL for making tables; others wait, and find them made."""


async def upgrade(place: str | Path | URL | AsyncEngine) -> None:
    """Create the tables that are missing: all or nothing, and one process at a time.

    Tables created by `SQLModel.metadata.create_all` are adopted.

    Raises:
        RowsFailed: If the database cannot be used, or has tables of a newer coterie.
    """
    engine = place if isinstance(place, AsyncEngine) else open_engine(place)
    try:
        probe(engine)
        async with engine.connect() as connection:
            reading = await connection.execution_options(**{READS: True})
            if await reading.run_sync(is_current):
                return
        async with alone(engine), engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            else:
                await connection.run_sync(begin_now)
            await connection.run_sync(make)
    except Exception as error:  # a driver raises what it likes
        raise failed(engine, error) from error
    finally:
        if engine is not place:
            await engine.dispose()


def make(connection: Connection) -> None:
    """Make the missing tables of *connection*'s database, in the open transaction."""
    if not is_current(connection):
        SQLModel.metadata.create_all(connection, TABLES)
        _VERSION.create(connection, checkfirst=True)
        connection.execute(_VERSION.insert().values(version_num=HEAD))


def is_current(connection: Connection) -> bool:
    """Whether *connection*'s database has the tables of this version.

    Raises:
        ValueError: If it has those of a newer one.
    """
    if not inspect(connection).has_table(VERSIONS):
        return False
    found = connection.execute(select(_VERSION.c.version_num)).scalar()
    if found is not None and found > HEAD:
        raise ValueError(f"its tables have version {found}, and this coterie knows {HEAD}: use a newer coterie")
    return found is not None
