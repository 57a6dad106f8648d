"""Models of many providers, through LiteLLM."""

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import msgspec

from coterie.agents.actors.plugins.configured import Configured
from coterie.agents.actors.plugins.toolbox import AgentTool
from coterie.agents.backends.classify import classify
from coterie.agents.backends.models.attempt_rules import unfinished
from coterie.agents.backends.models.response import ModelResponse, ToolRequest
from coterie.agents.backends.models.threads import in_thread
from coterie.agents.backends.secrets import Secrets
from coterie.errors import CallFailed, ExtraMissing

_KINDS = {401: "auth", 403: "auth", 404: "not_found", 408: "transient", 409: "transient", 429: "rate_limited"}


class LiteLLMProvider(Configured):
    """Any model that LiteLLM supports, by its LiteLLM name: `gemini/gemini-2.5-pro`, `bedrock/…`, `ollama/llama3`.

    Keys come from the environment variables that LiteLLM documents. It serves the models that no other declared
    provider serves.

    Args:
        default_model: The model for requests that name none.
        max_retries: How often a failed request is repeated.
        settings: Further arguments of LiteLLM's `completion`: `max_tokens`, `temperature`, `api_base`.
    """

    name = "litellm"

    def __init__(self, default_model: str = "", *, max_retries: int = 2, **settings: Any) -> None:
        self.default_model = default_model
        self._retries, self._settings = max_retries, settings

    def check_installed(self) -> None:
        """Check that the library is installed.

        Raises:
            ExtraMissing: If it is not.
        """
        if find_spec("litellm") is None:
            raise ExtraMissing("litellm", "litellm", "the model plugin 'litellm'")

    check = check_installed  # LiteLLM checks the keys

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[AgentTool] | None = None,
        **settings: Any,
    ) -> ModelResponse:
        """Return the answer of *model* to *messages*; by default the provider's model.

        Raises:
            CallFailed: If the provider fails, refuses, or cuts its answer off.
            ExtraMissing: If the library is not installed.
        """
        self.check_installed()
        litellm = await in_thread(_load, "load")
        model = (model or self.default_model).removeprefix("litellm/")
        hide = Secrets(os.environ).hide
        try:
            stream = await litellm.acompletion(
                model=model,
                messages=[_message(one) for one in messages],
                tools=[_described(tool) for tool in tools or ()] or None,
                num_retries=self._retries,
                stream=True,
                stream_options={"include_usage": True},
                **self._settings | settings,
            )
            reply = litellm.stream_chunk_builder([chunk async for chunk in stream])
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the library has many error classes, all with a status
            status = getattr(error, "status_code", 0) or 0
            kind = _KINDS.get(status, "transient" if status >= 500 else "failed")
            kind = "quota" if classify(str(error)) == "quota" else kind
            raise CallFailed(hide(f"{model}: {' '.join(str(error).split())[:600]}"), kind) from error
        choice = reply.choices[0]
        read, written, cost = reply.usage.prompt_tokens, reply.usage.completion_tokens, _cost(litellm, reply, model)
        if cut := unfinished(choice.finish_reason, model, "max_tokens"):
            used = {"input_tokens": read, "output_tokens": written, "cost": cost}
            raise CallFailed(cut.reason, cut.kind, usage=used)
        return ModelResponse(
            content=hide(choice.message.content or ""),
            model=reply.model or model,
            provider=self.name,
            tokens_in=read,
            tokens_out=written,
            cost_usd=cost,
            tool_calls=tuple(_request(call) for call in choice.message.tool_calls or ()),
        )


def _load() -> Any:
    os.environ.setdefault(
        "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    )  # otherwise the import requests prices over the network
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True  # otherwise it prints on standard output
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    return litellm


def _cost(litellm: Any, reply: Any, model: str) -> float | None:
    try:
        return float(litellm.completion_cost(completion_response=reply, model=model))
    except Exception:  # it raises various errors for a model without a known price
        return None


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content") or ""
    made: dict[str, Any] = {
        "role": message.get("role"),
        "content": content if isinstance(content, str) else json.dumps(msgspec.to_builtins(content)),
    }
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for call in calls
        ]
    if "tool_call_id" in message:
        made["tool_call_id"] = message["tool_call_id"]
    return made


def _described(tool: AgentTool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def _request(call: Any) -> ToolRequest:
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except ValueError:
        arguments = None
    fits = isinstance(arguments, dict)
    return ToolRequest(call.id, call.function.name, arguments if fits else {"": call.function.arguments})
