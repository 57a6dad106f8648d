"""The built-in patterns as the reference has them, by name: the configuration and the class of each.

They are public, as is the function that makes a team of the pattern; `coterie.patterns` exports all three.
"""

from collections.abc import Mapping
from typing import Any

from coterie.errors import PatternRefused
from coterie.patterns.builtin.chain import chain_of_command as chain_of_command
from coterie.patterns.builtin.compound import compound as compound
from coterie.patterns.builtin.crosscheck import cross_check as cross_check
from coterie.patterns.builtin.debate import debate as debate
from coterie.patterns.builtin.delegation import delegation as delegation
from coterie.patterns.builtin.ensemble import ensemble as ensemble
from coterie.patterns.builtin.pipeline import pipeline as pipeline
from coterie.patterns.reference.base import BaseTopology
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.pattern_topology import PatternTopology, TypedConfig
from coterie.patterns.reference.registry import TopologyRegistry
from coterie.patterns.rows.configs import StrictConfig, config_of
from coterie.patterns.rows.models import AgentType, Topology
from coterie.team.topology.patterns.kinds import KINDS
from coterie.team.topology.patterns.names import TopologyType


@config_of(TopologyType.DEBATE)
class DebateConfig(StrictConfig):
    """Configuration of a debate."""


class DebateTopology(PatternTopology, of=TopologyType.DEBATE):
    """Two sides argue, a mediator decides."""

    debate_config = TypedConfig(DebateConfig)
    REQUIRED_SLOTS = [*KINDS[TopologyType.DEBATE].required]


@config_of(TopologyType.CHAIN_OF_COMMAND)
class ChainOfCommandConfig(StrictConfig):
    """Configuration of a chain of command."""


class ChainOfCommandTopology(PatternTopology, of=TopologyType.CHAIN_OF_COMMAND):
    """A commander plans, others work, the commander combines the results."""

    chain_config = TypedConfig(ChainOfCommandConfig)


@config_of(TopologyType.DELEGATION)
class DelegationConfig(StrictConfig):
    """Configuration of a delegation."""


class DelegationTopology(PatternTopology, of=TopologyType.DELEGATION):
    """Each task goes to an able worker. A capability that is not a mixin is a skill for routing."""

    delegation_config = TypedConfig(DelegationConfig)


@config_of(TopologyType.ENSEMBLE)
class EnsembleConfig(StrictConfig):
    """Configuration of an ensemble."""


class EnsembleTopology(PatternTopology, of=TopologyType.ENSEMBLE):
    """Several members answer independently, and their answers are combined."""

    ensemble_config = TypedConfig(EnsembleConfig)


@config_of(TopologyType.PIPELINE)
class PipelineConfig(StrictConfig):
    """Configuration of a pipeline."""


class PipelineTopology(PatternTopology, of=TopologyType.PIPELINE):
    """Stages, one after the other."""

    pipeline_config = TypedConfig(PipelineConfig)


@config_of(TopologyType.CROSS_CHECK)
class CrossCheckConfig(StrictConfig):
    """Configuration of a cross-check."""


class CrossCheckTopology(PatternTopology, of=TopologyType.CROSS_CHECK):
    """A primary answers, others check the answer."""

    crosscheck_config = TypedConfig(CrossCheckConfig)


@config_of(TopologyType.COMPOUND)
class CompoundConfig(StrictConfig):
    """Configuration of a compound."""


class CompoundTopology(PatternTopology, of=TopologyType.COMPOUND):
    """A combination of topologies; each is a separate execution.

    Args:
        sub_topologies: Topologies by name that are not looked up in the database. A topology that contains itself, at
            any depth, is rejected.
    """

    compound_config = TypedConfig(CompoundConfig)

    def __init__(
        self,
        topology: Topology,
        agents: Mapping[str, AgentType],
        db_session: Any = None,
        sub_topologies: Mapping[str, BaseTopology] | None = None,
    ) -> None:
        super().__init__(topology, agents, db_session)
        self._sub_topologies |= sub_topologies or {}

    def team(self, name: str) -> Collaboration | None:
        """The sub-topology of that name."""
        return self._sub_topologies.get(name)

    def teams(self) -> Mapping[str, Collaboration]:
        """The sub-topologies, in their order."""
        return {name: self._sub_topologies[name] for name in self._slots()}

    def check(self, given: dict[str, Any] | None = None) -> None:
        """Check as for any pattern, and every sub-topology; none may contain itself."""
        if self._cycle:
            raise PatternRefused(f"Circular sub-topologies: {self._cycle}")
        super().check(given)
        for name in self._slots():
            if isinstance(team := self.team(name), PatternTopology):
                try:
                    team.check()
                except PatternRefused as refused:
                    raise PatternRefused(f"sub-topology {name!r}: {refused}") from None

    def _slots(self) -> tuple[str, ...]:
        return tuple(name for name in self._sub_names() if name in self._sub_topologies)

    def _sub_names(self) -> tuple[str, ...]:
        return tuple(self.compound_config.sub_topologies)

    def _make_team(self, topology: Topology, agents: Mapping[str, AgentType]) -> Collaboration:
        return TopologyRegistry.create(topology, agents, self.db_session)
