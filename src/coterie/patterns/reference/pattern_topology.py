"""The base of the classes of built-in patterns; it runs the generators of `coterie.patterns.builtin`."""

from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from sqlmodel import SQLModel

from coterie.base.diagnostics import Severity
from coterie.errors import CollaborationFailed, PatternRefused
from coterie.history.engines.patterns.registry import Team, definition
from coterie.history.engines.patterns.result import PatternResult
from coterie.history.engines.versions import rules_of
from coterie.patterns.reference.base import BaseTopology
from coterie.patterns.reference.driver import Driver
from coterie.patterns.reference.invocation import ExecutionContext
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.mixins.registry import MixinRegistry, load_mixins
from coterie.patterns.reference.registry import TopologyRegistry
from coterie.patterns.rows.configs import AgentConfig, pattern_config
from coterie.patterns.rows.models import AgentInstance, AgentType
from coterie.team.topology.patterns.configs import Config
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec, faults, read_config
from coterie.team.topology.patterns.names import TopologyType

C = TypeVar("C", bound=SQLModel)


class TypedConfig(Generic[C]):
    """An attribute of a topology: its configuration, which is a *kind*."""

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind

    def __get__(self, topology: BaseTopology, owner: type[BaseTopology]) -> C:
        assert isinstance(topology._config, self._kind)
        return topology._config


class PatternTopology(BaseTopology):
    """A topology that runs a built-in pattern; a subclass names its type as *of*."""

    pure: ClassVar[bool] = True
    _read: tuple[dict[str, Any], Config] | None = None

    def __init_subclass__(cls, of: TopologyType | None = None, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if of is not None:
            cls.topology_type, cls.config_class, cls.pure = of, pattern_config(of), True
            TopologyRegistry.built_in[of] = cls

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        """Check everything, then run the pattern."""
        self.check(context.input_data)
        team = self.as_team()
        team.rules = rules_of("pattern", self._program_run().version)
        driver = Driver(self, context, team)
        play = definition(self._kind.name).play
        value = await driver.play(lambda given: play(team, given), dict(context.input_data))
        if isinstance(value, PatternResult):
            value = msgspec.structs.replace(value, usage=driver.usage)
            if not value.text.strip():
                raise CollaborationFailed(f"{self._kind.title} gave an empty answer")
            return value.to_dict()
        return {"text": str(value)}

    def check(self, given: dict[str, Any] | None = None) -> None:
        """Check slots, settings and, if given, the input *given*.

        Raises:
            PatternRefused: If they are invalid; lists all faults.
        """
        kind, slots = self._kind, self._slots()
        wrong = [one.message for one in faults(kind, self._settings(), slots) if one.severity is Severity.ERROR]
        if not wrong and given is not None:
            able = {slot: self._able(slot) for slot in slots}
            config = self.as_team().config
            wrong = [one.message for one in config.input_faults(kind.title, kind.keys, able, given)]
        if wrong:
            raise PatternRefused("; ".join(wrong))

    def as_team(self) -> Team:
        """The team as the pattern sees it."""
        subs = {slot: team for slot in self._slots() if isinstance(team := self.team(slot), PatternTopology)}
        return Team(
            self._slots(),
            self._pattern_config(),
            capabilities={slot: self._able(slot) for slot in self.agents},
            keys={slot: team._kind.keys or ("prompt",) for slot, team in subs.items()},
            subs={slot: team.as_team() for slot, team in subs.items()},
        )

    def retries(self, config: AgentConfig) -> int:
        """The pattern's, if it sets them for all its agents; the agent's own are not added."""
        own = self._pattern_config().all_retries()
        return super().retries(config) if own is None else own

    def attempts(self) -> int | None:
        """One more than the retries that the pattern sets."""
        retries = self._pattern_config().all_retries()
        return None if retries is None else 1 + retries

    async def _load_mixins(self, agent_type: AgentType, instance: AgentInstance) -> list[BaseMixin]:
        if not self._kind.has_skills:
            return await super()._load_mixins(agent_type, instance)
        known = [one.model_dump() for one in agent_type.get_capabilities() if MixinRegistry.get(one.name) is not None]
        of_mixins = {**agent_type.config, "capabilities": known}
        return await load_mixins(AgentType(**{**agent_type.model_dump(), "config": of_mixins}), instance)

    def _pattern_config(self) -> Config:
        """The configuration as the pattern sees it; its defaults, if it is invalid."""
        settings = self._settings()
        if self._read is None or self._read[0] != settings:  # each call asks for it
            self._read = settings, read_config(self._kind.config, settings)[0] or self._kind.config()
        return self._read[1]

    @property
    def _kind(self) -> PatternSpec:
        return KINDS[TopologyType(self.topology_type).value]

    def _slots(self) -> tuple[str, ...]:
        return tuple(self.agents)

    def _settings(self) -> dict[str, Any]:
        """The part of the configuration that the pattern knows: a subclass may add settings."""
        known = self._kind.config.__struct_fields__
        said = self._config.model_dump(mode="json")
        return {name: value for name, value in said.items() if name in known}

    def _able(self, slot: str) -> tuple[str, ...]:
        agent = self.agents.get(slot)
        able = self.as_member(slot, agent).get_capabilities() if agent is not None else ()
        return tuple(one.name for one in able if one.enabled)
