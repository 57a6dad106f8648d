"""The named parts of frozen values, for comparing two teams and describing one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from coterie.base.diagnostics import Located
from coterie.team.topology.block import Block

T = TypeVar("T")


def fields_of(value: Struct) -> Iterator[tuple[str, Any, Any]]:
    """The fields of *value* that count in a comparison, as a file names them.

    Each has its name, its value, and its default; None if there is no default.
    """
    apart = value.uncompared if isinstance(value, Located) else ()
    for each in _fields(type(value)):
        if each.name not in apart:
            yield each.encode_name, getattr(value, each.name), None if each.default is NODEFAULT else each.default


@cache
def _fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return fields(kind)


def parts_of(value: Any) -> Mapping[str, Any] | None:
    """The parts of *value* by name, without its own name; None if it has no parts."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Block):
        return {**value.fields, **value.kept, **by_name(value.entries)}
    if is_keyed(value):
        return by_name(value)
    if isinstance(value, Located):
        return {name.replace("_", "-"): part for name, part, _ in fields_of(value) if name != "name"}
    return None


def is_keyed(value: Any) -> bool:
    """Whether *value* is a (possibly empty) tuple of parts of a file with names."""
    return isinstance(value, tuple) and all(isinstance(each, Located) and hasattr(each, "name") for each in value)


def by_name(values: Iterable[T], name: Callable[[T], str] = attrgetter("name")) -> dict[str, T]:
    """*values* by name; the second of a name is `NAME#2`."""
    found: dict[str, T] = {}
    for value in values:
        key, number = name(value), 1
        while key in found:
            number += 1
            key = f"{name(value)}#{number}"
        found[key] = value
    return found


def both(old: Mapping[str, T], new: Mapping[str, T]) -> Iterator[tuple[str, T | None, T | None]]:
    """Each name, those of *old* first, with the value in both; None where it is absent."""
    for name in {**old, **new}:
        yield name, old.get(name), new.get(name)
