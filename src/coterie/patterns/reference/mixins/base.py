"""Mixins: capabilities of agents as hooks around their calls.

Hooks run in the order of dependencies. Those around a call run once for each call that gets an answer, however often
the run is killed and resumed: `on_invoke` before the call is recorded, `on_response` before its answer is. State that
must survive belongs in the `state` of the agent, which is recorded too.
"""

from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError

from coterie.diagnostics import did_you_mean
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


M = TypeVar("M", bound=type[BaseMixin])


class MixinRegistry:
    """The mixins by name; built-in ones load on first use."""

    _mixins: ClassVar[dict[str, type[BaseMixin]]] = {}

    @classmethod
    def register(cls, mixin_class: M) -> M:
        """Register *mixin_class* under its `name`, replacing a mixin of that name."""
        cls._load()
        cls._mixins[mixin_class.name] = mixin_class
        return mixin_class

    @classmethod
    def get(cls, name: str) -> type[BaseMixin] | None:
        """The mixin class of that name."""
        cls._load()
        return cls._mixins.get(name)

    @classmethod
    def create(cls, name: str, config: dict[str, Any] | None = None) -> BaseMixin:
        """A mixin of that name with *config*.

        Raises:
            PatternRefused: If the name is unknown, or *config* does not fit.
        """
        return cls._known(name)(config)

    @classmethod
    def list_all(cls) -> list[dict[str, Any]]:
        """Describe all mixins: name, description, version, dependencies, and the JSON Schema of the settings."""
        cls._load()
        return [
            {
                "name": name,
                "description": found.description,
                "version": found.version,
                "dependencies": list(found.dependencies),
                "config_schema": found.config_class.model_json_schema(),
            }
            for name, found in cls._mixins.items()
        ]

    @classmethod
    def resolve_dependencies(cls, names: list[str]) -> list[str]:
        """*names* and all their dependencies, each after those it depends on.

        Raises:
            PatternRefused: If one is unknown, or dependencies are circular.
        """
        ordered: list[str] = []
        path: list[str] = []

        def visit(name: str) -> None:
            if name in ordered:
                return
            if name in path:
                raise PatternRefused(f"Circular dependency: {' -> '.join([*path[path.index(name) :], name])}")
            path.append(name)
            for needed in cls._known(name).dependencies:
                visit(needed)
            path.pop()
            ordered.append(name)

        for name in names:
            visit(name)
        return ordered

    @classmethod
    def _known(cls, name: str) -> type[BaseMixin]:
        found = cls.get(name)
        if found is None:
            hint = did_you_mean(name, cls._mixins) or f"there are {', '.join(cls._mixins)}"
            raise PatternRefused(f"Unknown mixin: {name} ({hint})")
        return found

    @classmethod
    def _load(cls) -> None:
        if not cls._mixins:
            from coterie.patterns.reference.mixins.approval import HumanInLoopMixin
            from coterie.patterns.reference.mixins.memory import MemoryMixin
            from coterie.patterns.reference.mixins.reasoning import ReasoningMixin
            from coterie.patterns.reference.mixins.structured import StructuredOutputMixin
            from coterie.patterns.reference.mixins.tools import ToolUseMixin

            built_in = (ToolUseMixin, MemoryMixin, ReasoningMixin, HumanInLoopMixin, StructuredOutputMixin)
            cls._mixins.update({one.name: one for one in built_in})


def mixin(mixin_class: M) -> M:
    """Register the decorated class: `@mixin class Search(BaseMixin): name = "search"`."""
    return MixinRegistry.register(mixin_class)
