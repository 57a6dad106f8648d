"""Find the task in the input of a pattern."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

COMMON = ("prompt", "question", "task", "topic")
"""Input keys that may contain the task of any pattern."""

ORIGINAL = "original_input"
"""The input key for the whole input of the outermost run, if a pattern works on results derived from it."""


def task_of(keys: Sequence[str], given: Mapping[str, Any]) -> str:
    """The task in *given*: the first non-blank value of *keys*, then of `COMMON`; else empty.

    Values that are not texts are written as JSON.
    """
    return next((text for key in (*keys, *COMMON) if (text := text_of(given.get(key))).strip()), "")


def text_of(value: Any) -> str:
    """Convert *value* to a text: as JSON, if it is not a text."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
