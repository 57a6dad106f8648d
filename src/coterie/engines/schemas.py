"""Check an output against the JSON Schema that its agent declares."""

import json
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

    check: Callable[[Any], object] = fastjsonschema.compile(json.loads(schema), use_default=False, use_formats=False)
    return check
