"""Translate the settings of a model into those of pydantic-ai, and silence that library.

Imports pydantic-ai: load it late.
"""

import logging
from collections.abc import Mapping
from typing import Any

import pydantic_ai

pydantic_ai.BANNER_ENABLED = False  # it would be printed on the terminal that shows the run
for _library in ("anthropic", "httpx2", "openai", "pydantic_ai"):
    logging.getLogger(_library).addHandler(logging.NullHandler())  # without any handler, warnings are printed

_AS_THEY_ARE = ("max_tokens", "seed", "temperature", "top_k", "top_p")


def settings_of(options: Mapping[str, Any], dialect: Any) -> Any:
    """The model settings in *options*, without those that the provider of *dialect* does not support."""
    said = {name: value for name, value in options.items() if name not in dialect.IGNORED}
    made: dict[str, Any] = {name: said[name] for name in _AS_THEY_ARE if name in said}
    if "stop" in said:
        made["stop_sequences"] = said["stop"]
    if "thinking" in said:
        made["thinking"] = False if said["thinking"] == "off" else said["thinking"]
    return made | dialect.settings(said)
