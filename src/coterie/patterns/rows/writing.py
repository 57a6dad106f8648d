"""Write rows to a database: in short transactions that begin with a write and contain nothing else."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Table, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlmodel import SQLModel

from coterie.errors import RowsFailed, UsageError
from coterie.patterns.rows import models
from coterie.patterns.rows.definitions import ExecutionDefinition, Values
from coterie.patterns.rows.engine import alone, failed, is_refusal, reason
from coterie.patterns.rows.fold import RowUpdate
from coterie.patterns.rows.kinds import utc_now

_WRITTEN: Mapping[str, type[SQLModel]] = {
    "executions": models.Execution,
    "agent_instances": models.AgentInstance,
    "messages": models.Message,
    "results": models.Result,
}
"""The written tables, each after those that it refers to."""
_INSERT: Mapping[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Writing:
    """Writes rows through *engine*, and any definitions they refer to that the database lacks.

    A definition is identified by its name; an existing one stays unchanged.

    Raises:
        UsageError: If the database is neither SQLite nor PostgreSQL.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        if engine.dialect.name not in _INSERT:
            raise UsageError(f"rows are kept in SQLite or PostgreSQL, not in {engine.dialect.name!r}")
        self._engine, self._insert = engine, _INSERT[engine.dialect.name]
        self._upserts = _upserts(engine.dialect.name)
        self._defined: list[ExecutionDefinition] = []
        self._topologies: dict[str, int] = {}
        self._agent_types: dict[str, int] = {}

    def define(self, definition: ExecutionDefinition) -> None:
        """Register *definition* for rows that refer to it."""
        if not self._knows(definition):
            self._defined.append(definition)

    async def write(self, rows: Sequence[RowUpdate]) -> list[tuple[RowUpdate, RowsFailed]]:
        """Write *rows*; return the ones that the database rejects permanently, each with the reason.

        All others are written.

        Raises:
            RowsFailed: If writing is not possible now; then any of them may be written, or none.
        """
        try:
            await self._transact(rows)
        except Exception as error:  # a driver raises what it likes
            if not is_refusal(error):
                raise failed(self._engine, error) from error
            if len(rows) == 1:
                return [(rows[0], _refused(self._engine, rows[0], error))]
            half = len(rows) // 2  # rows come after those that they refer to
            return [*await self.write(rows[:half]), *await self.write(rows[half:])]
        return []

    async def _transact(self, rows: Sequence[RowUpdate]) -> None:
        """Write *rows* and their definitions, all or none."""
        names = {row.values.get("topology") or row.values.get("agent_type") for row in rows}
        defined = [one for one in self._defined if names & {one.topology["name"], *_agent_names(one)}]
        topologies, agent_types = self._topologies, self._agent_types
        async with alone(self._engine), self._engine.begin() as connection:
            if defined:
                topologies, agent_types = await self._define(connection, defined)
            for name, upsert in self._upserts.items():
                if values := [_bound(row.values, topologies, agent_types) for row in rows if row.table == name]:
                    await connection.execute(upsert, values)
        self._topologies, self._agent_types = topologies, agent_types
        self._defined = [one for one in self._defined if one not in defined]  # more may have come meanwhile

    def _knows(self, definition: ExecutionDefinition) -> bool:
        return definition.topology["name"] in self._topologies and _agent_names(definition) <= self._agent_types.keys()

    async def _define(
        self, connection: AsyncConnection, defined: Sequence[ExecutionDefinition]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Save missing definitions; return the known ids of topologies and agent types."""
        agents = {agent["name"]: agent for one in defined for agent in one.agents.values()}
        topologies = {one.topology["name"]: one.topology for one in defined}
        known = {**self._agent_types, **await self._named(connection, _table(models.AgentType), agents)}
        teams = {**self._topologies, **await self._named(connection, _table(models.Topology), topologies)}
        members = [
            {
                "topology_id": teams[one.topology["name"]],
                "agent_type_id": known[agent["name"]],
                "slot_name": slot,
                "position": position,
                "config_overrides": {},
            }
            for one in defined
            if one.members
            for position, (slot, agent) in enumerate(one.agents.items())
        ]
        if members:
            table = _table(models.TopologyMembership)
            await connection.execute(self._unless_there(table, "topology_id", "slot_name"), members)
        return teams, known

    async def _named(self, connection: AsyncConnection, table: Table, wanted: Mapping[str, Values]) -> dict[str, int]:
        """The ids of the rows of *table* with these names, saved where they are missing."""
        if not wanted:
            return {}
        now = utc_now()
        rows = [{**wanted[name], "created_at": now, "updated_at": now} for name in sorted(wanted)]  # one order for all
        await connection.execute(self._unless_there(table, "name"), rows)
        found = await connection.execute(select(table.c.name, table.c.id).where(table.c.name.in_(list(wanted))))
        return {row.name: row.id for row in found}

    def _unless_there(self, table: Table, *columns: str) -> Any:
        return self._insert(table).on_conflict_do_nothing(index_elements=list(columns))


@cache
def _upserts(dialect: str) -> Mapping[str, Any]:
    """The upsert statement of each table; building one takes milliseconds."""
    found = {}
    for name, model in _WRITTEN.items():
        table = _table(model)
        insert = _INSERT[dialect](table)
        changed = {column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key}
        found[name] = insert.on_conflict_do_update(index_elements=["id"], set_=changed)
    return found


def _table(model: type[SQLModel]) -> Table:
    table = SQLModel.metadata.tables[str(model.__tablename__)]
    assert isinstance(table, Table)
    return table


def _bound(values: Values, topologies: Mapping[str, int], agent_types: Mapping[str, int]) -> Values:
    """*values* with the ids of the topology or agent type that they name."""
    bound = dict(values)
    if "topology" in bound:
        bound["topology_id"] = topologies[bound.pop("topology")]
    if "agent_type" in bound:
        bound["agent_type_id"] = agent_types[bound.pop("agent_type")]
    return bound


def _agent_names(definition: ExecutionDefinition) -> set[str]:
    return {agent["name"] for agent in definition.agents.values()}


def _refused(engine: AsyncEngine, row: RowUpdate, error: Exception) -> RowsFailed:
    place = engine.url.render_as_string(hide_password=True)
    of = f" of execution {row.values['execution_id']}" if "execution_id" in row.values else ""
    why = f"the database refuses row {row.id}{of} in {row.table}: {reason(error)}"
    return RowsFailed(place, why, "all rows that do not refer to it are written")
