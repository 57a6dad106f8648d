"""The protocols of model providers and span exporters."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coterie.agents.actors.plugins.toolbox import AgentTool
from coterie.agents.backends.models.response import ModelResponse
from coterie.history.views.spans import TraceSpan


class ModelProvider(Protocol):
    """Calls models.

    A provider may also have `default_model`, for requests that name no model; `serves(model) -> bool`, to choose
    between several providers; `check()`, which raises an error if the provider cannot be used; and `async close()`.
    """

    async def chat(
        self, model: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[AgentTool] | None = None
    ) -> ModelResponse:
        """Return the answer to *messages*, each `{"role": …, "content": …}`.

        Raises:
            CallFailed: If the provider fails.
        """


class Exporter(Protocol):
    """Receives spans. It may also have `check()`, which raises an error if it cannot be used, and `async close()`."""

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Accept *spans* without blocking, since this is called in the event loop of the system."""
