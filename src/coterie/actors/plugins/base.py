"""The promises of providers of models and of exporters of spans."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coterie.actors.plugins.toolbox import AgentTool
from coterie.backends.models.response import ModelResponse
from coterie.views.spans import TraceSpan


class ModelProvider(Protocol):
    """Calls models.

    A provider may also have `default_model`, the model of a request that names none; `serves(model) -> bool`, by which
    one of several providers is chosen; `check()`, which raises an error if the provider cannot be used; and
    `async close()`.
    """

    async def chat(
        self, model: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[AgentTool] | None = None
    ) -> ModelResponse:
        """The answer to *messages*, each `{"role": …, "content": …}`.

        Raises:
            CallFailed: If the provider fails.
        """


class Exporter(Protocol):
    """Receives spans. It may also have `check()`, which raises an error if it cannot be used, and `async close()`."""

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Take *spans* over without blocking: this is called in the event loop of the system."""
