"""Check that a state is plain data, and write it as JSON.

A state has to come back from a store as it went in. A tuple would come back as a list and a key that is not text as
text, which an agent would notice only after its first restart, so both are refused when they are stored.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from coterie.errors import StateRefused

DEEPEST = 100
"""Levels of nesting in a state."""

_PLAIN = "None, bool, int, float, str, and lists and dicts of them with text keys"
_INSTEAD = {
    "bytes": "as base64 text",
    "datetime": "its isoformat()",
    "frozenset": "a sorted list",
    "set": "a sorted list",
    "tuple": "a list",
}
_LARGEST = 2**63


def encode(agent_name: str, state: Mapping[str, Any]) -> bytes:
    """The JSON text of the *state* of an agent.

    Raises:
        StateRefused: If it is not plain data.
    """
    fault = _fault("state", dict(state), 0)
    if fault:
        raise StateRefused(agent_name, fault)
    try:
        return msgspec.json.encode(state)
    except UnicodeEncodeError:
        raise StateRefused(agent_name, "state has a text with half of a surrogate pair, which is not Unicode") from None


def decode(data: bytes | str) -> dict[str, Any]:
    """The state that `encode` wrote.

    Raises:
        ValueError: If it is not the JSON text of a state.
    """
    state = msgspec.json.decode(data)
    if not isinstance(state, dict):
        raise ValueError("it is not an object")
    return state


def _fault(path: str, value: Any, depth: int) -> str:
    """What is wrong with *value*, found at *path*; empty if nothing is."""
    kind = type(value)
    if value is None or kind is bool:
        return ""
    if kind is str:
        return ""
    if kind is int:
        return "" if -_LARGEST <= value < _LARGEST else f"{path} is a whole number of more than 64 bits: store its text"
    if kind is float:
        return "" if math.isfinite(value) else f"{path} is {value}, which JSON does not have: store None or a text"
    if depth >= DEEPEST and kind in (dict, list):
        return f"{path[:80]}… is nested deeper than {DEEPEST} levels, or contains itself"
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                return f"{path} has the key {key!r}, which is not text: use str(key)"
            if fault := _fault(f"{path}[{key!r}]", inner, depth + 1):
                return fault
        return ""
    if kind is list:
        for at, inner in enumerate(value):
            if fault := _fault(f"{path}[{at}]", inner, depth + 1):
                return fault
        return ""
    plainer = next((base.__name__ for base in (dict, list, str, int, float) if isinstance(value, base)), "")
    instead = _INSTEAD.get(kind.__name__) or (f"{plainer}(…) of it" if plainer else "")
    return f"{path} is of type {kind.__name__}: store {instead or 'plain data'}; a state holds {_PLAIN}"
