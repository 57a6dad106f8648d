"""What is said where the extra `sql` is needed and not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from coterie.errors import ExtraMissing

_LIBRARIES = ("aiosqlite", "alembic", "asyncpg", "greenlet", "pydantic", "sqlalchemy", "sqlmodel")


@contextmanager
def needing_sql(wanted: str) -> Iterator[None]:
    """Import what *wanted* needs.

    Raises:
        ExtraMissing: If a library of the extra `sql` is not installed; says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in _LIBRARIES:
            raise
        raise ExtraMissing("sql", missing.name, wanted) from None
