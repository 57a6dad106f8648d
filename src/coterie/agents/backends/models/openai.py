"""OpenAI's chat completions API, and servers that are compatible with it.

Imports pydantic-ai and OpenAI's client: load it late.
"""

from collections.abc import Mapping
from typing import Any

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

IGNORED = ("thinking_budget", "top_k")
"""Settings that this provider does not support."""


def model(name: str, *, base_url: str, key: str, http: httpx2.AsyncClient, retries: int = 0) -> Model[Any]:
    """Make the model *name*. By default a request is sent once, since the run retries."""
    client = AsyncOpenAI(api_key=key, base_url=base_url or None, http_client=http, max_retries=retries)
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in *options* that only this provider has: none."""
    return {}
