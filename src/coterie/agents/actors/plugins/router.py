"""An agent's `self.llm`: choose the provider of a model, call it, and let the model use tools."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from coterie.agents.actors.message import IN_HAND, TURN, Message
from coterie.agents.actors.plugins.base import ModelProvider
from coterie.agents.actors.plugins.kept_answers import KeptAnswers
from coterie.agents.actors.plugins.toolbox import AgentTool, Toolbox
from coterie.agents.actors.plugins.tracing import Tracer
from coterie.agents.backends.models.response import ModelResponse, ToolRequest
from coterie.agents.backends.models.steps import digest, unknown
from coterie.base.diagnostics import did_you_mean
from coterie.errors import CallFailed, ToolFailed
from coterie.history.journal.records import Usage

Messages = str | Sequence[Mapping[str, Any]]
Tools = Toolbox | Sequence[AgentTool | str | Callable[..., Any]]

ROUNDS = 10
"""The default limit of requests in one `answer`."""


class ModelRouter:
    """Sends requests to the model providers of a system.

    A request goes to the first provider that serves its model, by its list of models or by the name, as in
    `openai/gpt-…`; if none does, to the only provider. A request without a model uses the first `default_model`.

    Args:
        providers: The providers, in the order of the file.
        tools: The tools for `tools=["NAME"]`.
        tracer: Receives a span for each request.

    Attributes:
        meters: By the id of an attempt: called with the usage of each request that an agent makes for it.
        forward: Passes the usage for a message from another process to that process, which counts it.
        kept: By the id of an attempt: gives the answers that are kept for its turn.
    """

    def __init__(self, providers: Sequence[ModelProvider], tools: Toolbox, tracer: Tracer) -> None:
        self.providers = tuple(providers)
        self.meters: dict[str, Callable[[Usage], object]] = {}
        self.kept: dict[str, Callable[[], KeptAnswers]] = {}
        self.forward: Callable[[Message, Usage], Awaitable[None]] | None = None
        self._tools, self._tracer = tools, tracer

    async def chat(
        self, model: str = "", messages: Messages = (), tools: Tools | None = None, **settings: Any
    ) -> ModelResponse:
        """Return the answer of *model* to *messages*: a text, or a list of `{"role": …, "content": …}`.

        Args:
            tools: The tools that the model may call: `self.tools`, or names, functions and tools. They are not called
                here: the answer contains the requested calls.
            settings: Settings for this request, such as `max_tokens=500`.

        Raises:
            CallFailed: If no provider serves the model, or the provider fails.
        """
        conversation = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        return (await self._ask(model, conversation, self._offered(tools), settings))[0]

    async def _ask(
        self, model: str, conversation: list[Any], offered: list[AgentTool], settings: dict[str, Any]
    ) -> tuple[ModelResponse, str]:
        """The answer as for `chat`, and the hash of the request if answers are kept."""
        provider, model = self.pick(model)
        name = str(getattr(provider, "name", type(provider).__name__))
        kept, key = self._kept(), ""
        if kept is not None:
            described = [(tool.name, tool.description, tool.schema) for tool in offered]
            key = digest(name, model, conversation, described, settings)
            if (answer := kept.answer(key)) is not None:
                return answer, key
            await kept.sync()
        with self._tracer.span(
            f"chat {model}",
            "client",
            gen_ai__operation__name="chat",
            gen_ai__provider__name=name,
            gen_ai__request__model=model,
        ) as attributes:
            try:
                response = await provider.chat(model, conversation, offered or None, **settings)
            except CallFailed as error:
                if error.usage:
                    await self._count(error.usage)
                raise
            attributes |= {
                "gen_ai.response.model": getattr(response, "model", model),
                "gen_ai.usage.input_tokens": getattr(response, "tokens_in", 0),
                "gen_ai.usage.output_tokens": getattr(response, "tokens_out", 0),
            }
            if (cost := getattr(response, "cost_usd", None)) is not None:
                attributes["coterie.usage.cost_usd"] = cost
        tokens = {
            "input_tokens": getattr(response, "tokens_in", 0),
            "output_tokens": getattr(response, "tokens_out", 0),
        }
        used = await self._count({**tokens, "cost": cost})
        if kept is not None and isinstance(response, ModelResponse):
            await kept.keep(key, response, used)
        return response, key

    async def answer(
        self, messages: Messages, *, model: str = "", tools: Tools | None = None, rounds: int = ROUNDS, **settings: Any
    ) -> ModelResponse:
        """Return the final answer of *model*: call the tools that it requests and return their results to it.

        Args:
            rounds: The largest number of requests.

        Raises:
            CallFailed: As for `chat`, or if the model still requests tools in the last round.
        """
        conversation = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        offered = {tool.name: tool for tool in self._offered(tools)}
        for _ in range(rounds):
            response, key = await self._ask(model, conversation, list(offered.values()), settings)
            if not response.tool_calls:
                return response
            conversation.append(dict(response.message))
            for call in response.tool_calls:
                result = await self._kept_result(call, offered, f"{key}/{call.id}")
                conversation.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result})
        raise CallFailed(f"the model asked for tools in {rounds} requests and gave no answer")

    def pick(self, model: str) -> tuple[ModelProvider, str]:
        """Choose the provider for *model*; return it and the model.

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

    def _kept(self) -> KeptAnswers | None:
        """The answers that are kept for the turn in hand."""
        message = _turn_in_hand()
        opened = self.kept.get(str(message.payload.get("turn"))) if message is not None else None
        return opened() if opened is not None else None

    async def _kept_result(self, call: ToolRequest, offered: Mapping[str, AgentTool], id: str) -> str:
        """The kept result of *call*, or that of carrying it out now."""
        kept = self._kept()
        if kept is None:
            return await self._result(call, offered)
        if (result := kept.result(id)) is None:
            tool = offered.get(call.name)
            if tool is not None and tool.is_once and not await kept.begin_once(id):
                result = f"error: {unknown(call.name)}"
            else:
                result = await self._result(call, offered)
            kept.keep_result(id, call.name, result)
        return result

    async def _count(self, said: Mapping[str, Any]) -> Usage:
        """Count the usage of a request for the turn in hand, if there is one; without a `cost` it is unpriced."""
        cost = said.get("cost")
        used = Usage(
            input_tokens=said.get("input_tokens", 0),
            output_tokens=said.get("output_tokens", 0),
            cost=cost or 0.0,
            unpriced=int(cost is None),
        )
        if (message := _turn_in_hand()) is None:
            return used
        if (meter := self.meters.get(str(message.payload.get("turn")))) is not None:
            meter(used)
        elif self.forward is not None:
            await self.forward(message, used)
        return used

    def _offered(self, tools: Tools | None) -> list[AgentTool]:
        made: list[AgentTool] = []
        for one in tools or ():
            if isinstance(one, AgentTool):
                made.append(one)
            else:
                made.append(self._tools.get(one) if isinstance(one, str) else AgentTool(one))
        return made

    async def _result(self, call: ToolRequest, offered: Mapping[str, AgentTool]) -> str:
        """The result of *call* as a text; an error also becomes a text, since the model can try again."""
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


def _turn_in_hand() -> Message | None:
    """The message with a turn that the running code handles."""
    message = IN_HAND.get()
    is_turn = message is not None and message.type == TURN and isinstance(message.payload, Mapping)
    return message if is_turn else None
