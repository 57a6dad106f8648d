"""Show values in prompts, as JSON in lines for people and models."""

import json
from typing import Any

import msgspec

from coterie.team.topology.patterns.inputs import task_of


def as_json(value: Any) -> str:
    """*value*, plain JSON values, in indented lines."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (OverflowError, TypeError, ValueError):  # half a surrogate pair, a number beyond 64 bits
        return json.dumps(value, indent=2, ensure_ascii=False)


def request(original: Any) -> str:
    """The request in the *original* input of a run: its task, else the whole input."""
    return (task_of((), original) if isinstance(original, dict) else "") or as_json(original)
