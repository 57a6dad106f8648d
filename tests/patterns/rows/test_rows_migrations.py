"""Tables are made by migrations, and are what the models say."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Integer, MetaData, Table, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

from coterie.errors import RowsFailed, UsageError
from coterie.patterns.rows import migrations, models
from coterie.patterns.rows.engine import open_engine
from coterie.patterns.rows.migrations import HEAD, VERSIONS, upgrade, version

OURS = {
    str(model.__tablename__)
    for model in vars(models).values()
    if isinstance(model, type) and issubclass(model, models.Row) and model is not models.Row
}


def ours() -> MetaData:
    """The models' tables, without those that other code put beside them."""
    metadata = MetaData()
    for name in sorted(OURS):
        SQLModel.metadata.tables[name].to_metadata(metadata)
    return metadata


def difference(url: str, wanted: MetaData) -> list[object]:
    """What a migration would have to do to the database at *url*."""

    def compare(connection: Connection) -> list[object]:
        assert version(connection) == HEAD
        options = {"version_table": VERSIONS, "compare_server_default": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), wanted))

    async def look() -> list[object]:
        engine = open_engine(url)
        async with engine.connect() as connection:
            found = await connection.run_sync(compare)
        await engine.dispose()
        return found

    return asyncio.run(look())


def test_models_and_migrations_agree(new_database: Callable[[], str]) -> None:
    """Nothing is left to migrate."""
    assert len(OURS) == 7
    assert difference(new_database(), ours()) == []


def test_a_difference_would_be_found(new_database: Callable[[], str]) -> None:
    """A new column, a new table, another type."""
    wanted = ours()
    wanted.tables["messages"].append_column(Column("priority", Integer))
    Table("rumours", wanted, Column("id", Integer, primary_key=True))
    wanted.tables["executions"].c.error.type = Integer()

    assert len(difference(new_database(), wanted)) == 3


def test_the_last_migration_is_named() -> None:
    """What is up to date is found out without Alembic."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))

    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_tables_that_the_models_made_are_taken_over(tmp_path: Path) -> None:
    """As programs of the reference make them; their rows stay."""
    url = f"sqlite:///{tmp_path / 'own.sqlite'}"

    async def made() -> None:
        engine = open_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(ours().create_all)
        await engine.dispose()
        await upgrade(url)

    asyncio.run(made())
    assert difference(url, ours()) == []


def test_many_may_bring_one_database_up_to_date(tmp_path: Path) -> None:
    """At once; it is done once."""
    path = tmp_path / "new.sqlite"

    async def all_at_once() -> None:
        await asyncio.gather(*(upgrade(path) for _ in range(8)))

    asyncio.run(all_at_once())
    with sqlite3.connect(path) as connection:
        assert connection.execute(f"SELECT version_num FROM {VERSIONS}").fetchall() == [(HEAD,)]
    connection.close()


def test_an_engine_of_the_callers_migrates_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's own way would let each table count at once, and two processes make it at the same time."""
    path = tmp_path / "new.sqlite"

    def fails(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE half (n INTEGER)"))
        with (
            closing(sqlite3.connect(path, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("CREATE TABLE other (n INTEGER)")
        raise RuntimeError("the power is gone")

    async def upgraded() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        try:
            await upgrade(engine)
        finally:
            await engine.dispose()

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "migrate", fails)
        with pytest.raises(RowsFailed, match="the power is gone"):
            asyncio.run(upgraded())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    asyncio.run(upgraded())
    assert difference(f"sqlite:///{path}", ours()) == []


def test_many_may_bring_one_postgres_up_to_date(bare_postgres: Callable[[], str]) -> None:
    """At once; the others wait for the first."""
    url = bare_postgres()

    async def all_at_once() -> None:
        await asyncio.gather(*(upgrade(url) for _ in range(5)))

    asyncio.run(all_at_once())
    assert difference(url, ours()) == []


def test_a_database_that_cannot_be_reached_is_told_of(tmp_path: Path) -> None:
    """With its place, without its password."""
    with pytest.raises(RowsFailed, match=r"nowhere/rows\.sqlite.*unable to open"):
        asyncio.run(upgrade(tmp_path / "nowhere" / "rows.sqlite"))
    with pytest.raises(RowsFailed, match=r"ada:\*\*\*@/") as told:
        asyncio.run(upgrade(f"postgresql://ada:secret@/rows?host={tmp_path}"))
    assert "secret" not in str(told.value)


def test_another_kind_of_database_is_refused() -> None:
    with pytest.raises(UsageError, match="'mysql'"):
        asyncio.run(upgrade("mysql://localhost/rows"))
