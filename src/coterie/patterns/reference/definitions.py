"""The definitions of a topology object, in the caller's session: saved where they are missing, and read.

The session belongs to the caller: it is used before the run begins, committed once, and not used afterwards. No
transaction is open while an agent is called.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.orm.attributes import instance_state
from sqlmodel import col, select

from coterie.errors import PatternRefused
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.rows.engine import failed, probe
from coterie.patterns.rows.models import AgentType, Topology, TopologyMembership, unexpired

_locks: "WeakKeyDictionary[Any, asyncio.Lock]" = WeakKeyDictionary()


async def prepare(topology: Collaboration) -> None:
    """Save missing definitions of *topology*, by name, and read those of the database.

    Existing definitions stay: an agent of that name, a member in that slot. The overrides of members and the teams are
    read.

    Raises:
        PatternRefused: If the session is not asynchronous.
        RowsFailed: If the database cannot be used, or has no tables.
    """
    session = topology.db_session
    if session is None:
        _link(topology, ())
        return
    engine = engine_of(session)
    try:
        probe(engine)
        async with _locks.setdefault(session, asyncio.Lock()):  # a session can do one thing at a time
            await _save(session, topology)
            await _read(session, topology, ())
            await _commit(session)
    except (DBAPIError, OSError, sqlite3.Error) as error:
        raise failed(engine, error, "no agent was called") from error


def engine_of(session: Any) -> AsyncEngine:
    """The engine that *session* is bound to.

    Raises:
        PatternRefused: If the session is not asynchronous.
    """
    bind = getattr(session, "bind", None)
    if isinstance(bind, AsyncConnection):
        bind = bind.engine
    if not isinstance(bind, AsyncEngine):
        raise PatternRefused(
            f"the session must be an AsyncSession bound to an asynchronous engine, not {type(session).__name__} on "
            f"{type(bind).__name__}; give None to run without rows"
        )
    return bind


def _link(topology: Collaboration, path: tuple[str, ...]) -> None:
    """Find cycles among teams given as objects."""
    path = (*path, topology._defined.name)
    for name in topology._sub_names():
        team = topology.team(name)
        if team is not None and team._defined.name in path:
            topology._cycle = " -> ".join((*path, team._defined.name))
            del topology._sub_topologies[name]
        elif team is not None:
            _link(team, path)


async def _save(session: Any, topology: Collaboration) -> None:
    for agent in topology.agents.values():
        await _ensure(session, AgentType, agent)
    await _ensure(session, Topology, topology.topology)
    for team in topology._sub_topologies.values():
        if team._defined.id is None and team._defined.name != topology._defined.name:
            await _save(session, team)
    await _add(session, lambda: _missing_members(session, topology))


async def _missing_members(session: Any, topology: Collaboration) -> list[TopologyMembership]:
    id = topology._defined.id
    assert id is not None
    members = select(TopologyMembership.slot_name).where(TopologyMembership.topology_id == id)
    known = {slot for (slot,) in await _rows(session, members)}
    found = []
    for position, (slot, agent) in enumerate(topology.agents.items()):
        if slot not in known:
            type_id = unexpired(agent).id
            assert type_id is not None
            found.append(TopologyMembership(topology_id=id, agent_type_id=type_id, slot_name=slot, position=position))
    return found


async def _ensure(session: Any, kind: type[AgentType] | type[Topology], one: AgentType | Topology) -> None:
    """Set the id of *one* to that of its name in the database; save it if the name is new."""

    async def missing() -> list[AgentType | Topology]:
        found = await _rows(session, select(kind.id).where(col(kind.name) == one.name))
        if found and one not in session:
            one.id = found[0][0]
        return [] if found else [one]

    if unexpired(one).id is None:
        await _add(session, missing)


async def _add(session: Any, find: Callable[[], Awaitable[Sequence[Any]]]) -> None:
    """Add the rows that *find* reports missing; rows that another session adds concurrently are then present."""
    missing = await find()
    while missing:
        try:
            async with session.begin_nested():
                session.add_all(missing)
            return
        except IntegrityError:
            before, missing = missing, await find()
            if len(missing) == len(before):
                raise


async def _read(session: Any, topology: Collaboration, path: tuple[str, ...]) -> None:
    """Read the overrides and the order of members, the teams, and what the session has expired."""
    for row in (topology.topology, *topology.agents.values()):
        if row in session and instance_state(row).expired_attributes:
            await session.refresh(row)
            topology._config = topology._parse_config()
    members = await _members(session, topology._defined)
    topology._overrides = {
        member.slot_name: dict(member.config_overrides)
        for member, agent in members
        if member.config_overrides and member.slot_name in topology.agents
    }
    path = (*path, topology._defined.name)
    for name in topology._sub_names():
        team = topology.team(name)
        if name in path or (team is not None and team._defined.name in path):
            topology._cycle = " -> ".join((*path, name))
            topology._sub_topologies.pop(name, None)
            continue
        if team is None:
            team = await _load(session, topology, name)
        if team is not None:
            topology._sub_topologies[name] = team
            await _read(session, team, path)
            if team._cycle:
                topology._cycle = team._cycle


async def _load(session: Any, above: Collaboration, name: str) -> Collaboration | None:
    """The topology *name* with its members in order, as a team of *above*; None if the database has none."""
    found = await _rows(session, select(Topology).where(col(Topology.name) == name.lower()))
    if not found:
        return None
    topology = _copied(found[0][0])
    agents = {member.slot_name: _copied(agent) for member, agent in await _members(session, topology)}
    return above._make_team(topology, agents)


async def _members(session: Any, topology: Topology) -> list[tuple[TopologyMembership, AgentType]]:
    wanted = (
        select(TopologyMembership, AgentType)
        .join(AgentType)
        .where(TopologyMembership.topology_id == topology.id)
        .order_by(col(TopologyMembership.position), col(TopologyMembership.id))
    )
    return [(member, agent) for member, agent in await _rows(session, wanted)]


def _copied(row: Any) -> Any:
    """A copy of *row* that does not change with the session's object."""
    return type(row)(**row.model_dump())


async def _rows(session: Any, wanted: Any) -> list[Any]:
    assert isinstance(wanted, Select)
    return list((await session.execute(wanted)).all())


async def _commit(session: Any) -> None:
    """Commit, and keep the caller's objects loaded, because reloading them needs their session."""
    inner = session.sync_session
    expires, inner.expire_on_commit = inner.expire_on_commit, False
    try:
        await session.commit()
    finally:
        inner.expire_on_commit = expires
