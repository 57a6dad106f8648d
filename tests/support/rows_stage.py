"""Runs of patterns, and their rows as plain values that can be compared."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import URL, select
from sqlmodel import SQLModel

from coterie.agents.backends.base import NO_ABILITIES, Abilities, Answer, AttemptRef, OnEvent, Request, Result, Unknown
from coterie.base.clock import SystemClock
from coterie.execution.kernel.owner import Observers, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import Observe, kind_of
from coterie.history.journal.base import Store
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptLaunched
from coterie.patterns.rows import models
from coterie.patterns.rows.engine import READS, open_engine
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.patterns.kinds import KINDS, read_config

Says = Callable[[Request], Awaitable[Result]]

WRITTEN = ("executions", "agent_instances", "messages", "results")


async def as_rehearsed(request: Request) -> Result:
    """Says `<slot> <attempt>`."""
    await asyncio.sleep(0)
    return Answer(text=f"{request.turn} says so")


def team(type: str, *slots: str, name: str = "", config: Mapping[str, Any] | None = None, **teams: Plan) -> Plan:
    """A pattern; a slot that is named in *teams* is that team."""
    read, faults = read_config(KINDS[type].config, config or {})
    assert read is not None, faults
    agents = {slot: AgentPlan(name=slot, prompt=f"You are {slot}.", backend="scripted") for slot in slots}
    agents |= {slot: AgentPlan(name=slot, kind="topology", child=child) for slot, child in teams.items()}
    pattern = PatternPlan(
        type=type, config=msgspec.to_builtins(read), slots=tuple(SlotPlan(name=slot) for slot in agents)
    )
    return Plan(name=name or type, agents=agents, coordination=pattern)


def debate(name: str = "debate", rounds: int = 2) -> Plan:
    """A debate to the end."""
    config = {"max_rounds": rounds, "allow_early_termination": False}
    return team("debate", "proponent", "opponent", "mediator", name=name, config=config)


async def play(
    plan: Plan,
    given: Mapping[str, Any],
    *,
    run: str = "r",
    says: Says = as_rehearsed,
    store: Store | None = None,
    observe: Observe | None = None,
    again: bool = False,
) -> RunExit:
    """Start *run*, or take it over *again*, with agents that say what *says* says."""
    shell = Shell(
        RunPorts(store=store or MemoryStore(), turns=_Troupe(says), clock=SystemClock(), make_kind=kind_of),
        observers=Observers(observe=[observe] if observe is not None else []),
    )
    return await (shell.resume(run, plan) if again else shell.start(run, plan, dict(given)))


class _Troupe:
    def __init__(self, says: Says) -> None:
        self._says = says

    async def start(self, request: Request, on_event: OnEvent) -> "_Part":
        return _Part(self._says(request))

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """Nothing was launched."""

    async def close(self) -> None:
        """Nothing to close."""


class _Part:
    def __init__(self, answer: Awaitable[Result]) -> None:
        self._answer = answer

    async def result(self) -> Result:
        return await self._answer

    async def interrupt(self) -> None:
        """`result` is cancelled by whoever waits for it."""

    async def steer(self, text: str) -> bool:
        return False


async def contents(place: str | URL, *tables: str) -> dict[str, dict[Any, dict[str, Any]]]:
    """The rows of *tables*, or of all that are written, by id; what they refer to by a number is its name."""
    engine = open_engine(place)
    try:
        async with engine.connect() as connection:
            await connection.execution_options(**{READS: True})
            names: dict[str, dict[int, str]] = {}
            for model in (models.Topology, models.AgentType):
                table = SQLModel.metadata.tables[model.__tablename__]
                names[table.name] = dict(
                    tuple(row) for row in await connection.execute(select(table.c.id, table.c.name))
                )
            found = {}
            for name in tables or WRITTEN:
                rows = await connection.execute(select(SQLModel.metadata.tables[name]))
                found[name] = {row["id"]: _named(dict(row), names) for row in rows.mappings()}
            return found
    finally:
        await engine.dispose()


def _named(row: dict[str, Any], names: Mapping[str, Mapping[int, str]]) -> dict[str, Any]:
    if "topology_id" in row:
        row["topology_id"] = names["topologies"][row["topology_id"]]
    if "agent_type_id" in row:
        row["agent_type_id"] = names["agent_types"][row["agent_type_id"]]
    return row
