"""Find the place in a value that a store or another process would not return unchanged."""

from collections.abc import Callable
from typing import Any

DEEPEST = 100
"""The deepest allowed nesting of a value."""

_INSTEAD = {
    "Decimal": "its text",
    "UUID": "its text",
    "bytearray": "bytes(…) of it",
    "bytes": "as base64 text",
    "date": "its isoformat()",
    "datetime": "its isoformat()",
    "frozenset": "a sorted list",
    "set": "a sorted list",
    "time": "its isoformat()",
    "tuple": "a list",
}
_LONGEST = 200
"""How many characters of a place an error shows."""

Leaf = Callable[[Any], str | None]
"""Returns the problem with a value that is not a list or dict: empty if there is none, None if it is the type."""


def consists_of(value: Any, types: frozenset[type], levels: int = DEEPEST) -> bool:
    """Whether *value* is of *types*, or a list or dict of such values and keys, nested at most *levels* deep."""
    kind = type(value)
    if kind in types:
        return True
    if not levels or (kind is not list and (kind is not dict or not types.issuperset(map(type, value)))):
        return False
    for inner in value if kind is list else value.values():
        if type(inner) not in types and not consists_of(inner, types, levels - 1):
            return False
    return True


def fault_of(what: str, value: Any, leaf: Leaf, keys: frozenset[type], verb: str) -> str:
    """The problem with *value*, such as `payload['a'][0] is of type set: send a sorted list`; empty if there is none.

    Args:
        what: The name of the value.
        keys: The types that a key may have.
        verb: What the caller does with the value.
    """
    place, fault = _find(value, leaf, keys, verb, 0)
    place = what + (place if len(place) < _LONGEST else f"{place[:_LONGEST]}…")
    return fault and f"{place} {fault}"


def _find(value: Any, leaf: Leaf, keys: frozenset[type], verb: str, depth: int) -> tuple[str, str]:
    kind = type(value)
    if kind is not dict and kind is not list:
        if (fault := leaf(value)) is not None:
            return "", fault
        plainer = next((base.__name__ for base in (dict, list, str, int, float) if isinstance(value, base)), "")
        instead = _INSTEAD.get(kind.__name__) or (f"{plainer}(…) of it" if plainer else "plain data")
        return "", f"is of type {kind.__name__}: {verb} {instead}"
    if depth >= DEEPEST:
        return "", f"is nested deeper than {DEEPEST} levels, or contains itself"
    for at, inner in value.items() if kind is dict else enumerate(value):
        if kind is dict and (type(at) not in keys or leaf(at)):
            return "", f"has the key {at!r}, which is not text: use str(key)"
        if inner is not None:
            place, fault = _find(inner, leaf, keys, verb, depth + 1)
            if fault:
                return f"[{at!r}]{place}", fault
    return "", ""
