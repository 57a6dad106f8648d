"""Check an output against the JSON Schema that its agent declares."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any


def misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """The fault of *value* by *schema*, such as `[0].line must be integer`; empty if it fits."""
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


def sample(schema: Mapping[str, Any]) -> Any:
    """The smallest plain value that fits *schema*, for agents that are played.

    Raises:
        RecursionError: If every value contains another one.
    """
    return _sample(schema, schema, ())


def sample_list(schema: Mapping[str, Any], size: int) -> list[Any]:
    """A list of *size* items that fits *schema*, which is that of a list or empty; texts in it are different."""
    items = sample({**schema, "type": "array", "minItems": size, "maxItems": size})
    return [f"{one} {n}" if one == "text" else one for n, one in enumerate(items, 1)]


def _sample(schema: Mapping[str, Any], whole: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    """The value for *schema*, a part of *whole* which lies *within* these definitions."""
    if reference := schema.get("$ref"):
        if reference in within:
            raise RecursionError(f"a value of {reference} always contains another one")
        part: Any = whole
        for step in str(reference).split("/")[1:]:
            part = part[step.replace("~1", "/").replace("~0", "~")]
        return _sample(part, whole, (*within, reference))
    for key in ("enum", "examples"):
        if key in schema:
            return schema[key][0]
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _first_sample(schema[key], whole, within)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            fields = schema.get("properties", {})
            return {name: _sample(fields.get(name, {}), whole, within) for name in schema.get("required", ())}
        case "array":
            prefix = [_sample(one, whole, within) for one in schema.get("prefixItems", ())]
            more = range(len(prefix), schema.get("minItems", 0))
            return prefix + [_sample(schema.get("items") or {}, whole, within) for _ in more]
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


def _first_sample(choices: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    """The value for the first of *choices* that has one: the others contain what they are a part of."""
    for one in choices[:-1]:
        with suppress(RecursionError):
            return _sample(one, whole, within)
    return _sample(choices[-1], whole, within)
