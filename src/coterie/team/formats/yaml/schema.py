"""The JSON Schema of pattern files, generated from their readers and checks."""

from typing import Any

import msgspec

from coterie.team.formats.yaml.agents import BACKENDS, ENTRIES, EXTENSION
from coterie.team.options.agents import OPTIONS
from coterie.team.options.models import MODEL_SETTINGS
from coterie.team.topology.checks.patterns import FUNCTION
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_TYPES: dict[str, Any] = {
    "pattern": {"oneOf": [_TEXT, {"$ref": "#/$defs/pattern"}]},
    "type": {"enum": list(BACKENDS)},
    "tools": _TEXTS,
    "max_retries": _COUNT,
    "timeout_seconds": _POSITIVE,
    "capabilities": _TEXTS,
    "budget": {
        "type": "object",
        "properties": {"calls": {"type": "integer", "minimum": 1}, "cost": _POSITIVE},
        "additionalProperties": False,
    },
    **{entry: OPTIONS[entry].kind.schema for entry in EXTENSION},
    **{entry: setting.schema for entry, setting in MODEL_SETTINGS.items()},
}
"""Types of an agent's entries that are not texts."""


def schema() -> dict[str, Any]:
    """The schema of a whole file. Required slots and references are checked only by `validate`."""
    configs = [msgspec.json.schema(kind.config)["$defs"][kind.config.__name__] for kind in KINDS.values()]
    agent: dict[str, Any] = {
        "type": "object",
        "properties": {entry: _TYPES.get(entry, _TEXT) for entry in ENTRIES},
        "additionalProperties": False,
    }
    slot = {**agent, "properties": {"agent": _TEXT, **agent["properties"]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pattern of agents",
        "type": "object",
        "properties": {
            "pattern": {"$ref": "#/$defs/pattern"},
            "agents": {"type": "object", "additionalProperties": {"$ref": "#/$defs/agent"}},
        },
        "required": ["pattern"],
        "additionalProperties": False,
        "$defs": {
            "agent": agent,
            "slot": {"oneOf": [{**_TEXT, "description": "an agent of this file"}, slot]},
            "pattern": {
                "type": "object",
                "properties": {
                    "type": {"anyOf": [{"enum": _words()}, {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}]},
                    "name": _TEXT,
                    "description": _TEXT,
                    "config": {"type": "object"},
                    "slots": {"type": "object", "additionalProperties": {"$ref": "#/$defs/slot"}},
                },
                "required": ["type"],
                "additionalProperties": False,
                "allOf": [
                    {
                        "if": {"properties": {"type": {"enum": _words(kind)}}},
                        "then": {"properties": {"config": config}},
                    }
                    for kind, config in zip(KINDS.values(), configs, strict=True)
                ],
            },
        },
    }


def _words(*kinds: PatternSpec) -> list[str]:
    return [word for kind in kinds or KINDS.values() for word in kind.words]
