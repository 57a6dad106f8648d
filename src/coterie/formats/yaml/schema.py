"""The JSON Schema of pattern files, generated from their readers and checks."""

from typing import Any

import msgspec

from coterie.formats.yaml.agents import BACKENDS, ENTRIES
from coterie.options.backends import ATTENTION_POLICIES, INTERRUPT_POLICIES, SANDBOXES
from coterie.topology.checks.patterns import FUNCTION
from coterie.topology.patterns.kinds import KINDS, PatternSpec

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_TYPES: dict[str, Any] = {
    "command": {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
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
    "env": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "prompt_via": {"enum": ["stdin", "file"]},
    "on_interrupt": {"enum": list(INTERRUPT_POLICIES)},
    "trust_all_tools": {"type": "boolean"},
    "attention": {"enum": ["ask"]},
    "attention_timeout": {"type": ["string", "number"]},
    "attention_policy": {"enum": list(ATTENTION_POLICIES)},
    "sandbox": {"enum": list(SANDBOXES)},
    "stall_after": {"type": ["string", "number"]},
    "gates": {"type": "array", "items": {**_TEXTS, "minItems": 1}, "minItems": 1},
    "gate_timeout": {"type": ["string", "number"]},
    "price_in": {"type": "number", "minimum": 0},
    "price_out": {"type": "number", "minimum": 0},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "max_tokens": {"type": "integer", "minimum": 1},
    "max_turns": {"type": "integer", "minimum": 1},
    "seed": {"type": "integer"},
    "stop": _TEXTS,
    "thinking": {"type": "string"},
    "thinking_budget": {"type": "integer", "minimum": 1},
    "top_k": {"type": "integer", "minimum": 1},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
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
    return [word for kind in kinds or KINDS.values() for word in (kind.name, *kind.aliases)]
