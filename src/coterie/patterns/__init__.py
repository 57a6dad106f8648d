"""Patterns for programs: the reference's own API with its data model, and what a pattern of one's own is made of.

    from coterie.patterns import AgentRole, AgentType, DebateConfig, Topology, TopologyRegistry, TopologyType

    debate = TopologyRegistry.create(topology, {"proponent": optimist, "opponent": skeptic, "mediator": judge})
    execution = await debate.execute({"question": "Will it rain?"})

Everything loads when it is first used; what holds rows needs the extra `sql`.
"""

TYPE_CHECKING = False  # as in `typing`, whose import would cost more than this module
if TYPE_CHECKING:
    from coterie.engines.generator import AgentFailed, PatternFailed, Question, Tell, Together
    from coterie.engines.patterns.registry import Calls, Team, pattern
    from coterie.errors import CallFailed, CollaborationFailed, PatternRefused
    from coterie.formats.yaml.writing import to_yaml
    from coterie.patterns.constructors import (
        agent,
        chain_of_command,
        collaboration,
        compound,
        cross_check,
        debate,
        delegation,
        ensemble,
        pipeline,
    )
    from coterie.patterns.reference.base import BaseTopology
    from coterie.patterns.reference.calling import current_call
    from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext
    from coterie.patterns.reference.mixins.approval import HumanInLoopMixin
    from coterie.patterns.reference.mixins.base import BaseMixin, MixinRegistry, ReplyRefused, Vetoed, mixin
    from coterie.patterns.reference.mixins.memory import MemoryMixin
    from coterie.patterns.reference.mixins.reasoning import ReasoningMixin
    from coterie.patterns.reference.mixins.structured import StructuredOutputMixin
    from coterie.patterns.reference.mixins.tools import ToolUseMixin
    from coterie.patterns.reference.registry import TopologyRegistry, topology
    from coterie.patterns.reference.topologies import (
        ChainOfCommandTopology,
        CompoundTopology,
        CrossCheckTopology,
        DebateTopology,
        DelegationTopology,
        EnsembleTopology,
        PipelineTopology,
    )
    from coterie.patterns.rows import (
        AgentCapability,
        AgentConfig,
        AgentInstance,
        AgentRole,
        AgentType,
        AgentTypeCreate,
        AgentTypeRead,
        AgentTypeUpdate,
        AggregationMethod,
        ChainOfCommandConfig,
        CompoundConfig,
        ConsensusMethod,
        CrossCheckConfig,
        DebateConfig,
        DelegationConfig,
        EnsembleConfig,
        Execution,
        ExecutionCreate,
        ExecutionRead,
        ExecutionStatus,
        Message,
        MessageCreate,
        MessageRead,
        MessageType,
        PipelineConfig,
        Result,
        Topology,
        TopologyCreate,
        TopologyMembership,
        TopologyRead,
        TopologyType,
        TopologyUpdate,
    )
    from coterie.patterns.rows.migrations import upgrade
    from coterie.patterns.rows.projection import Projection, project

