"""The script that Alembic runs to migrate; `coterie.patterns.rows.migrations` calls it with a connection."""

from alembic import context
from sqlmodel import SQLModel

from coterie.patterns.rows.migrations import VERSIONS

context.configure(
    connection=context.config.attributes["connection"], target_metadata=SQLModel.metadata, version_table=VERSIONS
)
with context.begin_transaction():
    context.run_migrations()
