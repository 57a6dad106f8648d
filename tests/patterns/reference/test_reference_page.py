"""The usage examples of the reference's page, word for word but for their import lines, with a scripted model."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlmodel import SQLModel, select

from coterie.patterns import BaseTopology, Execution, Message, Result, Topology, TopologyMembership, current_call

DEBATE = """
# Create agents
proponent = AgentType(
    name="optimist",
    description="Argues positive perspective",
    role=AgentRole.CRITIC,
    config={"system_prompt": "You argue optimistically..."}
)

opponent = AgentType(
    name="skeptic", 
    description="Argues skeptical perspective",
    role=AgentRole.CRITIC,
    config={"system_prompt": "You are skeptical..."}
)

mediator = AgentType(
    name="judge",
    description="Synthesizes debate",
    role=AgentRole.SYNTHESIZER,
    config={"system_prompt": "You are a fair judge..."}
)

# Create topology
topology = Topology(
    name="tech_debate",
    description="Debate on technology topics",
    topology_type=TopologyType.DEBATE,
    config=DebateConfig(max_rounds=3).model_dump()
)

# Execute
agents = {
    "proponent": proponent,
    "opponent": opponent,
    "mediator": mediator,
}

debate = TopologyRegistry.create(topology, agents, session)
result = await debate.execute({
    "topic": "AI will benefit humanity",
    "question": "Will AI ultimately benefit or harm humanity?",
})
"""  # noqa: W291 - as on the page

COMPOUND = """
# Create reviewed ensemble: ensemble -> cross-check
compound = Topology(
    name="reviewed_ensemble",
    description="Ensemble with review stage",
    topology_type=TopologyType.COMPOUND,
    config=CompoundConfig(
        sub_topologies=["research_ensemble", "fact_check"],
        composition_type="sequential",
    ).model_dump()
)
"""

IMPORTS = """
from coterie.patterns import (
    AgentRole, AgentType, CompoundConfig, CrossCheckConfig, DebateConfig, EnsembleConfig, Topology, TopologyRegistry,
    TopologyType,
)
"""

STORED = """
def an(name):
    return AgentType(name=name, description=name, role=AgentRole.SPECIALIST)

for name, kind, config, slots in (
    ("research_ensemble", TopologyType.ENSEMBLE, EnsembleConfig(), ["ensemble_0", "ensemble_1", "aggregator"]),
    ("fact_check", TopologyType.CROSS_CHECK, CrossCheckConfig(), ["primary", "checker_0", "checker_1"]),
):
    stored = Topology(name=name, description=name, topology_type=kind, config=config.model_dump())
    session.add(stored)
    types = [an(f"{name}_{slot}") for slot in slots]
    session.add_all(types)
    await session.flush()
    for position, (slot, one) in enumerate(zip(slots, types)):
        session.add(TopologyMembership(topology_id=stored.id, agent_type_id=one.id, slot_name=slot, position=position))
