"""Topology objects without their execution: definition, agents, teams and class.

`coterie.patterns.reference.base` runs it. What records its calls and keeps its rows knows only this class.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError
from sqlmodel import SQLModel

from coterie.errors import PatternRefused
from coterie.patterns.reference.calls import Tool
from coterie.patterns.reference.invocation import ExecutionContext
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.models import ask_model
from coterie.patterns.reference.plain import text_of
from coterie.patterns.rows.configs import AgentConfig, accept
from coterie.patterns.rows.kinds import refused
from coterie.patterns.rows.models import AgentInstance, AgentType, Topology, unexpired
from coterie.team.topology.patterns.names import TopologyType

_ANSWERS = ("topology_type", "config_class", "tools", "_call_llm")
"""The attributes that a subclass may define without losing `pure`."""


class Collaboration(ABC):
    """A topology object, as its run and its rows know it."""

    topology_type: ClassVar[TopologyType]
    config_class: ClassVar[type[SQLModel]]
    tools: Mapping[str, Tool] = {}
    pure: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls)
        if "pure" not in own and any(name not in _ANSWERS and not name.startswith("__") for name in own):
            cls.pure = False
        if "topology_type" in own and "config_class" in own:
            check_class(cls)
            accept(own["topology_type"], own["config_class"])

    def __init__(self, topology: Topology, agents: Mapping[str, AgentType], db_session: Any = None) -> None:
        if not isinstance(topology, Topology):
            raise PatternRefused(f"the first argument must be a Topology, not {type(topology).__name__}")
        if not isinstance(agents, Mapping):
            raise PatternRefused(f"agents must be a dictionary by slot, not {type(agents).__name__}")
        for slot, agent in agents.items():
            if not isinstance(slot, str) or not slot.strip() or not slot.isprintable():
                raise PatternRefused(f"the name of a slot must be a text of one line, not {slot!r}")
            if not isinstance(agent, AgentType):
                raise PatternRefused(f"slot {slot!r} must be filled by an AgentType, not by {type(agent).__name__}")
        check_class(type(self))
        self.topology = topology
        self.agents = dict(agents)
        self.db_session = db_session
        self._sub_topologies: dict[str, Collaboration] = {}
        self._cycle = ""
        self._overrides: dict[str, dict[str, Any]] = {}
        self._config = self._parse_config()

    def _parse_config(self) -> SQLModel:
        try:
            return self.config_class(**self._defined.config)
        except ValidationError as error:
            what = f"the configuration of {self._defined.name!r}"
            raise refused(what, error, self.config_class.model_fields) from error

    @abstractmethod
    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        """The collaboration; returns the output of the execution."""

    def team(self, name: str) -> "Collaboration | None":
        """The team *name*; None if *name* is an agent."""
        return self.teams().get(name)

    def teams(self) -> "Mapping[str, Collaboration]":
        """The teams for `invoke_team`, by name; every call must return the same."""
        return {}

    async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the model with *request* (`model`, `messages`, `max_tokens`, `temperature`, perhaps `tools`).

        A response is a dictionary of JSON values with `content`, and perhaps `usage`, `tool_calls` and `_confidence`.
        This method calls the provider of the model (the extra `models`); an override may call anything.
        `current_call()` is the call that is being answered. Any exception fails the attempt; `CallFailed` sets the kind
        of failure.
        """
        return await ask_model(request)

    @property
    def _defined(self) -> Topology:
        """The user's definition, readable also while its session has expired it."""
        return unexpired(self.topology)

    def as_member(self, slot: str, agent: AgentType) -> AgentType:
        """*agent* with the overrides for *slot* of this topology, readable also while its session has expired it."""
        agent, own = unexpired(agent), self._overrides.get(slot)
        return agent if not own else AgentType(**{**agent.model_dump(), "config": {**agent.config, **own}})

    def retries(self, config: AgentConfig) -> int:
        """The number of retries of a call to the agent with *config*."""
        return config.max_retries

    def attempts(self) -> int | None:
        """The number of attempts of a call, whatever the failure; None: its agent and the kind of failure decide."""
        return None

    def as_result(self, output: dict[str, Any]) -> dict[str, Any]:
        """*output* as the run stores it: its text, and everything."""
        return {"text": text_of(output), "outputs": {TopologyType(self.topology_type).value: output}}

    def output_of(self, result: Any) -> dict[str, Any]:
        """The output that `as_result` stored in *result*."""
        output: dict[str, Any] = result["outputs"][TopologyType(self.topology_type).value]
        return output

    def _sub_names(self) -> tuple[str, ...]:
        """The names of the teams of its definition, in order."""
        return ()

    def _make_team(self, topology: Topology, agents: Mapping[str, AgentType]) -> "Collaboration":
        """The object that runs the team *topology* of this one."""
        raise NotImplementedError

    @abstractmethod
    async def setup(self) -> None:
        """Create what the execution needs."""

    @abstractmethod
    async def teardown(self) -> None:
        """Clean up after the execution."""

    @abstractmethod
    async def _load_mixins(self, agent_type: AgentType, instance: AgentInstance) -> list[BaseMixin]: ...


def check_class(topology_class: type[Collaboration]) -> None:
    """Check that *topology_class* is complete.

    Raises:
        PatternRefused: If it is not.
    """
    if not isinstance(topology_class, type) or not issubclass(topology_class, Collaboration):
        raise PatternRefused(f"a topology class must be a subclass of BaseTopology, not {topology_class!r}")
    name, said = topology_class.__name__, getattr(topology_class, "topology_type", None)
    if said not in [known.value for known in TopologyType]:
        raise PatternRefused(f"{name}.topology_type must be one of {', '.join(TopologyType)}, not {said!r}")
    config = getattr(topology_class, "config_class", None)
    if not isinstance(config, type) or not issubclass(config, BaseModel):
        raise PatternRefused(f"{name}.config_class is a class of settings, PipelineConfig for example, not {config!r}")
