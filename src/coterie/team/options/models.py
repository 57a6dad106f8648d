"""The settings of a model: fields of an agent, `temperature: 0.2`, or `options` of its extension."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from coterie.team.topology.conditions import is_number

THINKING = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""Thinking effort levels."""


class ModelSetting(Struct, frozen=True):
    """One setting: the description of valid values, and their JSON Schema."""

    wanted: str
    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]


def _between(low: float, high: float) -> ModelSetting:
    schema = {"type": "number", "minimum": low, "maximum": high}
    return ModelSetting(
        f"a number from {low} to {high}", lambda value: is_number(value) and low <= value <= high, schema
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


_COUNT = ModelSetting(
    "a whole number above 0", lambda value: _is_whole(value) and value > 0, {"type": "integer", "minimum": 1}
)
MODEL_SETTINGS: Mapping[str, ModelSetting] = {
    "max_tokens": _COUNT,
    "max_turns": _COUNT,
    "seed": ModelSetting("a whole number", _is_whole, {"type": "integer"}),
    "stop": ModelSetting("a list of texts", _is_texts, {"type": "array", "items": {"type": "string"}}),
    "temperature": _between(0, 2),
    "thinking": ModelSetting(f"one of {', '.join(THINKING)}", lambda value: value in THINKING, {"enum": [*THINKING]}),
    "thinking_budget": _COUNT,
    "top_k": _COUNT,
    "top_p": _between(0, 1),
}
"""All settings, by name with underscores."""
