"""Check that a state is plain data, and write it as JSON.

A store must return a state unchanged. A tuple would come back as a list, and a key that is not text as text, which an
agent would notice only after its first restart; so both are refused when they are stored.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from coterie.agents.actors.exact import fault_of
from coterie.errors import StateRefused

_PLAIN = "None, bool, int, float, str, and lists and dicts of them with text keys"
_LARGEST = 2**63


def encode(agent_name: str, state: Mapping[str, Any]) -> bytes:
    """Encode the *state* of an agent as JSON.

    Raises:
        StateRefused: If it is not plain data.
    """
    if fault := fault_of("state", dict(state), _leaf, frozenset({str}), "store"):
        raise StateRefused(agent_name, f"{fault}; a state holds {_PLAIN}" if " is of type " in fault else fault)
    try:
        return msgspec.json.encode(state)
    except UnicodeEncodeError:
        raise StateRefused(agent_name, "state has a text with half of a surrogate pair, which is not Unicode") from None


def decode(data: bytes | str) -> dict[str, Any]:
    """Decode a state that `encode` wrote.

    Raises:
        ValueError: If it is not the JSON text of a state.
    """
    state = msgspec.json.decode(data)
    if not isinstance(state, dict):
        raise ValueError("it is not an object")
    return state


def _leaf(value: Any) -> str | None:
    kind = type(value)
    if kind is int and not -_LARGEST <= value < _LARGEST:
        return "is a whole number of more than 64 bits: store its text"
    if kind is float and not math.isfinite(value):
        return f"is {value}, which JSON does not have: store None or a text"
    return "" if value is None or kind in (bool, int, float, str) else None
