"""Describe the declared outputs of an agent as a tool with which the model returns them."""

from collections.abc import Sequence
from typing import Any

from coterie.history.engines.replies import expectation
from coterie.team.planning.plan import Wanted

TOOL = "give_outputs"
"""The tool with which a model returns its outputs."""

INSTRUCTION = f"Give the wanted outputs by calling the tool `{TOOL}`; that takes the place of a JSON block."

_TYPES = {"text": "string", "number": "number", "integer": "integer", "boolean": "boolean"}
_JSON = {str: "string", bool: "boolean", int: "integer", float: "number"}


def schema_of(wanted: Sequence[Wanted]) -> dict[str, Any] | None:
    """The JSON schema of *wanted*; None without declared outputs, which are then found in the text."""
    if not any(want.declared for want in wanted):
        return None
    return {
        "type": "object",
        "properties": {want.name: _property(want) for want in wanted},
        "required": [want.name for want in wanted if want.declared],
        "additionalProperties": False,
    }


def _property(want: Wanted) -> dict[str, Any]:
    made: dict[str, Any] = {"description": expectation(want)}
    if want.type in _TYPES:
        return made | {"type": _TYPES[want.type]}
    if want.type == "list":
        return made | {"type": "array", "items": {"type": "string"}}
    if want.type == "enum":
        types = {_JSON[type(value)] for value in want.values}
        return made | ({"type": types.pop()} if len(types) == 1 else {}) | {"enum": list(want.values)}
    if want.values:
        made["description"] += f", for example {', '.join(map(str, want.values))}"
    return made
