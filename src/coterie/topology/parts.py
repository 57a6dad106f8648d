"""The named parts of frozen values, by which two teams are compared and one is described."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from coterie.topology.block import Block
from coterie.topology.conditions import Condition

T = TypeVar("T")


def fields_of(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """The fields of a dataclass that count in a comparison, or of a struct as a file names them.

    Each is its name, its value, and its default; None if it has none.
    """
    if isinstance(value, msgspec.Struct):
        found = [(each.encode_name, each.name, each.default) for each in msgspec.structs.fields(value)]
    else:
        found = [(each.name, each.name, each.default) for each in dataclasses.fields(value) if each.compare]
    for name, attribute, default in found:
        is_required = default is msgspec.NODEFAULT or default is dataclasses.MISSING
        yield name, getattr(value, attribute), None if is_required else default


def parts_of(value: Any) -> Mapping[str, Any] | None:
    """The parts of *value* by name, without its own name; None if it has no parts."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Block):
        return {**value.fields, **value.kept, **by_name(value.entries)}
    if is_keyed(value):
        return by_name(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, Condition):
        return {name.replace("_", "-"): part for name, part, _ in fields_of(value) if name != "name"}
    return None


def is_keyed(value: Any) -> bool:
    """Whether *value* is a (possibly empty) tuple of dataclasses with names."""
    return isinstance(value, tuple) and all(dataclasses.is_dataclass(each) and hasattr(each, "name") for each in value)


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
