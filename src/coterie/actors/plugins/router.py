"""`self.llm` of an agent: choose the provider of a model, call it, and let the model use tools."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from coterie.actors.message import IN_HAND, TURN, Message
from coterie.actors.plugins.base import ModelProvider
from coterie.actors.plugins.toolbox import AgentTool, Toolbox
from coterie.actors.plugins.tracing import Tracer
from coterie.backends.models.response import ModelResponse, ToolRequest
from coterie.diagnostics import did_you_mean
from coterie.errors import CallFailed, ToolFailed
from coterie.journal.records import Usage

Messages = str | Sequence[Mapping[str, Any]]
Tools = Toolbox | Sequence[AgentTool | str | Callable[..., Any]]

ROUNDS = 10
"""Requests in one `answer`, unless another limit is given."""


class ModelRouter:
    """The providers of a system.

    A request goes to the first provider that serves its model, by its list of models or by the name, as in
    `openai/gpt-…`; if none does, to the only one. A request without a model takes the first `default_model`.

    Args:
        providers: In the order of the file.
        tools: The tools that are named in `tools=["NAME"]`.
        tracer: Receives a span for each request.

    Attributes:
        meters: By the id of an attempt: called with the usage of each request that an agent makes for it.
        forward: Takes the usage for a message that another process has sent, to count it there.
    """

    def __init__(self, providers: Sequence[ModelProvider], tools: Toolbox, tracer: Tracer) -> None:
        self.providers = tuple(providers)
        self.meters: dict[str, Callable[[Usage], object]] = {}
        self.forward: Callable[[Message, Usage], Awaitable[None]] | None = None
        self._tools, self._tracer = tools, tracer

    async def chat(
        self, model: str = "", messages: Messages = (), tools: Tools | None = None, **settings: Any
    ) -> ModelResponse:
        """The answer of *model* to *messages*: a text, or `{"role": …, "content": …}` each.

        Args:
            tools: What the model may call: `self.tools`, or names, functions and tools. They are not called here: the
                answer contains the calls that the model wants.
            settings: For this request, `max_tokens=500`.

        Raises:
            CallFailed: If no provider serves the model, or the provider fails.
        """
        provider, model = self.pick(model)
        conversation = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        name = str(getattr(provider, "name", type(provider).__name__))
        with self._tracer.span(
            f"chat {model}",
            "client",
            gen_ai__operation__name="chat",
            gen_ai__provider__name=name,
            gen_ai__request__model=model,
        ) as attributes:
            response = await provider.chat(model, conversation, self._offered(tools) or None, **settings)
            attributes |= {
                "gen_ai.response.model": getattr(response, "model", model),
                "gen_ai.usage.input_tokens": getattr(response, "tokens_in", 0),
                "gen_ai.usage.output_tokens": getattr(response, "tokens_out", 0),
            }
            if (cost := getattr(response, "cost_usd", None)) is not None:
                attributes["coterie.usage.cost_usd"] = cost
        await self._count(response)
        return response

    async def answer(
        self,
        messages: Messages,
        *,
        model: str = "",
        tools: Tools | None = None,
        rounds: int = ROUNDS,
        **settings: Any,
    ) -> ModelResponse:
        """The final answer of *model*: the tools that it wants are called and their results returned to it.

        Args:
            rounds: How many requests this may take.

        Raises:
            CallFailed: As for `chat`, or if the model wants tools in the last round, too.
        """
        conversation = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        offered = {tool.name: tool for tool in self._offered(tools)}
        for _ in range(rounds):
            response = await self.chat(model, conversation, list(offered.values()), **settings)
            if not response.tool_calls:
                return response
            conversation.append(dict(response.message))
            for call in response.tool_calls:
                result = await self._result(call, offered)
                conversation.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result})
        raise CallFailed(f"the model asked for tools in {rounds} requests and gave no answer")

    def pick(self, model: str) -> tuple[ModelProvider, str]:
        """The provider for *model*, and the model.

        Raises:
            CallFailed: If there is none.
        """
        if not self.providers:
            hint = "declare one under plugins.models, or pass model_provider= to Runtime"
            raise CallFailed(f"this system has no model provider: {hint}", "not_found")
        if not model:
            for provider in self.providers:
                if default := getattr(provider, "default_model", ""):
                    return provider, default
            raise CallFailed("no model is given, and no provider has a default_model", "not_found")
        for provider in self.providers:
            if (serves := getattr(provider, "serves", None)) is not None and serves(model):
                return provider, model
        generic = [provider for provider in self.providers if not hasattr(provider, "serves")]
        if len(self.providers) == 1 or generic:
            return (generic or self.providers)[0], model
        names = [str(getattr(provider, "name", type(provider).__name__)) for provider in self.providers]
        close = did_you_mean(model, [str(getattr(one, "default_model", "")) for one in self.providers])
        hint = close or f"write PROVIDER/{model}, or add it to the `models` of one"
        raise CallFailed(f"none of the providers {', '.join(names)} serves the model {model!r}; {hint}", "not_found")

    async def _count(self, response: ModelResponse) -> None:
        """Count the usage of *response* for the turn in hand, if there is one."""
        message = IN_HAND.get()
        if message is None or message.type != TURN or not isinstance(message.payload, Mapping):
            return
        cost = getattr(response, "cost_usd", None)
        used = Usage(
            input_tokens=getattr(response, "tokens_in", 0),
            output_tokens=getattr(response, "tokens_out", 0),
            cost=cost or 0.0,
            unpriced=int(cost is None),
        )
        if (meter := self.meters.get(str(message.payload.get("turn")))) is not None:
            meter(used)
        elif self.forward is not None:
            await self.forward(message, used)

    def _offered(self, tools: Tools | None) -> list[AgentTool]:
        made: list[AgentTool] = []
        for one in tools or ():
            if isinstance(one, AgentTool):
                made.append(one)
            else:
                made.append(self._tools.get(one) if isinstance(one, str) else AgentTool(one))
        return made

    async def _result(self, call: ToolRequest, offered: Mapping[str, AgentTool]) -> str:
        """The result of *call* as a text; an error becomes one, too, since the model can try again."""
        with self._tracer.span(
            f"execute_tool {call.name}", gen_ai__operation__name="execute_tool", gen_ai__tool__name=call.name
        ) as attributes:
            try:
                if call.name not in offered:
                    raise ToolFailed(call.name, f"no such tool; there are: {', '.join(offered) or 'none'}")
                result = await offered[call.name](**call.arguments)
                return (
                    result if isinstance(result, str) else json.dumps(msgspec.to_builtins(result), ensure_ascii=False)
                )
            except (ToolFailed, TypeError) as error:
                attributes["error.type"] = type(error).__name__
                return f"error: {error}"
