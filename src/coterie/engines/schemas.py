"""Check an output against the JSON Schema that its agent declares."""

import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any


def misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """What is wrong with *value* by *schema*, `[0].line must be integer`; empty: nothing."""
    from fastjsonschema import JsonSchemaValueException  # imported on demand: few agents have one

    try:
        _check(json.dumps(schema, sort_keys=True))(value)
    except JsonSchemaValueException as error:
        return str(error.message).removeprefix("data").lstrip()
    return ""


@lru_cache(maxsize=256)
def _check(schema: str) -> Callable[[Any], object]:
    import fastjsonschema

    draft_7 = _as_draft_7(json.loads(schema))
    check: Callable[[Any], object] = fastjsonschema.compile(draft_7, use_default=False, use_formats=False)
    return check


def _as_draft_7(schema: Any) -> Any:
    """*schema* with tuples as in draft 7, the last that fastjsonschema reads: newer ones have `prefixItems`."""
    if isinstance(schema, list):
        return [_as_draft_7(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _as_draft_7(value) for key, value in schema.items()}
    if isinstance(found.get("prefixItems"), list):
        found["additionalItems"] = found.get("items", True)
        found["items"] = found.pop("prefixItems")
    return found


def sample(schema: Mapping[str, Any], whole: Mapping[str, Any] | None = None) -> Any:
    """The smallest plain value that fits *schema*, for agents that are played.

    Args:
        whole: The schema that *schema* is a part of, with its definitions.
    """
    whole = schema if whole is None else whole
    if reference := schema.get("$ref"):
        part: Any = whole
        for step in str(reference).split("/")[1:]:
            part = part[step.replace("~1", "/").replace("~0", "~")]
        return sample(part, whole)
    for key in ("enum", "examples"):
        if key in schema:
            return schema[key][0]
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return sample(schema[key][0], whole)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            fields = schema.get("properties", {})
            return {name: sample(fields.get(name, {}), whole) for name in schema.get("required", ())}
        case "array":
            prefix = [sample(one, whole) for one in schema.get("prefixItems", ())]
            more = max(0, schema.get("minItems", 0) - len(prefix))
            return prefix + [sample(schema.get("items") or {}, whole)] * more
        case "integer":
            return math.ceil(max(schema.get("minimum", 0), schema.get("exclusiveMinimum", -1) + 1))
        case "number":
            return max(schema.get("minimum", 0), schema.get("exclusiveMinimum", -1) + 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "text".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
