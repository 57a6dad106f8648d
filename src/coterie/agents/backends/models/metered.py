"""Count and limit the requests of an attempt, and check that each answer is complete.

The library also sends requests by itself, to continue an answer that the provider paused. All pass through here, before
it acts on an answer. Imports pydantic-ai: load it late.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from coterie.agents.backends.base import Failure
from coterie.agents.backends.models.failures import CutOff, incomplete
from coterie.agents.backends.models.outputs import TOOL
from coterie.agents.backends.models.usage import OUTPUT_MOST, priced, usage_of
from coterie.history.journal.records import NO_USAGE, Usage

_AROUND = 100_000
"""How many tokens tools, instructions and the provider's own text may add to the messages of a request."""


class MeteredModel(WrapperModel):
    """A model whose requests are counted.

    Args:
        provider: Its name, for messages.
        options: Those of the agent, with its prices.
        refuse: Says why no further request may be sent, if so; called with the number of those sent and its messages.
        on_answer: Called with the usage of an answer that has ended and is counted, and whether it is complete.
        say: Called with a note about an answer whose usage is impossible.

    Attributes:
        used: What the answers used, as far as the provider reported it.
        unreported: The answers without any usage.
    """

    def __init__(
        self,
        model: Model[Any],
        *,
        provider: str,
        options: Mapping[str, Any],
        refuse: Callable[[int, list[ModelMessage]], Awaitable[Failure | None]],
        on_answer: Callable[[Usage, bool], object],
        say: Callable[[str], object],
    ) -> None:
        super().__init__(model)
        self.used = NO_USAGE
        self._vendor, self._options, self._refuse, self._on_answer = provider, options, refuse, on_answer
        self._sent = self.unreported = 0
        self._say = say

    def _most(self, answer: ModelResponse, messages: list[ModelMessage]) -> int:
        """How many tokens the request can have: each has at least one byte, of *messages* or of what is around them."""
        if answer.usage.input_tokens <= _AROUND:
            return OUTPUT_MOST
        return _AROUND + len(ModelMessagesTypeAdapter.dump_json(messages))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send one request and stream the answer.

        Raises:
            CutOff: If the request may not be sent, or the answer ended before it was complete.
        """
        if failure := await self._refuse(self._sent, messages):
            raise CutOff(failure)
        self._sent += 1
        tools = [one for one in model_request_parameters.output_tools if one.name == TOOL]  # not the library's for None
        model_request_parameters = replace(model_request_parameters, output_tools=tools)
        stream: StreamedResponse | None = None
        try:
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream
        except asyncio.CancelledError:
            if stream is None:  # the request may be on its way
                self.used += priced(NO_USAGE, self._options)
            raise
        finally:
            if stream is not None:
                answer = stream.get()
                used = usage_of(answer, self._options, self.model_name, self._most(answer, messages), self._say)
                self.unreported += not (used.input_tokens or used.output_tokens)
                self.used += used
                is_paused = answer.state == "suspended"
                self._on_answer(used, not is_paused and incomplete(answer, self._vendor, "max-tokens") is None)
        if answer.state != "suspended" and (failure := incomplete(answer, self._vendor, "max-tokens")):
            raise CutOff(failure)
