"""`tool_use`: the tools that an agent may use, and how often."""

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from coterie.patterns.reference.calls import current_call
from coterie.patterns.reference.mixins.approval import allowed_by_human
from coterie.patterns.reference.mixins.base import BaseMixin, Vetoed


class ToolUseConfig(BaseModel):
    """Settings of `tool_use`.

    Attributes:
        allowed_tools: Empty: all.
        require_confirmation: A human approves every single use.
        max_tool_calls_per_turn: Uses in one call.
        tool_call_timeout_seconds: The limit of one use.
    """

    model_config = {"extra": "forbid"}

    allowed_tools: list[str] = Field(default_factory=list)
    denied_tools: list[str] = Field(default_factory=list)
    require_confirmation: bool = False
    max_tool_calls_per_turn: int = Field(default=5, ge=0)
    tool_call_timeout_seconds: int = Field(default=60, gt=0)


class ToolUseMixin(BaseMixin):
    """Lets an agent use the tools of its topology."""

    name: ClassVar[str] = "tool_use"
    description: ClassVar[str] = "Use tools"
    config_class: ClassVar[type[BaseModel]] = ToolUseConfig
    pure: ClassVar[bool] = True

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        self._used: dict[tuple[str, int], int] = {}

    async def on_tool_call(self, tool: str, args: dict[str, Any]) -> dict[str, Any] | None:
        """Refuse a tool that is denied, not allowed, or used too often in one call."""
        if tool in self.config.denied_tools:
            raise Vetoed(f"{tool!r} is denied")
        if self.config.allowed_tools and tool not in self.config.allowed_tools:
            raise Vetoed(f"{tool!r} is not allowed; allowed are {', '.join(self.config.allowed_tools)}")
        call = current_call()
        attempt = (call.turn, call.attempt)
        self._used[attempt] = used = self._used.get(attempt, 0) + 1
        if used > self.config.max_tool_calls_per_turn:
            raise Vetoed(f"only {self.config.max_tool_calls_per_turn} tool calls are allowed in one turn")
        if self.config.require_confirmation:
            return await allowed_by_human(call, tool, args, modify=False)
        return args
