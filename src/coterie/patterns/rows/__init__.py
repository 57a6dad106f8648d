"""Rows: the reference's SQL models, and the executions, messages and results of runs written as such.

`enums`, `configs`, `models` and `schemas` are the data model; `fold` tells a run's records as rows, `projection` writes
them behind the run, `migrations` makes the tables. All but the enums need the extra `sql`, and load when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coterie.patterns.extra import needing_sql
from coterie.patterns.rows.enums import (
    AgentRole,
    AggregationMethod,
    ConsensusMethod,
    ExecutionStatus,
    MessageType,
    TopologyType,
)

if TYPE_CHECKING:
    from coterie.patterns.rows.configs import (
        AgentCapability,
        AgentConfig,
        ChainOfCommandConfig,
        CompoundConfig,
        CrossCheckConfig,
        DebateConfig,
        DelegationConfig,
        EnsembleConfig,
        PipelineConfig,
    )
    from coterie.patterns.rows.models import (
        AgentInstance,
        AgentType,
        Execution,
        Message,
        Result,
        Topology,
        TopologyMembership,
    )
    from coterie.patterns.rows.schemas import (
        AgentTypeCreate,
        AgentTypeRead,
        AgentTypeUpdate,
        ExecutionCreate,
        ExecutionRead,
        MessageCreate,
        MessageRead,
        TopologyCreate,
        TopologyRead,
        TopologyUpdate,
    )

_PLACES = {
    "AgentCapability": "configs",
    "AgentConfig": "configs",
    "AgentInstance": "models",
    "AgentType": "models",
    "AgentTypeCreate": "schemas",
    "AgentTypeRead": "schemas",
    "AgentTypeUpdate": "schemas",
    "ChainOfCommandConfig": "configs",
    "CompoundConfig": "configs",
    "CrossCheckConfig": "configs",
    "DebateConfig": "configs",
    "DelegationConfig": "configs",
    "EnsembleConfig": "configs",
    "Execution": "models",
    "ExecutionCreate": "schemas",
    "ExecutionRead": "schemas",
    "Message": "models",
    "MessageCreate": "schemas",
    "MessageRead": "schemas",
    "PipelineConfig": "configs",
    "Result": "models",
    "Topology": "models",
    "TopologyCreate": "schemas",
    "TopologyMembership": "models",
    "TopologyRead": "schemas",
    "TopologyUpdate": "schemas",
}

__all__ = [
    "AgentCapability",
    "AgentConfig",
    "AgentInstance",
    "AgentRole",
    "AgentType",
    "AgentTypeCreate",
    "AgentTypeRead",
    "AgentTypeUpdate",
    "AggregationMethod",
    "ChainOfCommandConfig",
    "CompoundConfig",
    "ConsensusMethod",
    "CrossCheckConfig",
    "DebateConfig",
    "DelegationConfig",
    "EnsembleConfig",
    "Execution",
    "ExecutionCreate",
    "ExecutionRead",
    "ExecutionStatus",
    "Message",
    "MessageCreate",
    "MessageRead",
    "MessageType",
    "PipelineConfig",
    "Result",
    "Topology",
    "TopologyCreate",
    "TopologyMembership",
    "TopologyRead",
    "TopologyType",
    "TopologyUpdate",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie.patterns.rows' has no attribute {name!r}")
    with needing_sql(f"coterie.patterns.{name}"):
        module = import_module(f"coterie.patterns.rows.{_PLACES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
