"""One request to a model, without the run, tools and prompt of an attempt.

Imports pydantic-ai: load it late.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelResponse as Reply
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from coterie.agents.backends.models.failures import CutOff, failure_of, incomplete
from coterie.agents.backends.models.malformed import guard_events, guard_request
from coterie.agents.backends.models.response import ModelResponse, ToolRequest
from coterie.agents.backends.models.usage import usage_of
from coterie.agents.backends.secrets import Secrets
from coterie.errors import CallFailed
from coterie.history.journal.records import Usage


class Described(Protocol):
    """A tool as a model sees it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


async def chat(
    model: Model[Any],
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Described],
    *,
    settings: Any,
    options: Mapping[str, Any],
    provider: str,
    secrets: Secrets,
) -> ModelResponse:
    """Return the answer of *model* to *messages*; the last may be from a user or have results of tools.

    Args:
        settings: The settings for pydantic-ai.
        options: Options, which may contain prices.

    Raises:
        CallFailed: If the provider fails, refuses, or cuts its answer off.
    """
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=one.name, description=one.description, parameters_json_schema=dict(one.schema))
            for one in tools
        ]
    )
    conversation = list(_messages(messages))
    usage: Usage | None = None
    try:
        with guard_request():
            context = model_request_stream(
                model, conversation, model_settings=settings, model_request_parameters=parameters, instrument=False
            )
            stream = await context.__aenter__()
        try:
            async for _ in guard_events(stream):
                pass
        finally:
            await context.__aexit__(None, None, None)
            usage = usage_of(reply := stream.get(), options, model.model_name)
        if cut := incomplete(reply, provider, "max_tokens"):
            raise CutOff(cut)
    except Exception as error:  # any error that is not a provider's is raised again
        failure = failure_of(error, provider)
        raise CallFailed(secrets.hide(failure.reason), failure.kind, failure.wait, _used(usage)) from error
    used = _used(usage)
    return ModelResponse(
        content=secrets.hide(reply.text or ""),
        model=reply.model_name or model.model_name,
        provider=provider,
        tokens_in=used["input_tokens"],
        tokens_out=used["output_tokens"],
        cost_usd=used["cost"],
        tool_calls=tuple(ToolRequest(one.tool_call_id, one.tool_name, _arguments(one)) for one in reply.tool_calls),
    )


def _used(usage: Usage | None) -> dict[str, Any]:
    """What the request used; empty if it was not answered. The cost is None if it is not known."""
    if usage is None:
        return {}
    cost = None if usage.unpriced else usage.cost
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": cost}


def _arguments(call: ToolCallPart) -> dict[str, Any]:
    try:
        return call.args_as_dict()
    except (AssertionError, ValueError):  # not JSON, or not an object
        return {"": call.args_as_json_str()}


def _messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[ModelMessage]:
    """Convert *messages*, `{"role": …, "content": …}`, for pydantic-ai."""
    for at, message in enumerate(messages):
        content = message.get("content") or ""
        match message.get("role"):
            case "system":
                yield ModelRequest(parts=[SystemPromptPart(_text(content))])
            case "user":
                yield ModelRequest(parts=[UserPromptPart(_text(content))])
            case "assistant":
                parts: list[ModelResponsePart] = [TextPart(_text(content))] if content else []
                for call in message.get("tool_calls", ()):
                    parts.append(ToolCallPart(call["name"], call["arguments"], call["id"]))
                yield Reply(parts=parts)
            case "tool":
                yield ModelRequest(parts=[ToolReturnPart(message["name"], _text(content), message["tool_call_id"])])
            case role:
                raise CallFailed(f"messages[{at}] has the role {role!r}: write system, user, assistant or tool")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(msgspec.to_builtins(content), ensure_ascii=False)
