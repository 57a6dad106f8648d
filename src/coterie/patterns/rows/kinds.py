"""Types of values in rows, and their storage: times, JSON, names, members of an enum."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from sqlalchemy import DateTime, Dialect, Enum
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field

from coterie.base.diagnostics import did_you_mean
from coterie.errors import PatternRefused

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def as_utc(time: datetime) -> datetime:
    """*time* in UTC; a time without a zone counts as UTC, like those of `datetime.utcnow()`."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def as_name(text: str) -> str:
    """*text* as a name: letters, digits, `_` and `-`, in lower case.

    Raises:
        ValueError: If it holds anything else.
    """
    if not _NAME.fullmatch(text):
        raise ValueError(f"Name must be alphanumeric with underscores/hyphens (a to z, 0 to 9, _, -), not {text!r}")
    return text.lower()


def as_json(value: Any) -> Any:
    """A JSON copy of *value*: members of enums become values, models dicts, tuples lists.

    Raises:
        ValueError: If a part of it has no JSON form.
    """
    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except PydanticSerializationError as error:
        raise ValueError(f"this cannot be written as JSON: {error}") from None


def as_text(text: str) -> str:
    """*text* without characters that databases reject: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def refused(what: str, error: ValidationError, fields: Iterable[str] = ()) -> PatternRefused:
    """Convert *error*, pydantic's, into a refusal of *what* that lists all faults by field.

    Args:
        fields: The known fields, for hints on unknown ones.
    """
    faults, known = [], tuple(fields)
    for one in error.errors(include_url=False):
        where, why = ".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden" and len(one["loc"]) == 1 and (hint := did_you_mean(where, known)):
            why = f"{why}; {hint}"
        faults.append(f"{where}: {why}" if where else why)
    return PatternRefused(f"{what} does not fit: {'; '.join(faults)}")


Utc = Annotated[datetime, AfterValidator(as_utc)]
Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(as_name)]
Description = Annotated[str, Field(min_length=1, max_length=1024)]
Object = Annotated[dict[str, Any], AfterValidator(as_json)]
"""A JSON object, copied, so that later changes of the original do not affect it."""


class UtcDateTime(TypeDecorator[datetime]):
    """A time that is read back as written, in UTC with its zone; SQLite stores none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The value for the database."""
        return None if value is None else as_utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The value from the database."""
        return None if value is None else as_utc(value)


def stored(kind: type[StrEnum]) -> Any:
    """The column type for values of *kind*, stored as text: a new member changes no table."""
    return Enum(kind, values_callable=_values, native_enum=False, length=32)


def _values(kind: type[StrEnum]) -> list[str]:
    return [member.value for member in kind]
