"""Build rows and models from trusted values without validation.

Values from users are validated, which takes some 100 µs for a row. A program gets a row for every call, message and
result; their values come from a journal or this package, so validation is skipped.
"""

from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy.orm.attributes import manager_of_class
from sqlmodel import SQLModel

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=SQLModel)


def model(kind: type[M], values: dict[str, Any], private: dict[str, Any]) -> M:
    """A *kind* with *values*, one for every field, and its *private* ones, without validation."""
    made: M = kind.__new__(kind)
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", private)
    return made


def row(kind: type[R], **values: Any) -> R:
    """A row of *kind* with *values*, one for every column, without validation; a session accepts it like any other."""
    made: R = kind.__new__(kind)
    manager_of_class(kind).setup_instance(made)
    made.__dict__.update(values)
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    return made