_PLACES = {
    "AgentCapability": "coterie.patterns.rows",
    "AgentConfig": "coterie.patterns.rows",
    "AgentFailed": "coterie.engines.generator",
    "AgentInstance": "coterie.patterns.rows",
    "AgentInvocationResult": "coterie.patterns.reference.invocation",
    "AgentRole": "coterie.patterns.rows",
    "AgentType": "coterie.patterns.rows",
    "AgentTypeCreate": "coterie.patterns.rows",
    "AgentTypeRead": "coterie.patterns.rows",
    "AgentTypeUpdate": "coterie.patterns.rows",
    "AggregationMethod": "coterie.patterns.rows",
    "BaseMixin": "coterie.patterns.reference.mixins.base",
    "BaseTopology": "coterie.patterns.reference.base",
    "CallFailed": "coterie.errors",
    "Calls": "coterie.engines.patterns.registry",
    "ChainOfCommandConfig": "coterie.patterns.rows",
    "ChainOfCommandTopology": "coterie.patterns.reference.topologies",
    "CollaborationFailed": "coterie.errors",
    "CompoundConfig": "coterie.patterns.rows",
    "CompoundTopology": "coterie.patterns.reference.topologies",
    "ConsensusMethod": "coterie.patterns.rows",
    "CrossCheckConfig": "coterie.patterns.rows",
    "CrossCheckTopology": "coterie.patterns.reference.topologies",
    "DebateConfig": "coterie.patterns.rows",
    "DebateTopology": "coterie.patterns.reference.topologies",
    "DelegationConfig": "coterie.patterns.rows",
    "DelegationTopology": "coterie.patterns.reference.topologies",
    "EnsembleConfig": "coterie.patterns.rows",
    "EnsembleTopology": "coterie.patterns.reference.topologies",
    "Execution": "coterie.patterns.rows",
    "ExecutionContext": "coterie.patterns.reference.invocation",
    "ExecutionCreate": "coterie.patterns.rows",
    "ExecutionRead": "coterie.patterns.rows",
    "ExecutionStatus": "coterie.patterns.rows",
    "HumanInLoopMixin": "coterie.patterns.reference.mixins.approval",
    "MemoryMixin": "coterie.patterns.reference.mixins.memory",
    "Message": "coterie.patterns.rows",
    "MessageCreate": "coterie.patterns.rows",
    "MessageRead": "coterie.patterns.rows",
    "MessageType": "coterie.patterns.rows",
    "MixinRegistry": "coterie.patterns.reference.mixins.base",
    "PatternFailed": "coterie.engines.generator",
    "PatternRefused": "coterie.errors",
    "PipelineConfig": "coterie.patterns.rows",
    "PipelineTopology": "coterie.patterns.reference.topologies",
    "Projection": "coterie.patterns.rows.projection",
    "Question": "coterie.engines.generator",
    "ReasoningMixin": "coterie.patterns.reference.mixins.reasoning",
    "ReplyRefused": "coterie.patterns.reference.mixins.base",
    "Result": "coterie.patterns.rows",
    "StructuredOutputMixin": "coterie.patterns.reference.mixins.structured",
    "Team": "coterie.engines.patterns.registry",
    "Tell": "coterie.engines.generator",
    "Together": "coterie.engines.generator",
    "ToolUseMixin": "coterie.patterns.reference.mixins.tools",
    "Topology": "coterie.patterns.rows",
    "TopologyCreate": "coterie.patterns.rows",
    "TopologyMembership": "coterie.patterns.rows",
    "TopologyRead": "coterie.patterns.rows",
    "TopologyRegistry": "coterie.patterns.reference.registry",
    "TopologyType": "coterie.patterns.rows",
    "TopologyUpdate": "coterie.patterns.rows",
    "Vetoed": "coterie.patterns.reference.mixins.base",
    "agent": "coterie.patterns.constructors",
    "chain_of_command": "coterie.patterns.constructors",
    "collaboration": "coterie.patterns.constructors",
    "compound": "coterie.patterns.constructors",
    "cross_check": "coterie.patterns.constructors",
    "current_call": "coterie.patterns.reference.calling",
    "debate": "coterie.patterns.constructors",
    "delegation": "coterie.patterns.constructors",
    "ensemble": "coterie.patterns.constructors",
    "mixin": "coterie.patterns.reference.mixins.base",
    "pattern": "coterie.engines.patterns.registry",
    "pipeline": "coterie.patterns.constructors",
    "project": "coterie.patterns.rows.projection",
    "to_yaml": "coterie.formats.yaml.writing",
    "topology": "coterie.patterns.reference.registry",
    "upgrade": "coterie.patterns.rows.migrations",
}

__all__ = [
    "AgentCapability",
    "AgentConfig",
    "AgentFailed",
    "AgentInstance",
    "AgentInvocationResult",
    "AgentRole",
    "AgentType",
    "AgentTypeCreate",
    "AgentTypeRead",
    "AgentTypeUpdate",
    "AggregationMethod",
    "BaseMixin",
    "BaseTopology",
    "CallFailed",
    "Calls",
    "ChainOfCommandConfig",
    "ChainOfCommandTopology",
    "CollaborationFailed",
    "CompoundConfig",
    "CompoundTopology",
    "ConsensusMethod",
    "CrossCheckConfig",
    "CrossCheckTopology",
    "DebateConfig",
    "DebateTopology",
    "DelegationConfig",
    "DelegationTopology",
    "EnsembleConfig",
    "EnsembleTopology",
    "Execution",
    "ExecutionContext",
    "ExecutionCreate",
    "ExecutionRead",
    "ExecutionStatus",
    "HumanInLoopMixin",
    "MemoryMixin",
    "Message",
    "MessageCreate",
    "MessageRead",
    "MessageType",
    "MixinRegistry",
    "PatternFailed",
    "PatternRefused",
    "PipelineConfig",
    "PipelineTopology",
    "Projection",
    "Question",
    "ReasoningMixin",
    "ReplyRefused",
    "Result",
    "StructuredOutputMixin",
    "Team",
    "Tell",
    "Together",
    "ToolUseMixin",
    "Topology",
    "TopologyCreate",
    "TopologyMembership",
    "TopologyRead",
    "TopologyRegistry",
    "TopologyType",
    "TopologyUpdate",
    "Vetoed",
    "agent",
    "chain_of_command",
    "collaboration",
    "compound",
    "cross_check",
    "current_call",
    "debate",
    "delegation",
    "ensemble",
    "mixin",
    "pattern",
    "pipeline",
    "project",
    "to_yaml",
    "topology",
    "upgrade",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie.patterns' has no attribute {name!r}")
    from importlib import import_module

    from coterie.patterns.extra import needing_sql

    with needing_sql(f"coterie.patterns.{name}"):
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
