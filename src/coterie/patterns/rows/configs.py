"""Configurations of agents and patterns as the reference's classes: validated, and without unknown keys.

The settings of patterns are documented in `coterie.topology.patterns.configs`; these classes have the same fields,
defaults and ranges, which a test checks. `.model_dump()` of each is JSON.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Strict, ValidationError
from sqlmodel import Field, SQLModel

from coterie.errors import PatternRefused
from coterie.patterns.rows.enums import AggregationMethod, ConsensusMethod, TopologyType
from coterie.patterns.rows.kinds import Object, refused
from coterie.topology.patterns.kinds import KINDS, read_config

Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Probability = Annotated[float, Strict(), Field(gt=0, lt=1)]
Weights = Literal["log_odds", "linear", "uniform"]


class StrictConfig(SQLModel):
    """The base of configurations: rejects unknown fields."""

    model_config = {"extra": "forbid"}


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


AgentConfigObject = Annotated[Object, AfterValidator(_as_agent_config)]
"""A JSON object that fits `AgentConfig`."""


class DebateConfig(StrictConfig):
    """Configuration of a debate."""

    max_rounds: Whole = Field(default=3, ge=1, le=10)
    consensus_method: ConsensusMethod = ConsensusMethod.MEDIATOR_DECISION
    convergence_threshold: Number = Field(default=0.8, ge=0, le=1)
    allow_early_termination: Flag = True
    mediator_agent_name: str | None = None

    min_rounds: Whole = Field(default=1, ge=1, le=10)
    swap_verdict: Flag = False


class ChainOfCommandConfig(StrictConfig):
    """Configuration of a chain of command."""

    authority_levels: list[str] = Field(
        default_factory=lambda: ["commander", "lieutenant", "worker"], min_length=1, max_length=100
    )
    escalation_threshold: Number = Field(default=0.5, ge=0, le=1)
    max_delegation_depth: Whole = Field(default=3, ge=1)

    max_subtasks: Whole = Field(default=10, ge=1)
    max_concurrency: Whole | None = Field(default=None, ge=1)


class DelegationConfig(StrictConfig):
    """Configuration of a delegation."""

    routing_strategy: Literal["capability_match", "coordinator", "round_robin"] = "capability_match"
    load_balance: Flag = True
    fallback_agent_name: str | None = None

    max_concurrency: Whole | None = Field(default=None, ge=1)


class EnsembleConfig(StrictConfig):
    """Configuration of an ensemble."""

    aggregation_method: AggregationMethod = AggregationMethod.SYNTHESIS
    diversity_weight: Number = Field(default=0.3, ge=0, le=1)
    failure_threshold: Number = Field(default=0.5, ge=0, le=1)

    samples: Whole = Field(default=1, ge=1, le=100)
    layers: Whole = Field(default=1, ge=1, le=10)
    stop_when_decided: Flag = False
    weights: Weights = "log_odds"
    accuracy: dict[str, Probability] = Field(default_factory=dict)
    average: Literal["mean", "median", "trimmed"] = "mean"
    max_concurrency: Whole | None = Field(default=None, ge=1)


class PipelineConfig(StrictConfig):
    """Configuration of a pipeline."""

    stages: list[str] = Field(default_factory=list)
    checkpoint_after: list[str] = Field(default_factory=list)
    retry_failed_stages: Flag = True
    max_stage_retries: Whole = Field(default=2, ge=0)


class CrossCheckConfig(StrictConfig):
    """Configuration of a cross-check."""

    num_checkers: Whole = Field(default=3, ge=2, le=10)
    consensus_method: ConsensusMethod = ConsensusMethod.MAJORITY_VOTE
    require_unanimous_for_approval: Flag = False
    checker_specializations: list[str] = Field(default_factory=list)

    quorum: Whole = Field(default=2, ge=1)
    weights: Weights = "log_odds"
    accuracy: dict[str, Probability] = Field(default_factory=dict)
    max_revisions: Whole = Field(default=0, ge=0, le=10)
    stop_when_decided: Flag = False
    max_concurrency: Whole | None = Field(default=None, ge=1)


class CompoundConfig(StrictConfig):
    """Configuration of a compound."""

    sub_topologies: list[str] = Field(default_factory=list)
    composition_type: Literal["sequential", "parallel", "conditional"] = "sequential"

    failure_policy: Literal["all", "any"] = "all"
    mapping: dict[str, dict[str, str]] = Field(default_factory=dict)
    max_concurrency: Whole | None = Field(default=None, ge=1)


CONFIGS: Mapping[TopologyType, type[StrictConfig]] = MappingProxyType(
    {
        TopologyType.DEBATE: DebateConfig,
        TopologyType.CHAIN_OF_COMMAND: ChainOfCommandConfig,
        TopologyType.DELEGATION: DelegationConfig,
        TopologyType.CROSS_CHECK: CrossCheckConfig,
        TopologyType.ENSEMBLE: EnsembleConfig,
        TopologyType.PIPELINE: PipelineConfig,
        TopologyType.COMPOUND: CompoundConfig,
    }
)
"""The configuration class of each type of topology."""

_own: dict[TopologyType, dict[type[SQLModel], None]] = {}


def accept(topology_type: TopologyType, config_class: type[SQLModel]) -> None:
    """Accept *config_class*, a user's own, for topologies of *topology_type*, besides the built-in one.

    `BaseTopology` calls it for every subclass that defines both.
    """
    if config_class is not CONFIGS[topology_type]:
        _own.setdefault(topology_type, {})[config_class] = None


def typed_config(topology_type: TopologyType, config: Mapping[str, Any]) -> SQLModel:
    """Parse *config* as the configuration of its type; as an accepted class of a user, if only that fits.

    Raises:
        PatternRefused: If none fits; lists the faults against the built-in class.
    """
    found = read_config(KINDS[topology_type.value].config, config)[1]
    wrong = [f"{fault.message}; {fault.hint}" if fault.hint else fault.message for fault in found]
    if not wrong:
        return CONFIGS[topology_type](**config)
    for own in _own.get(topology_type, ()):
        try:
            return own(**config)
        except ValidationError:
            continue
    raise PatternRefused("; ".join(wrong))
