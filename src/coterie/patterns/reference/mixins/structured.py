"""`structured_output`: an agent answers with JSON of a given shape."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from coterie.history.engines.replies import objects_in
from coterie.patterns.reference.calls import current_call
from coterie.patterns.reference.mixins.base import BaseMixin, ReplyRefused
from coterie.patterns.reference.mixins.requests import with_system

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class StructuredOutputConfig(BaseModel):
    """Settings of `structured_output`.

    Attributes:
        output_schema: A JSON Schema; checked are `type`, `properties`, `required`, `additionalProperties`, `items`,
            `enum`, `const`, and the bounds of numbers and lengths. None: any object.
        strict_validation: Reject an answer that does not fit; otherwise accept it, with the fault in
            `_structured_error`.
        auto_repair: Ask again with the fault, at most `max_repair_attempts` times in a call, whatever its attempts.
    """

    model_config = {"extra": "forbid"}

    output_schema: dict[str, Any] | None = None
    strict_validation: bool = True
    auto_repair: bool = True
    max_repair_attempts: int = Field(default=3, ge=0)


class StructuredOutputMixin(BaseMixin):
    """Stores the JSON of an answer under `_structured_output`."""

    name: ClassVar[str] = "structured_output"
    description: ClassVar[str] = "Answer with JSON of a given shape"
    config_class: ClassVar[type[BaseModel]] = StructuredOutputConfig
    pure: ClassVar[bool] = True

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        self._repairs = Counter[str]()
        """The repairs of each call; its next attempts do not begin to count again."""

    async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        """Add the instructions to the request."""
        schema = self.config.output_schema
        how = "Answer with one JSON object and nothing else."
        if schema is not None:
            how += f" It must fit this JSON Schema:\n\n{json.dumps(schema, indent=2)}"
        return with_system(request, how)

    async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Find the JSON, check it, and ask again if necessary."""
        value, fault = self._read(response)
        call = current_call()
        most = self.config.max_repair_attempts if self.config.auto_repair else 0
        while fault and self._repairs[call.turn] < most:
            self._repairs[call.turn] += 1
            said = [
                {"role": "assistant", "content": _text(response)},
                {"role": "user", "content": f"That cannot be used: {fault}. Answer again, with the JSON object alone."},
            ]
            response = await call.ask({**call.request, "messages": [*call.request["messages"], *said]})
            value, fault = self._read(response)
        if fault and self.config.strict_validation:
            raise ReplyRefused(f"the answer does not fit the schema: {fault}")
        made = {**response, "_structured_output": value}
        return made | {"_structured_error": fault} if fault else made

    def _read(self, response: dict[str, Any]) -> tuple[Any, str]:
        content = response.get("content")
        found = content if isinstance(content, dict) else _last_object(_text(response))
        if found is None:
            return None, "there is no JSON object in it"
        return found, "; ".join(faults(found, self.config.output_schema or {}, "the answer"))


def faults(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    """The faults of *value* against *schema*."""
    types = schema.get("type", ())
    types = [types] if isinstance(types, str) else list(types)
    if types and not any(_is(value, one) for one in types):
        yield f"{where} must be {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield f"{where} must be {schema['const']!r}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (f"{where} lacks {name!r}" for name in schema.get("required", ()) if name not in value)
        if schema.get("additionalProperties") is False:
            yield from (f"{where} has {name!r}, which it must not" for name in value if name not in properties)
        for name, below in properties.items():
            if name in value:
                yield from faults(value[name], below, name if where == "the answer" else f"{where}.{name}")
    elif isinstance(value, list):
        yield from _bounds(len(value), schema, "minItems", "maxItems", f"{where} has {len(value)} items, and")
        for n, one in enumerate(value):
            yield from faults(one, schema.get("items", {}), f"{where}[{n}]")
    elif isinstance(value, str):
        yield from _bounds(len(value), schema, "minLength", "maxLength", f"{where} has {len(value)} characters, and")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounds(value, schema, "minimum", "maximum", f"{where} is {value}, and")


def _bounds(value: float, schema: dict[str, Any], low: str, high: str, what: str) -> Iterator[str]:
    if low in schema and value < schema[low]:
        yield f"{what} must be at least {schema[low]}"
    if high in schema and value > schema[high]:
        yield f"{what} must be at most {schema[high]}"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


def _text(response: dict[str, Any]) -> str:
    content = response.get("content")
    return content if isinstance(content, str) else json.dumps(content)


def _last_object(text: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = {} if text.strip() == "{}" else None
    for found in objects_in(text):  # noqa: B007 - the last one counts
        pass
    return found
