"""Schemas for creating, updating and reading rows, for example over HTTP."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import model_validator
from sqlmodel import Field, SQLModel

from coterie.patterns.rows.configs import AgentConfigObject, typed_config
from coterie.patterns.rows.enums import AgentRole, ExecutionStatus, MessageType
from coterie.patterns.rows.kinds import Description, Name, Object
from coterie.team.topology.patterns.names import TopologyType


class _Given(SQLModel):
    model_config = {"extra": "forbid"}


class AgentTypeCreate(_Given):
    """A new agent type."""

    name: Name
    description: Description
    role: AgentRole
    config: AgentConfigObject = Field(default_factory=dict)


class AgentTypeUpdate(_Given):
    """Changes of an agent type; None keeps a value."""

    description: Description | None = None
    role: AgentRole | None = None
    version: str | None = None
    config: AgentConfigObject | None = None


class AgentTypeRead(SQLModel):
    """An agent type for reading."""

    id: int
    name: str
    description: str
    role: AgentRole
    version: str
    config: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class TopologyCreate(_Given):
    """A new topology, and the names of its agent types."""

    name: Name
    description: Description
    topology_type: TopologyType
    config: Object = Field(default_factory=dict)
    agent_names: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fits(self) -> "TopologyCreate":
        typed_config(self.topology_type, self.config)
        return self


class TopologyUpdate(_Given):
    """Changes of a topology; None keeps a value. Its type decides whether *config* fits."""

    description: Description | None = None
    config: Object | None = None
    version: str | None = None


class TopologyRead(SQLModel):
    """A topology for reading."""

    id: int
    name: str
    description: str
    topology_type: TopologyType
    version: str
    config: dict[str, Any]
    created_at: datetime


class ExecutionCreate(_Given):
    """The input of a new execution of the topology *topology_name*."""

    topology_name: str
    input_data: Object
    metadata_: Object | None = None


class ExecutionRead(SQLModel):
    """An execution for reading."""

    id: UUID
    topology_id: int
    status: ExecutionStatus
    input_data: dict[str, Any]
    output_data: dict[str, Any] | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None
    error: str | None


class MessageCreate(_Given):
    """A new message from one instance to another, or to all."""

    execution_id: UUID
    sender_id: UUID
    recipient_id: UUID | None = None
    message_type: MessageType
    content: Object
    round_number: int = 0


class MessageRead(SQLModel):
    """A message for reading."""

    id: UUID
    execution_id: UUID
    sender_id: UUID
    recipient_id: UUID | None
    message_type: MessageType
    content: dict[str, Any]
    round_number: int
    sequence_number: int
    created_at: datetime
