"""The reference's tables: definitions (agent types, topologies, memberships), and what happened in executions.

Rows are validated on construction, which SQLModel omits for tables, so wrong values are found early. Rows from a
database are not validated. AgentInstance, Execution, Message and Result are written by
`coterie.patterns.rows.projection`, from the journal, which is the truth.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, TypeVar
from uuid import UUID, uuid4

from pydantic import ValidationError, model_validator
from sqlalchemy import JSON, UniqueConstraint, event
from sqlalchemy.orm.attributes import instance_state
from sqlmodel import Field, SQLModel

from coterie.patterns.rows.configs import AgentCapability, AgentConfig, AgentConfigObject, agent_config, typed_config
from coterie.patterns.rows.enums import AgentRole, ExecutionStatus, MessageType
from coterie.patterns.rows.kinds import Description, Name, Object, Utc, UtcDateTime, as_utc, refused, stored, utc_now
from coterie.team.topology.patterns.names import TopologyType

_LAST = "coterie_last"
"""Where the state of a definition keeps the values that the database had last."""


class Row(SQLModel):
    """The base of all tables: validates on construction, rejects unknown fields.

    Raises:
        PatternRefused: A `ValueError` that lists all faults by field; pydantic's error is its cause.
    """

    model_config = {"extra": "forbid"}

    def __init__(self, **data: Any) -> None:
        cls = type(self)
        checked = cls.__new__(cls)  # SQLAlchemy never sees this one
        try:
            cls.__pydantic_validator__.validate_python(data, self_instance=checked)
        except ValidationError as error:
            raise refused(f"this {cls.__name__}", error, cls.model_fields) from error
        super().__init__(**{name: checked.__dict__[name] for name in checked.model_fields_set})

    @classmethod
    def model_validate(cls, obj: Any, *, update: dict[str, Any] | None = None, **_: Any) -> Self:
        """A row with the fields of *obj*, a mapping or anything with attributes, and those of *update* over them."""
        given = obj if isinstance(obj, Mapping) else {n: getattr(obj, n) for n in cls.model_fields if hasattr(obj, n)}
        return cls(**{**given, **(update or {})})


class AgentType(Row, table=True):
    """An agent as its user defines it, with a unique name.

    Args:
        config: The fields of `AgentConfig` that differ from the defaults.
    """

    __tablename__ = "agent_types"

    id: int | None = Field(default=None, primary_key=True)
    name: Name = Field(max_length=64, unique=True, index=True)
    description: Description = Field(max_length=1024)
    role: AgentRole = Field(sa_type=stored(AgentRole))
    version: str = "1.0.0"
    config: AgentConfigObject = Field(default_factory=dict, sa_type=JSON)
    created_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime)
    updated_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime, sa_column_kwargs={"onupdate": utc_now})

    def get_typed_config(self) -> AgentConfig:
        """Its whole configuration, with defaults.

        Raises:
            PatternRefused: If it was changed to something invalid.
        """
        return agent_config(self.config, f"the configuration of {self.name!r}")

    def get_capabilities(self) -> list[AgentCapability]:
        """Its capabilities in configured order, including disabled ones."""
        return self.get_typed_config().capabilities

    def has_capability(self, name: str) -> bool:
        """Whether its configuration names the capability *name*."""
        return any(capability.name == name for capability in self.get_capabilities())


class Topology(Row, table=True):
    """A team as its user defines it; its members are in `TopologyMembership`.

    Args:
        config: The fields of its type's configuration that differ from the defaults.
    """

    __tablename__ = "topologies"

    id: int | None = Field(default=None, primary_key=True)
    name: Name = Field(max_length=64, unique=True, index=True)
    description: Description = Field(max_length=1024)
    topology_type: TopologyType = Field(sa_type=stored(TopologyType))
    version: str = "1.0.0"
    config: Object = Field(default_factory=dict, sa_type=JSON)
    created_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime)
    updated_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime, sa_column_kwargs={"onupdate": utc_now})

    @model_validator(mode="after")
    def _fits(self) -> Self:
        typed_config(self.topology_type, self.config)
        return self

    def get_typed_config(self) -> SQLModel:
        """Its whole configuration, as the class of its type: a `DebateConfig`, …

        Raises:
            PatternRefused: If it was changed to something that does not fit.
        """
        return typed_config(self.topology_type, self.config)


class TopologyMembership(Row, table=True):
    """The agent at a slot of a topology, and its overrides there."""

    __tablename__ = "topology_memberships"
    __table_args__ = (UniqueConstraint("topology_id", "slot_name"),)

    id: int | None = Field(default=None, primary_key=True)
    topology_id: int = Field(foreign_key="topologies.id")
    agent_type_id: int = Field(foreign_key="agent_types.id")
    slot_name: str = Field(min_length=1)
    position: int = 0
    config_overrides: AgentConfigObject = Field(default_factory=dict, sa_type=JSON)


D = TypeVar("D", bound=AgentType | Topology)


def unexpired(definition: D) -> D:
    """*definition*, or a copy with its last known values if its session has expired it.

    A commit expires the rows of a session. Outside of its session, and outside of `await` if the session is
    asynchronous, an expired row cannot be read.
    """
    state = instance_state(definition)
    if not state.expired_attributes:
        return definition
    return type(definition)(**{**state.info.get(_LAST, {}), **_loaded(definition)})


def _keep(definition: AgentType | Topology) -> None:
    info = instance_state(definition).info
    info[_LAST] = {**info.get(_LAST, {}), **_loaded(definition)}


def _loaded(definition: AgentType | Topology) -> dict[str, Any]:
    return {name: vars(definition)[name] for name in type(definition).model_fields if name in vars(definition)}


for _definition in (AgentType, Topology):
    for _read in ("load", "refresh"):
        event.listen(_definition, _read, lambda row, *_: _keep(row), propagate=True)
    for _written in ("after_insert", "after_update"):
        event.listen(_definition, _written, lambda _mapper, _connection, row: _keep(row), propagate=True)


class Execution(Row, table=True):
    """One run of a topology."""

    __tablename__ = "executions"

    id: UUID = Field(default_factory=uuid4, primary_key=True)
    topology_id: int = Field(foreign_key="topologies.id")
    status: ExecutionStatus = Field(default=ExecutionStatus.PENDING, sa_type=stored(ExecutionStatus))
    input_data: Object = Field(default_factory=dict, sa_type=JSON)
    output_data: Object | None = Field(default=None, sa_type=JSON(none_as_null=True))
    correlation_id: str | None = Field(default=None, index=True)
    metadata_: Object = Field(default_factory=dict, sa_type=JSON, sa_column_kwargs={"name": "metadata"})
    started_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime)
    completed_at: Utc | None = Field(default=None, sa_type=UtcDateTime)
    error: str | None = None
    error_details: Object | None = Field(default=None, sa_type=JSON(none_as_null=True))

    @property
    def duration_ms(self) -> int | None:
        """Its duration in milliseconds; None while it is running."""
        return None if self.completed_at is None else _milliseconds(self.started_at, self.completed_at)

    def mark_complete(self, output: dict[str, Any]) -> None:
        """Mark it completed, with *output*."""
        self.output_data = output
        self._over(ExecutionStatus.COMPLETED)

    def mark_failed(self, error: str, details: dict[str, Any] | None = None) -> None:
        """Mark it failed, with *error* as the reason."""
        self.error, self.error_details = error, details
        self._over(ExecutionStatus.FAILED)

    def mark_cancelled(self, reason: str = "cancelled") -> None:
        """Mark it cancelled."""
        self.error = reason
        self._over(ExecutionStatus.CANCELLED)

    def _over(self, status: ExecutionStatus) -> None:
        self.status, self.completed_at = status, utc_now()


class AgentInstance(Row, table=True):
    """An agent at work in one slot of one execution."""

    __tablename__ = "agent_instances"

    id: UUID = Field(default_factory=uuid4, primary_key=True)
    agent_type_id: int = Field(foreign_key="agent_types.id")
    execution_id: UUID | None = Field(default=None, foreign_key="executions.id", index=True)
    state: Object = Field(default_factory=dict, sa_type=JSON)
    metadata_: Object = Field(default_factory=dict, sa_type=JSON, sa_column_kwargs={"name": "metadata"})
    created_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime)
    last_active: Utc | None = Field(default=None, sa_type=UtcDateTime)

    def update_state(self, updates: dict[str, Any]) -> None:
        """Merge *updates* into its state."""
        self.state = {**self.state, **updates}
        self.last_active = utc_now()


class Message(Row, table=True):
    """A message from one agent to another in an execution; without a recipient, to all.

    Attributes:
        sequence_number: From 1 within an execution, without gaps.
    """

    __tablename__ = "messages"

    id: UUID = Field(default_factory=uuid4, primary_key=True)
    execution_id: UUID = Field(foreign_key="executions.id", index=True)
    sender_id: UUID = Field(foreign_key="agent_instances.id")
    recipient_id: UUID | None = Field(default=None, foreign_key="agent_instances.id")
    message_type: MessageType = Field(sa_type=stored(MessageType))
    content: Object = Field(sa_type=JSON)
    round_number: int = 0
    sequence_number: int = 0
    created_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime)


class Result(Row, table=True):
    """The result of one call to an agent; start and end are equal if only the end is known."""

    __tablename__ = "results"

    id: UUID = Field(default_factory=uuid4, primary_key=True)
    execution_id: UUID = Field(foreign_key="executions.id", index=True)
    agent_instance_id: UUID = Field(foreign_key="agent_instances.id")
    output: Object = Field(sa_type=JSON)
    confidence: float | None = Field(default=None, ge=0, le=1)
    reasoning: str | None = None
    token_usage: dict[str, int] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    started_at: Utc = Field(default_factory=utc_now, sa_type=UtcDateTime)
    completed_at: Utc | None = Field(default=None, sa_type=UtcDateTime)

    @model_validator(mode="before")
    @classmethod
    def _begins(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("completed_at") is not None and data.get("started_at") is None:
            return {**data, "started_at": data["completed_at"]}
        return data

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.completed_at is not None and self.completed_at < self.started_at:
            raise ValueError(f"it ended ({self.completed_at}) before it began ({self.started_at})")
        return self


def _milliseconds(began: datetime, ended: datetime) -> int:
    return int((as_utc(ended) - as_utc(began)).total_seconds() * 1000)
