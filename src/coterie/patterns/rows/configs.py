"""Configurations of agents and patterns as the reference's classes: validated, and without unknown keys.

Those of patterns are derived from the configurations of `coterie.patterns.builtin`. `.model_dump()` of each is JSON.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin

from msgspec import NODEFAULT, structs
from pydantic import AfterValidator, Strict, ValidationError, create_model
from sqlmodel import Field, SQLModel

from coterie.errors import PatternRefused
from coterie.patterns.rows.enums import AggregationMethod, ConsensusMethod
from coterie.patterns.rows.kinds import Object, refused
from coterie.team.topology.patterns.configs import Aggregation, Consensus
from coterie.team.topology.patterns.kinds import KINDS, read_config
from coterie.team.topology.patterns.names import TopologyType

Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]

_CLASSES = "coterie.patterns.reference.topologies"
"""The module that declares the classes of patterns by name."""


class StrictConfig(SQLModel):
    """The base of configurations: rejects unknown fields."""

    model_config = {"extra": "forbid"}

    if TYPE_CHECKING:  # the fields of derived classes are known when they run

        def __getattr__(self, name: str) -> Any: ...


class AgentCapability(StrictConfig):
    """A capability of an agent, `tool_use` or `memory`, and its settings."""

    name: str = Field(min_length=1)
    version: str = "1.0.0"
    config: Object = Field(default_factory=dict)
    enabled: Flag = True


class AgentConfig(StrictConfig):
    """The configuration of an agent: its model, its limits, its capabilities."""

    model: str = "claude-sonnet-4-20250514"
    temperature: Number = Field(default=0.7, ge=0, le=2)
    max_tokens: Whole = Field(default=4096, gt=0)
    system_prompt: str | None = None
    output_format: str | None = None
    max_retries: Whole = Field(default=3, ge=0)
    timeout_seconds: Whole = Field(default=300, gt=0)
    max_tool_calls: Whole = Field(default=10, ge=0)
    capabilities: list[AgentCapability] = Field(default_factory=list)


def agent_config(config: Mapping[str, Any], whose: str = "the configuration") -> AgentConfig:
    """Parse *config* as an agent's.

    Raises:
        PatternRefused: If it does not fit.
    """
    try:
        return AgentConfig(**config)
    except ValidationError as error:
        raise refused(whose, error, AgentConfig.model_fields) from error


def _as_agent_config(config: dict[str, Any]) -> dict[str, Any]:
    agent_config(config)
    return config


C = TypeVar("C", bound=type[StrictConfig])

AgentConfigObject = Annotated[Object, AfterValidator(_as_agent_config)]
"""A JSON object that fits `AgentConfig`."""


@cache
def pattern_config(topology_type: TopologyType) -> type[StrictConfig]:
    """The class of configurations of *topology_type*, with the fields, defaults and ranges of its pattern."""
    fields: dict[str, Any] = {
        one.name: (_annotation(one.type), Field(default_factory=_default(one)))
        for one in structs.fields(KINDS[topology_type].config)
    }
    name = f"{topology_type.class_name}Config"
    return create_model(name, __base__=StrictConfig, __module__=_CLASSES, **fields)


def config_of(topology_type: TopologyType) -> Callable[[C], C]:
    """Return a decorator that gives a class without fields, which type checkers see, those of *topology_type*."""

    def derived(declared: C) -> C:
        made = pattern_config(topology_type)
        made.__doc__ = declared.__doc__
        return cast("C", made)

    return derived


def _annotation(known: Any) -> Any:
    """The type of a field for pydantic: lists for tuples, enums for the choices that the reference has as such."""
    origin, inner = get_origin(known), get_args(known)
    if origin is Annotated:
        meta = {name: value for name in _RANGES if (value := getattr(inner[1], name)) is not None}
        return Annotated[_annotation(inner[0]), Field(**meta)]
    if origin is tuple:
        return list[_annotation(inner[0])]  # type: ignore[misc]  # computed when it runs
    if origin is dict:
        return dict[inner[0], _annotation(inner[1])]  # type: ignore[misc, valid-type]  # as above
    if NoneType in inner:
        return _annotation(inner[0]) | None
    return Annotated[known, Strict()] if known in (int, float, bool) else _ENUMS.get(known, known)


def _default(known: structs.FieldInfo) -> Callable[[], Any]:
    """What makes the default of the field *known*."""
    if known.default is NODEFAULT:
        made: Callable[[], Any] = known.default_factory
        return made
    kind = list if isinstance(known.default, tuple) else _ENUMS.get(known.type)
    return (lambda: known.default) if kind is None else partial(kind, known.default)


_RANGES = ("gt", "ge", "lt", "le", "min_length", "max_length")
_ENUMS: Mapping[Any, Any] = {Consensus: ConsensusMethod, Aggregation: AggregationMethod}

_own: dict[TopologyType, dict[type[SQLModel], None]] = {}


def accept(topology_type: TopologyType, config_class: type[SQLModel]) -> None:
    """Accept *config_class*, a user's own, for topologies of *topology_type*, besides the built-in one.

    `BaseTopology` calls it for every subclass that defines both.
    """
    if config_class is not pattern_config(topology_type):
        _own.setdefault(topology_type, {})[config_class] = None


def typed_config(topology_type: TopologyType, config: Mapping[str, Any]) -> SQLModel:
    """Parse *config* as the configuration of its type; as an accepted class of a user, if only that fits.

    Raises:
        PatternRefused: If none fits; lists the faults against the built-in class.
    """
    found = read_config(KINDS[topology_type.value].config, config)[1]
    wrong = [f"{fault.message}; {fault.hint}" if fault.hint else fault.message for fault in found]
    if not wrong:
        return pattern_config(topology_type)(**config)
    for own in _own.get(topology_type, ()):
        try:
            return own(**config)
        except ValidationError:
            continue
    raise PatternRefused("; ".join(wrong))
