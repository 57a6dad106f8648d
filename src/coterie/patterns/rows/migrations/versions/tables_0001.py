"""The tables of the reference: definitions, and what happened in executions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TIME = sa.DateTime(timezone=True)
_WORD = sa.String(32)


def upgrade() -> None:
    """Make them, where they are not there yet."""
    for table in ("agent_types", "topologies"):
        kind = sa.Column("role" if table == "agent_types" else "topology_type", _WORD, nullable=False)
        op.create_table(
            table,
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("name", sa.String(64), nullable=False),
            sa.Column("description", sa.String(1024), nullable=False),
            kind,
            sa.Column("version", sa.String, nullable=False),
            sa.Column("config", sa.JSON, nullable=False),
            sa.Column("created_at", _TIME, nullable=False),
            sa.Column("updated_at", _TIME, nullable=False),
            if_not_exists=True,
        )
        op.create_index(f"ix_{table}_name", table, ["name"], unique=True, if_not_exists=True)
    op.create_table(
        "topology_memberships",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("topology_id", sa.Integer, sa.ForeignKey("topologies.id"), nullable=False),
        sa.Column("agent_type_id", sa.Integer, sa.ForeignKey("agent_types.id"), nullable=False),
        sa.Column("slot_name", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("config_overrides", sa.JSON, nullable=False),
        sa.UniqueConstraint("topology_id", "slot_name"),
        if_not_exists=True,
    )
    op.create_table(
        "executions",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("topology_id", sa.Integer, sa.ForeignKey("topologies.id"), nullable=False),
        sa.Column("status", _WORD, nullable=False),
        sa.Column("input_data", sa.JSON, nullable=False),
        sa.Column("output_data", sa.JSON),
        sa.Column("correlation_id", sa.String),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("completed_at", _TIME),
        sa.Column("error", sa.String),
        sa.Column("error_details", sa.JSON),
        if_not_exists=True,
    )
    op.create_index("ix_executions_correlation_id", "executions", ["correlation_id"], if_not_exists=True)
    op.create_table(
        "agent_instances",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("agent_type_id", sa.Integer, sa.ForeignKey("agent_types.id"), nullable=False),
        sa.Column("execution_id", sa.Uuid, sa.ForeignKey("executions.id")),
        sa.Column("state", sa.JSON, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("last_active", _TIME),
        if_not_exists=True,
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("execution_id", sa.Uuid, sa.ForeignKey("executions.id"), nullable=False),
        sa.Column("sender_id", sa.Uuid, sa.ForeignKey("agent_instances.id"), nullable=False),
        sa.Column("recipient_id", sa.Uuid, sa.ForeignKey("agent_instances.id")),
        sa.Column("message_type", _WORD, nullable=False),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("round_number", sa.Integer, nullable=False),
        sa.Column("sequence_number", sa.Integer, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "results",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("execution_id", sa.Uuid, sa.ForeignKey("executions.id"), nullable=False),
        sa.Column("agent_instance_id", sa.Uuid, sa.ForeignKey("agent_instances.id"), nullable=False),
        sa.Column("output", sa.JSON, nullable=False),
        sa.Column("confidence", sa.Float),
        sa.Column("reasoning", sa.String),
        sa.Column("token_usage", sa.JSON),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("completed_at", _TIME),
        if_not_exists=True,
    )
    for table in ("agent_instances", "messages", "results"):
        op.create_index(f"ix_{table}_execution_id", table, ["execution_id"], if_not_exists=True)
