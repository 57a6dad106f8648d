"""Anthropic's messages API.

Imports pydantic-ai and Anthropic's client: load it late.
"""

from collections.abc import Mapping
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

IGNORED = ("seed",)
"""Settings that this provider does not support."""


def model(name: str, *, base_url: str, key: str, http: httpx2.AsyncClient, retries: int = 0) -> Model[Any]:
    """Make the model *name*. By default a request is sent once, since the run retries."""
    client = AsyncAnthropic(api_key=key, base_url=base_url or None, http_client=http, max_retries=retries)
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in *options* that only this provider has."""
    budget = options.get("thinking_budget")
    return {"anthropic_thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}
