"""The JSON Schema of a `topology.yaml`, generated from the types of its fields."""

import inspect
import re
from typing import Any

import msgspec

from coterie.team.formats.yaml.schema import schema as pattern_schema
from coterie.team.topology.system import fields
from coterie.team.topology.system.fields import FLAT, IGNORING_CASE, WRAPPED, PluginsFields, TransportFields

_CLASS = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def file_schema() -> dict[str, Any]:
    """The schema of a YAML file: a supervised system, or with `pattern:` a pattern.

    It covers names, types and ranges; what several fields say together is checked only by `validate`.
    """
    pattern = pattern_schema()
    parts = ("properties", "required", "additionalProperties")
    return {
        "$schema": pattern["$schema"],
        "title": "A supervised system, or a pattern of agents",
        "type": "object",
        "if": {"required": ["pattern"]},
        "then": {key: pattern[key] for key in parts},
        "else": {"$ref": "#/$defs/system"},
        "$defs": pattern["$defs"] | _definitions(pattern["$defs"]["pattern"]),
    }


def _definitions(pattern: dict[str, Any]) -> dict[str, Any]:
    """The definitions of a system; those of its patterns are taken from *pattern*."""
    nodes = {**WRAPPED, **FLAT}
    classes = [TransportFields, PluginsFields, *nodes.values()]
    made = msgspec.json.schema_components(classes, ref_template="#/$defs/{name}")[1]
    for name, one in made.items():
        _complete(getattr(fields, name), one)
    kinds = {kind: made[cls.__name__] for kind, cls in nodes.items()}
    kinds["agent"]["properties"]["type"] |= {"pattern": _CLASS, "not": {"enum": list(FLAT)}}
    kinds["eval_agent"]["properties"]["class"]["pattern"] = _CLASS.replace("^", "^(").replace("$", ")?$")
    kinds["pattern"]["properties"] |= {
        name: kinds["pattern"]["properties"][name] | pattern["properties"][name] for name in ("type", "slots", "config")
    }
    kinds["pattern"]["allOf"] = pattern["allOf"]
    supervisor = kinds["supervisor"]
    supervisor["properties"]["children"] = {
        "description": "Its children, in start order.",
        "type": "array",
        "items": {"$ref": "#/$defs/node"},
        "minItems": 1,
    }
    supervisor["required"] = [*supervisor["required"], "children"]
    for kind in FLAT:
        kinds[kind]["properties"] = {
            "type": {"const": kind, "description": "The kind of the node."},
            **kinds[kind]["properties"],
        }
        kinds[kind]["required"] = ["type", *kinds[kind]["required"]]
    own = {name: value for name, value in supervisor["properties"].items() if name not in ("restart", "shutdown")}
    return made | {
        "node": {"anyOf": [*(_wrapped(kind) for kind in WRAPPED), *map(_node, (*FLAT, "agent"))]},
        "system": {
            "type": "object",
            "properties": {
                "transport": _or_null({"$ref": "#/$defs/TransportFields"}),
                "plugins": _or_null({"$ref": "#/$defs/PluginsFields"}),
                "supervision": {**supervisor, "title": "supervision", "properties": own},
                "entry": {"type": "string", "minLength": 1, "description": "The agent that answers for the system."},
            },
            "required": ["supervision"],
            "additionalProperties": False,
        },
    }


def _complete(cls: type, one: dict[str, Any]) -> None:
    """Add to the schema *one* of a class: descriptions, no further entries, values that ignore case, empty tables."""
    one["description"] = " ".join((cls.__doc__ or "").partition("Attributes:")[0].split())
    one["additionalProperties"] = False
    documented = [_ATTRIBUTE.findall(inspect.cleandoc(base.__doc__ or "")) for base in reversed(cls.__mro__)]
    described = {key: " ".join(text.replace("`class`: ", "").split()) for found in documented for key, text in found}
    for key, field in one["properties"].items():
        if "$ref" in field or (field.get("type") in ("array", "object") and key not in one["required"]):
            default = field.pop("default", None)
            one["properties"][key] = field = _or_null(field) | ({} if default is None else {"default": default})
        if key in IGNORING_CASE:
            field["anyOf"] = [{"enum": field.pop("enum")}, {"type": "string", "pattern": ""}]
            field["anyOf"][1]["pattern"] = f"^({'|'.join(map(_any_case, field['anyOf'][0]['enum']))})$"
        text = described.get(key) or described.get(f"{key}_")
        if text:
            field["description"] = text


def _any_case(word: str) -> str:
    return "".join(f"[{sign}{sign.lower()}]" if sign.isalpha() else sign for sign in word)


def _or_null(one: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [one, {"type": "null"}]}


def _node(kind: str) -> dict[str, Any]:
    cls = WRAPPED.get(kind) or FLAT[kind]
    return {"$ref": f"#/$defs/{cls.__name__}"}


def _wrapped(kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {kind: _node(kind)}, "required": [kind], "additionalProperties": False}