await session.commit()
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples name no state directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the scripted model was asked, by slot."""
    found: list[tuple[str, dict[str, Any]]] = []

    async def answer(self: BaseTopology, request: dict[str, Any]) -> dict[str, Any]:
        slot = current_call().slot
        found.append((slot, request))
        if slot.startswith("checker"):
            return {"content": '{"approved": true, "confidence": 0.9, "issues": [], "feedback": "sound"}'}
        return {
            "content": f"SUMMARY: {slot} spoke.\nEVALUATION: fine.\nCONCLUSION: benefit",
            "usage": {"input_tokens": 9},
        }

    monkeypatch.setattr(BaseTopology, "_call_llm", answer)
    return found


async def run(source: str, session: AsyncSession) -> dict[str, Any]:
    """Run *source*, which awaits at its top level, and return its names."""
    names: dict[str, Any] = {"session": session, "TopologyMembership": TopologyMembership}
    body = "\n".join(f"    {line}" for line in (IMPORTS + source).splitlines())
    exec(f"async def example():\n{body}\n    return locals()", names)
    return dict(await names["example"]())


def played(source: str, look: Any) -> None:
    """Run *source* with a session on a new database, then `look(session, names)`."""

    async def main() -> None:
        engine: AsyncEngine = create_async_engine("sqlite+aiosqlite:///rows.sqlite")
        async with engine.begin() as connection:
            await connection.run_sync(SQLModel.metadata.create_all)
        try:
            async with AsyncSession(engine) as session:
                await look(session, await run(source, session))
        finally:
            await engine.dispose()

    asyncio.run(main())


def test_the_debate_of_the_page(asked: list[tuple[str, dict[str, Any]]]) -> None:
    """It completes, with what a debate gives, its system prompts, and its rows."""

    async def look(session: AsyncSession, names: dict[str, Any]) -> None:
        result = names["result"]
        assert result.status.value == "completed"
        assert result.output_data["question"] == "Will AI ultimately benefit or harm humanity?"
        assert result.output_data["rounds"] == 3
        assert result.output_data["conclusion"] == "benefit"
        assert [slot for slot, _ in asked] == ["proponent", "opponent"] * 3 + ["mediator"]
        assert asked[0][1]["messages"][0] == {"role": "system", "content": "You argue optimistically..."}
        [row] = (await session.execute(select(Execution))).scalars().all()
        assert (row.id, row.output_data, row.topology_id) == (result.id, result.output_data, names["topology"].id)
        assert len((await session.execute(select(Result))).all()) == 7
        messages = (await session.execute(select(Message).order_by(Message.sequence_number))).scalars().all()  # type: ignore[arg-type]
        assert [one.sequence_number for one in messages] == list(range(1, 13))

    played(DEBATE, look)


def test_the_compound_of_the_page_asks_teams_of_the_database(asked: list[tuple[str, dict[str, Any]]]) -> None:
    """By their names; each is an execution of its own, and the second checks the answer that the first gave."""
    source = (
        STORED
        + COMPOUND
        + 'result = await TopologyRegistry.create(compound, {}, session).execute({"prompt": "Why?"})\n'
    )

    async def look(session: AsyncSession, names: dict[str, Any]) -> None:
        result = names["result"]
        assert [one["name"] for one in result.output_data["sub_results"]] == ["research_ensemble", "fact_check"]
        assert result.output_data["final_output"]["final_approved"] is True
        assert [slot for slot, _ in asked] == [
            "ensemble_0",
            "ensemble_1",
            "aggregator",
            "checker_0",
            "checker_1",
        ]
        for shown in ("aggregator spoke", "Why?"):
            assert shown in asked[3][1]["messages"][-1]["content"]
        rows = (await session.execute(select(Execution, Topology.name).join(Topology))).all()
        assert sorted(name for _, name in rows) == ["fact_check", "research_ensemble", "reviewed_ensemble"]
        assert {one.status.value for one, _ in rows} == {"completed"}
        assert sorted(one.metadata_.get("parent", "") for one, _ in rows) == ["", *[str(result.id)] * 2]

    played(source, look)


def test_the_session_is_left_alone_while_agents_are_asked(
    asked: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction is open then: somebody else can write to the same file at once."""
    before = BaseTopology._call_llm
    wrote: list[int] = []

    def write() -> None:
        with closing(sqlite3.connect("rows.sqlite", timeout=60.0)) as other, other:
            other.execute("CREATE TABLE IF NOT EXISTS other (n int)")
            other.execute("INSERT INTO other VALUES (1)")
        wrote.append(1)

    async def writing(self: BaseTopology, request: dict[str, Any]) -> dict[str, Any]:
        assert not self.db_session.in_transaction()
        await asyncio.to_thread(write)
        return await before(self, request)

    monkeypatch.setattr(BaseTopology, "_call_llm", writing)

    async def look(session: AsyncSession, names: dict[str, Any]) -> None:
        assert names["topology"].name == "tech_debate"  # loaded still, though the session was committed
        assert len(wrote) == 7

    played(DEBATE, look)
