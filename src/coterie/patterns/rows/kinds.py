"""The kinds of values in rows, and how a database keeps them: times, JSON, names, members of an enum."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from sqlalchemy import DateTime, Dialect, Enum
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field

from coterie.errors import PatternRefused

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def utc_now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


def as_utc(time: datetime) -> datetime:
    """*time* in UTC; one without a zone is taken to be UTC, as what `datetime.utcnow()` gives."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def as_name(text: str) -> str:
    """*text* as names are written: letters, digits, `_` and `-`, in lower case.

    Raises:
        ValueError: If it holds anything else.
    """
    if not _NAME.fullmatch(text):
        raise ValueError(f"Name must be alphanumeric with underscores/hyphens (a to z, 0 to 9, _, -), not {text!r}")
    return text.lower()


def as_json(value: Any) -> Any:
    """A copy of *value* made of what JSON has: an enum's member is its value, a model its fields, a tuple a list.

    Raises:
        ValueError: If something in it has no such form.
    """
    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except PydanticSerializationError as error:
        raise ValueError(f"this cannot be written as JSON: {error}") from None


def as_text(text: str) -> str:
    """*text* without what no database takes: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def refused(what: str, error: ValidationError) -> PatternRefused:
    """*error*, pydantic's, as a refusal of *what*: what is wrong, field by field."""
    faults = []
    for one in error.errors(include_url=False):
        where, why = ".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")
        faults.append(f"{where}: {why}" if where else why)
    return PatternRefused(f"{what} does not fit: {'; '.join(faults)}")


Utc = Annotated[datetime, AfterValidator(as_utc)]
Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(as_name)]
Description = Annotated[str, Field(min_length=1, max_length=1024)]
Object = Annotated[dict[str, Any], AfterValidator(as_json)]
"""A JSON object, copied: whoever gave it may go on changing theirs."""


class UtcDateTime(TypeDecorator[datetime]):
    """A time that comes back as it was written, in UTC with its zone; SQLite keeps none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """What the database is given."""
        return None if value is None else as_utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """What it gave back."""
        return None if value is None else as_utc(value)


def stored(kind: type[StrEnum]) -> Any:
    """The type of a column that keeps the value of a member of *kind*, as text: a new member needs no migration."""
    return Enum(kind, values_callable=_values, native_enum=False, length=32)


def _values(kind: type[StrEnum]) -> list[str]:
    return [member.value for member in kind]
