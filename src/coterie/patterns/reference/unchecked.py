"""Rows and models made of values that are right already, because a journal or this package gave them.

What a user makes is checked when it is made; for a row that takes some 50 µs. A program is given one for every call,
message and result, so those are made without.
"""

from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy.orm.attributes import manager_of_class
from sqlmodel import SQLModel

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=SQLModel)


def model(kind: type[M], values: dict[str, Any], private: dict[str, Any]) -> M:
    """A *kind* with *values*, one for every field, and its *private* ones, all taken as they are."""
    made: M = kind.__new__(kind)
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", private)
    return made


def row(kind: type[R], **values: Any) -> R:
    """A row of *kind* with *values*, one for every column, taken as they are; a session may be given it like any."""
    made: R = kind.__new__(kind)
    manager_of_class(kind).setup_instance(made)
    made.__dict__.update(values)
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    return made
