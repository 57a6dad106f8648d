"""The answer of a model to one request of an agent in Python."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class ToolRequest(Struct, frozen=True):
    """A tool call that a model requests; `arguments` are unchecked and need not match the tool."""

    id: str
    name: str
    arguments: dict[str, Any]


class ModelResponse(Struct, frozen=True, kw_only=True):
    """The answer of a model.

    Attributes:
        content: Its text, with secrets redacted.
        model: The provider's name of the model.
        provider: The name of the provider.
        tokens_in: Tokens of the request, including cached ones.
        cost_usd: The cost; None if the price of the model is not known.
        tool_calls: The requested tool calls; `ModelRouter.answer` carries them out.
    """

    content: str = ""
    model: str = ""
    provider: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    tool_calls: tuple[ToolRequest, ...] = ()

    @property
    def message(self) -> Mapping[str, Any]:
        """The answer as a message, for the next request."""
        calls = [{"id": one.id, "name": one.name, "arguments": one.arguments} for one in self.tool_calls]
        return {"role": "assistant", "content": self.content} | ({"tool_calls": calls} if calls else {})
