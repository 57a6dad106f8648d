"""The mixins by name, and those of an agent."""

from typing import Any, ClassVar, TypeVar

from coterie.base.diagnostics import did_you_mean
from coterie.errors import PatternRefused
from coterie.patterns.reference.mixins.approval import HumanInLoopMixin
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.mixins.memory import MemoryMixin
from coterie.patterns.reference.mixins.reasoning import ReasoningMixin
from coterie.patterns.reference.mixins.structured import StructuredOutputMixin
from coterie.patterns.reference.mixins.tools import ToolUseMixin
from coterie.patterns.rows.models import AgentInstance, AgentType

M = TypeVar("M", bound=type[BaseMixin])


class MixinRegistry:
    """The mixins by name."""

    _mixins: ClassVar[dict[str, type[BaseMixin]]] = {
        one.name: one for one in (ToolUseMixin, MemoryMixin, ReasoningMixin, HumanInLoopMixin, StructuredOutputMixin)
    }

    @classmethod
    def register(cls, mixin_class: M) -> M:
        """Register *mixin_class* under its `name`, replacing a mixin of that name."""
        cls._mixins[mixin_class.name] = mixin_class
        return mixin_class

    @classmethod
    def get(cls, name: str) -> type[BaseMixin] | None:
        """The mixin class of that name."""
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


def mixin(mixin_class: M) -> M:
    """Register the decorated class: `@mixin class Search(BaseMixin): name = "search"`."""
    return MixinRegistry.register(mixin_class)


async def load_mixins(agent: AgentType, instance: AgentInstance) -> list[BaseMixin]:
    """The mixins of *agent*, bound to *instance*, each after those it depends on.

    Raises:
        PatternRefused: If a capability is unknown, or its settings do not fit.
    """
    capabilities = {one.name: one for one in agent.get_capabilities()}
    wanted = [name for name, one in capabilities.items() if one.enabled]
    mixins = []
    for name in MixinRegistry.resolve_dependencies(wanted):
        one = MixinRegistry.create(name, capabilities[name].config if name in capabilities else {})
        one.bind(instance)
        await one.on_create()
        mixins.append(one)
    return mixins
