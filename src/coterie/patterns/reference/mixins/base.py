"""Mixins: capabilities of agents as hooks around their calls.

Hooks run in the order of dependencies. Those around a call run once for each call that gets an answer, however often
the run is killed and resumed: `on_invoke` before the call is recorded, `on_response` before its answer is. State that
must survive belongs in the `state` of the agent, which is recorded too.
"""

from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from coterie.errors import CoterieError, PatternRefused
from coterie.patterns.rows.kinds import refused
from coterie.patterns.rows.models import AgentInstance, Message


class NoSettings(BaseModel):
    """Empty settings."""

    model_config = {"extra": "forbid"}


class Vetoed(CoterieError):
    """A mixin refuses a tool call; the agent gets the reason and continues."""


class ReplyRefused(CoterieError):
    """A mixin refuses a reply: the attempt fails, and the agent is called again as often as its retries allow."""


class BaseMixin:
    """A capability of an agent. A subclass overrides the hooks that it needs.

    Attributes:
        pure: Declares that no hook has effects outside, except `on_response` and `on_tool_call`, which may; see
            `BaseTopology`. Subclasses do not inherit it.

    Args:
        config: Settings, by the fields of `config_class`.

    Raises:
        PatternRefused: If *config* does not fit.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    version: ClassVar[str] = "1.0.0"
    config_class: ClassVar[type[BaseModel]] = NoSettings
    dependencies: ClassVar[list[str]] = []
    pure: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.pure = vars(cls).get("pure", False)

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        try:
            self.config: Any = self.config_class(**(config or {}))
        except ValidationError as error:
            what = f"the configuration of the capability {self.name!r}"
            raise refused(what, error, self.config_class.model_fields) from None
        self._agent: AgentInstance | None = None

    def bind(self, agent: AgentInstance) -> None:
        """Set the agent."""
        self._agent = agent

    @property
    def agent(self) -> AgentInstance:
        """The agent that has this capability."""
        if self._agent is None:
            raise PatternRefused(f"the capability {self.name!r} has no agent yet: call bind() first")
        return self._agent

    async def on_create(self) -> None:
        """Called when the agent is created."""

    async def on_start(self, context: dict[str, Any]) -> None:
        """Called when the execution begins; *context* is its `ExecutionContext` as data."""

    async def on_message(self, message: Message) -> Message | None:
        """Called with a *message* to this agent; may return another one to be recorded instead."""
        return message

    async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        """Called before *request* is sent; returns the request to send."""
        return request

    async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Called with the agent's answer; returns the final answer."""
        return response

    async def on_tool_call(self, tool: str, args: dict[str, Any]) -> dict[str, Any] | None:
        """Called before *tool* is used; returns the arguments, None to keep them, or raises `Vetoed`."""
        return args

    async def on_complete(self, result: dict[str, Any]) -> dict[str, Any]:
        """Called with the result of the execution; returns the final result."""
        return result

    async def on_error(self, error: Exception) -> Exception | None:
        """Called when the execution failed; may return another error to raise instead."""
        return error

    async def on_destroy(self) -> None:
        """Called when the execution is over."""
