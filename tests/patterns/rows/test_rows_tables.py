"""Tables are made from the models, once, and those of a newer version are refused."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

from coterie.errors import RowsFailed, UsageError
from coterie.patterns.rows import models
from coterie.patterns.rows import tables as rows_tables
from coterie.patterns.rows.engine import open_engine
from coterie.patterns.rows.tables import HEAD, TABLES, VERSIONS, is_current, upgrade


def tables(url: str) -> set[str]:
    """The tables in the database at *url*; it must be up to date."""

    def look(connection: Connection) -> set[str]:
        assert is_current(connection)
        return set(inspect(connection).get_table_names())

    async def looked() -> set[str]:
        engine = open_engine(url)
        async with engine.connect() as connection:
            found = await connection.run_sync(look)
        await engine.dispose()
        return found

    return asyncio.run(looked())


OURS = {table.name for table in TABLES}


def test_every_model_of_a_row_has_its_table(new_database: Callable[[], str]) -> None:
    """Seven, and one for their version; those of an application are its own."""
    rows = {one for one in vars(models).values() if isinstance(one, type) and issubclass(one, models.Row)}

    assert {str(one.__tablename__) for one in rows - {models.Row}} == OURS
    assert tables(new_database()) == {*OURS, VERSIONS}


def test_tables_of_a_newer_coterie_are_refused(tmp_path: Path) -> None:
    """Before anything is written; the error says what to do."""
    path = tmp_path / "newer.sqlite"
    asyncio.run(upgrade(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {VERSIONS} SET version_num = '0002'")
        connection.commit()

    with pytest.raises(RowsFailed, match="have version 0002, and this coterie knows 0001: use a newer coterie"):
        asyncio.run(upgrade(path))


def test_tables_that_the_models_made_are_taken_over(tmp_path: Path) -> None:
    """As programs of the reference make them; their rows stay."""
    url = f"sqlite:///{tmp_path / 'own.sqlite'}"

    async def made() -> None:
        engine = open_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(SQLModel.metadata.create_all, TABLES)
        await engine.dispose()
        await upgrade(url)

    asyncio.run(made())
    assert tables(url) == {*OURS, VERSIONS}


def test_many_may_bring_one_database_up_to_date(tmp_path: Path) -> None:
    """At once; it is done once."""
    path = tmp_path / "new.sqlite"

    async def all_at_once() -> None:
        await asyncio.gather(*(upgrade(path) for _ in range(8)))

    asyncio.run(all_at_once())
    with sqlite3.connect(path) as connection:
        assert connection.execute(f"SELECT version_num FROM {VERSIONS}").fetchall() == [(HEAD,)]
    connection.close()


def test_an_engine_of_the_callers_makes_all_tables_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        patch.setattr(rows_tables, "make", fails)
        with pytest.raises(RowsFailed, match="the power is gone"):
            asyncio.run(upgraded())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    asyncio.run(upgraded())
    assert tables(f"sqlite:///{path}") == {*OURS, VERSIONS}


def test_many_may_bring_one_postgres_up_to_date(bare_postgres: Callable[[], str]) -> None:
    """At once; the others wait for the first."""
    url = bare_postgres()

    async def all_at_once() -> None:
        await asyncio.gather(*(upgrade(url) for _ in range(5)))

    asyncio.run(all_at_once())
    assert tables(url) == {*OURS, VERSIONS}


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
