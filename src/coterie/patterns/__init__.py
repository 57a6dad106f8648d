"""Patterns for programs: QMCP's classes with their data model, and the parts of a user-defined pattern.

    from coterie.patterns import AgentRole, AgentType, DebateConfig, Topology, TopologyRegistry, TopologyType

    debate = TopologyRegistry.create(topology, {"proponent": optimist, "opponent": skeptic, "mediator": judge})
    execution = await debate.execute({"question": "Will it rain?"})

Every name loads on first use; those of rows need the extra `sql`.

Other packages import `builtin`; the rest is internal.
"""

from coterie.team.topology.patterns.names import TopologyType as TopologyType

TYPE_CHECKING = False  # as in `typing`, whose import would cost more than this module
if TYPE_CHECKING:
    from coterie.errors import CallFailed as CallFailed
    from coterie.errors import CollaborationFailed as CollaborationFailed
    from coterie.errors import PatternRefused as PatternRefused
    from coterie.history.engines.patterns.registry import Calls as Calls
    from coterie.history.engines.patterns.registry import Team as Team
    from coterie.history.engines.patterns.registry import pattern as pattern
    from coterie.history.engines.questions import AgentFailed as AgentFailed
    from coterie.history.engines.questions import PatternFailed as PatternFailed
    from coterie.history.engines.questions import Question as Question
    from coterie.history.engines.questions import Tell as Tell
    from coterie.history.engines.questions import Together as Together
    from coterie.patterns.constructors import agent as agent
    from coterie.patterns.constructors import collaboration as collaboration
    from coterie.patterns.reference.base import BaseTopology as BaseTopology
    from coterie.patterns.reference.calls import current_call as current_call
    from coterie.patterns.reference.invocation import AgentInvocationResult as AgentInvocationResult
    from coterie.patterns.reference.invocation import ExecutionContext as ExecutionContext
    from coterie.patterns.reference.mixins.approval import HumanInLoopMixin as HumanInLoopMixin
    from coterie.patterns.reference.mixins.base import BaseMixin as BaseMixin
    from coterie.patterns.reference.mixins.base import ReplyRefused as ReplyRefused
    from coterie.patterns.reference.mixins.base import Vetoed as Vetoed
    from coterie.patterns.reference.mixins.memory import MemoryMixin as MemoryMixin
    from coterie.patterns.reference.mixins.reasoning import ReasoningMixin as ReasoningMixin
    from coterie.patterns.reference.mixins.registry import MixinRegistry as MixinRegistry
    from coterie.patterns.reference.mixins.registry import mixin as mixin
    from coterie.patterns.reference.mixins.structured import StructuredOutputMixin as StructuredOutputMixin
    from coterie.patterns.reference.mixins.tools import ToolUseMixin as ToolUseMixin
    from coterie.patterns.reference.registry import TopologyRegistry as TopologyRegistry
    from coterie.patterns.reference.registry import topology as topology
    from coterie.patterns.reference.topologies import *  # noqa: F403  # the names of the built-in patterns
    from coterie.patterns.rows.configs import AgentCapability as AgentCapability
    from coterie.patterns.rows.configs import AgentConfig as AgentConfig
    from coterie.patterns.rows.enums import AgentRole as AgentRole
    from coterie.patterns.rows.enums import AggregationMethod as AggregationMethod
    from coterie.patterns.rows.enums import ConsensusMethod as ConsensusMethod
    from coterie.patterns.rows.enums import ExecutionStatus as ExecutionStatus
    from coterie.patterns.rows.enums import MessageType as MessageType
    from coterie.patterns.rows.models import AgentInstance as AgentInstance
    from coterie.patterns.rows.models import AgentType as AgentType
    from coterie.patterns.rows.models import Execution as Execution
    from coterie.patterns.rows.models import Message as Message
    from coterie.patterns.rows.models import Result as Result
    from coterie.patterns.rows.models import Topology as Topology
    from coterie.patterns.rows.models import TopologyMembership as TopologyMembership
    from coterie.patterns.rows.projection import Projection as Projection
    from coterie.patterns.rows.projection import project as project
    from coterie.patterns.rows.schemas import AgentTypeCreate as AgentTypeCreate
    from coterie.patterns.rows.schemas import AgentTypeRead as AgentTypeRead
    from coterie.patterns.rows.schemas import AgentTypeUpdate as AgentTypeUpdate
    from coterie.patterns.rows.schemas import ExecutionCreate as ExecutionCreate
    from coterie.patterns.rows.schemas import ExecutionRead as ExecutionRead
    from coterie.patterns.rows.schemas import MessageCreate as MessageCreate
    from coterie.patterns.rows.schemas import MessageRead as MessageRead
    from coterie.patterns.rows.schemas import TopologyCreate as TopologyCreate
    from coterie.patterns.rows.schemas import TopologyRead as TopologyRead
    from coterie.patterns.rows.schemas import TopologyUpdate as TopologyUpdate
    from coterie.patterns.rows.tables import upgrade as upgrade
    from coterie.team.formats.yaml.writer import to_yaml as to_yaml


_EXPORTS = {
    "coterie.history.engines.questions": "AgentFailed PatternFailed Question Tell Together",
    "coterie.history.engines.patterns.registry": "Calls Team pattern",
    "coterie.errors": "CallFailed CollaborationFailed PatternRefused",
    "coterie.team.formats.yaml.writer": "to_yaml",
    "coterie.patterns.constructors": "agent collaboration",
    "coterie.patterns.reference.base": "BaseTopology",
    "coterie.patterns.reference.calls": "current_call",
    "coterie.patterns.reference.invocation": "AgentInvocationResult ExecutionContext",
    "coterie.patterns.reference.mixins.approval": "HumanInLoopMixin",
    "coterie.patterns.reference.mixins.base": "BaseMixin ReplyRefused Vetoed",
    "coterie.patterns.reference.mixins.memory": "MemoryMixin",
    "coterie.patterns.reference.mixins.registry": "MixinRegistry mixin",
    "coterie.patterns.reference.mixins.reasoning": "ReasoningMixin",
    "coterie.patterns.reference.mixins.structured": "StructuredOutputMixin",
    "coterie.patterns.reference.mixins.tools": "ToolUseMixin",
    "coterie.patterns.reference.registry": "TopologyRegistry topology",
    "coterie.patterns.rows.configs": "AgentCapability AgentConfig",
    "coterie.patterns.rows.enums": "AgentRole AggregationMethod ConsensusMethod ExecutionStatus MessageType",
    "coterie.patterns.rows.tables": "upgrade",
    "coterie.team.topology.patterns.names": "TopologyType",
    "coterie.patterns.rows.models": "AgentInstance AgentType Execution Message Result Topology TopologyMembership",
    "coterie.patterns.rows.projection": "Projection project",
    "coterie.patterns.rows.schemas": (
        "AgentTypeCreate AgentTypeRead AgentTypeUpdate ExecutionCreate ExecutionRead MessageCreate MessageRead "
        "TopologyCreate TopologyRead TopologyUpdate"
    ),
}
for _type in TopologyType:
    _EXPORTS[f"coterie.patterns.builtin.{_type}"] = _type.name.lower()
_EXPORTS["coterie.patterns.reference.topologies"] = " ".join(
    f"{one.class_name}Config {one.class_name}Topology" for one in TopologyType
)
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}
_SQL = ("aiosqlite", "asyncpg", "greenlet", "pydantic", "sqlalchemy", "sqlmodel")

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'coterie.patterns' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in _SQL:
            raise
        from coterie.errors import ExtraMissing

        raise ExtraMissing("sql", missing.name, f"coterie.patterns.{name}") from None
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
