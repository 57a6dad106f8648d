"""OpenAI's chat completions, and whatever server understands them.

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
"""Settings that mean nothing to this provider."""


def model(name: str, *, base_url: str, key: str, http: httpx2.AsyncClient) -> Model[Any]:
    """The model *name*; a request is sent once, since trying again is the run's affair."""
    client = AsyncOpenAI(api_key=key, base_url=base_url or None, http_client=http, max_retries=0)
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """What only this provider knows of *options*: nothing."""
    return {}
