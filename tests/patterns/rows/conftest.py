"""Databases with tables and without rows: SQLite files, and PostgreSQL where it can be started."""

import asyncio
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

NewDatabase = Callable[[], str]


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables, to be copied."""
    from coterie.patterns.rows.tables import upgrade

    path = tmp_path_factory.mktemp("rows") / "empty.sqlite"
    asyncio.run(upgrade(path))
    return path


@pytest.fixture
def new_sqlite(empty_sqlite: Path, tmp_path: Path) -> NewDatabase:
    """Makes files with the tables."""
    numbers = count(1)

    def new() -> str:
        path = tmp_path / f"rows-{next(numbers)}.sqlite"
        shutil.copy(empty_sqlite, path)
        return f"sqlite:///{path}"

    return new


@pytest.fixture(scope="session")
def bare_postgres(postgres: str) -> NewDatabase:
    """Makes databases without anything."""
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import create_async_engine

    numbers = count(1)

    def new(template: str = "template1") -> str:
        async def make() -> None:
            engine = create_async_engine(postgres.format("postgres"), isolation_level="AUTOCOMMIT")
            async with engine.connect() as connection:
                await connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
            await engine.dispose()

        name = f"rows_{next(numbers)}"
        asyncio.run(make())
        return postgres.format(name)

    return new


@pytest.fixture(scope="session")
def new_postgres(bare_postgres: Callable[..., str]) -> NewDatabase:
    """Makes databases with the tables, which are made once."""
    from sqlalchemy import make_url

    from coterie.patterns.rows.tables import upgrade

    url = bare_postgres()
    asyncio.run(upgrade(url))
    return lambda: bare_postgres(make_url(url).database)


@pytest.fixture(params=["sqlite", "postgres"])
def new_database(request: pytest.FixtureRequest) -> NewDatabase:
    """Makes databases with the tables, of either kind."""
    new: NewDatabase = request.getfixturevalue(f"new_{request.param}")
    return new
