"""What a topology object is made from: refused where it is wrong, saved and read where there is a session."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from elsewhere import NOT_SIMULATED
from reference_play import agent, play, team
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlmodel import SQLModel, select

from coterie.errors import CollaborationFailed, CoterieError, PatternRefused, RowsFailed
from coterie.patterns import (
    AgentType,
    BaseTopology,
    CompoundTopology,
    DebateConfig,
    DebateTopology,
    DelegationTopology,
    EnsembleTopology,
    Execution,
    ExecutionContext,
    Message,
    MessageType,
    Topology,
    TopologyMembership,
    TopologyRegistry,
    TopologyType,
    current_call,
    topology,
)
from coterie.patterns.reference.pattern_topology import PatternTopology

Asked = list[tuple[str, dict[str, Any]]]


def counting(asked: Asked) -> Any:
    """A model that notes what it is asked."""

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        asked.append((current_call().slot, request))
        return {"content": "fine"}

    return model


# -- refusals


@bundle(
    ("kind", "slots", "given", "config", "why"),
    [
        ("debate", ["proponent", "opponent"], {"question": "?"}, {}, "Debate requires 'mediator' slot"),
        ("chain", ["worker"], {"task": "?"}, {}, "No agent assigned to top level: commander"),
        ("ensemble", ["aggregator"], {"prompt": "?"}, {}, "Ensemble requires at least one ensemble agent"),
        ("ensemble", ["ensemble_0", "stranger"], {"prompt": "?"}, {}, "stranger"),
        ("pipeline", ["parse"], {"x": 1}, {"stages": ["parse", "sing"]}, "No agent for stage: sing"),
        ("crosscheck", ["checker_0", "checker_1"], {"prompt": "?"}, {}, "Cross-check requires 'primary' agent"),
        ("crosscheck", ["primary", "checker_0"], {"prompt": "?"}, {}, "Cross-check requires at least 2 checkers"),
        ("compound", [], {"prompt": "?"}, {"sub_topologies": ["nowhere"]}, "Sub-topology not found: nowhere"),
        ("debate", ["proponent", "opponent", "mediator"], {"what": "?"}, {}, "needs an input `question` or `topic`"),
    ],
)
def test_what_is_wrong_is_refused_before_anybody_is_asked(
    kind: str, slots: list[str], given: dict[str, Any], config: dict[str, Any], why: str
) -> None:
    """In the words of the reference, as an error of ours that is a ValueError too."""
    asked: Asked = []
    with pytest.raises(PatternRefused, match=why) as caught:
        play(team(kind, slots, counting(asked), **config), given)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, CoterieError)
    assert asked == []


@pytest.mark.parametrize("config", [{"max_round": 9}, {"max_rounds": 11}, {"consensus_method": "shouting"}])
def test_a_wrong_configuration_is_refused_when_the_topology_is_made(config: dict[str, Any]) -> None:
    """Unknown keys, values out of range, unknown words."""
    with pytest.raises(ValueError, match=next(iter(config))):
        team("debate", ["proponent", "opponent", "mediator"], **config)


def test_a_configuration_that_was_changed_behind_its_back_is_refused_too() -> None:
    """`create` reads it anew."""
    defined = Topology(name="t", description="t", topology_type=TopologyType.DEBATE)
    defined.config["max_round"] = 3
    with pytest.raises(PatternRefused, match="max_round"):
        TopologyRegistry.create(defined, {}, None)


def test_failures_that_a_pattern_cannot_bear_are_runtime_errors() -> None:
    """In the words of the reference."""

    async def down(request: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("provider down")

    for made, given, why in [
        (team("ensemble", ["a", "b"], down), {"prompt": "?"}, "Too many ensemble failures: 2/2"),
        (
            team("pipeline", ["parse"], down, max_stage_retries=0),
            {"x": 1},
            "Pipeline failed at stage 'parse': provider down",
        ),
    ]:
        with pytest.raises(CollaborationFailed, match=why) as caught:
            play(made, given)
        assert isinstance(caught.value, RuntimeError)


def test_a_pipeline_tries_its_stages_as_often_as_it_says() -> None:
    """The agent's own retries do not come on top; without the pipeline's they count."""
    for config, expected in [({"max_stage_retries": 1}, 2), ({"retry_failed_stages": False}, 6)]:
        tries = 0

        async def down(request: dict[str, Any]) -> dict[str, Any]:
            nonlocal tries
            tries += 1
            raise RuntimeError("down")

        with pytest.raises(RuntimeError):
            play(team("pipeline", {"parse": agent("parse", max_retries=5)}, down, **config), {"x": 1})
        assert tries == expected


# -- the registry


def test_every_type_has_a_class() -> None:
    """Delegation too; by member or by value."""
    found = {kind: TopologyRegistry.get(kind) for kind in TopologyType}

    assert all(found.values())
    assert found[TopologyType.DEBATE] is DebateTopology is TopologyRegistry.get("debate")
    assert found[TopologyType.DELEGATION] is DelegationTopology
    assert TopologyRegistry.get("quarrel") is None


def test_a_class_of_ones_own_takes_the_place_of_ours() -> None:
    """With a configuration of its own."""

    class LongDebateConfig(DebateConfig):
        epilogue: bool = False

    try:

        @topology
        class LongDebate(DebateTopology):
            topology_type = TopologyType.DEBATE
            config_class = LongDebateConfig

            async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
                return {"content": "CONCLUSION: long"}

        made = team("debate", ["proponent", "opponent", "mediator"], epilogue=True, max_rounds=1)
        assert type(made) is LongDebate
        assert isinstance(made._config, LongDebateConfig)
        output = play(made, {"question": "?"}).output_data
        assert output is not None
        assert output["conclusion"] == "long"
    finally:
        del TopologyRegistry._topologies[TopologyType.DEBATE]


def test_capabilities_of_a_delegation_say_what_an_agent_can_do() -> None:
    """Where they are no mixins; those that are, are."""
    asked: Asked = []
    agents = {
        "coder": agent("coder", capabilities=[{"name": "python"}]),
        "writer": agent("writer", capabilities=[{"name": "prose"}, {"name": "memory"}]),
    }
    output = play(
        team("delegation", agents, counting(asked)), {"task": "a tale", "required_capabilities": ["prose"]}
    ).output_data
    assert output is not None
    assert [slot for slot, _ in asked] == ["writer"]
    with pytest.raises(PatternRefused, match="Unknown mixin: python"):
        play(team("ensemble", {"ensemble_0": agents["coder"]}, counting(asked)), {"prompt": "?"})


def test_topologies_that_hold_each_other_are_refused() -> None:
    """At any depth, before anybody is asked."""
    asked: Asked = []
    inner = team("compound", {}, counting(asked), name="inner", sub_topologies=["outer"])
    outer = team("compound", {}, counting(asked), name="outer", subs={"inner": inner}, sub_topologies=["inner"])
    assert isinstance(inner, CompoundTopology)
    inner._sub_topologies["outer"] = outer
    with pytest.raises(PatternRefused, match="Circular sub-topologies: outer -> inner -> outer"):
        play(outer, {"prompt": "?"})
    assert asked == []


def test_what_is_wrong_below_is_found_above() -> None:
    """The whole tree is looked through before its first team begins."""
    asked: Asked = []
    fine = team("ensemble", ["ensemble_0"], counting(asked), name="fine")
    wrong = team("debate", ["proponent"], counting(asked), name="wrong")
    subs = {"fine": fine, "wrong": wrong}
    with pytest.raises(PatternRefused, match="sub-topology 'wrong': Debate requires 'opponent' slot"):
        play(team("compound", {}, subs=subs, sub_topologies=["fine", "wrong"]), {"prompt": "?"})
    assert asked == []


# -- the session

Look = Callable[[AsyncSession, Asked], Awaitable[None]]


def in_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Look, **session: Any) -> None:
    """Call *look* with a session on a new database; everybody is answered."""
    asked: Asked = []
    model = counting(asked)

    async def call(self: BaseTopology, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await model(request)
        return answer

    async def main() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/rows.sqlite")
        async with engine.begin() as connection:
            await connection.run_sync(SQLModel.metadata.create_all)
        async with AsyncSession(engine, **session) as opened:
            await look(opened, asked)
        await engine.dispose()

    monkeypatch.setattr(BaseTopology, "_call_llm", call)
    monkeypatch.chdir(tmp_path)
    asyncio.run(main())


async def all_of(session: AsyncSession, model: Any) -> list[Any]:
    """Every row."""
    return list((await session.execute(select(model))).scalars().all())


def test_definitions_are_saved_once_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second object of the same names finds what is there."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        for _ in range(2):
            made = team(
                "ensemble", ["ensemble_0", "ensemble_1"], name="crowd", session=session, aggregation_method="vote"
            )
            done = await made.execute({"prompt": "?"})
            assert done.topology_id == 1
        assert [one.name for one in await all_of(session, Topology)] == ["crowd"]
        assert sorted(one.name for one in await all_of(session, AgentType)) == ["ensemble_0", "ensemble_1"]
        members = await all_of(session, TopologyMembership)
        assert [(one.slot_name, one.position) for one in members] == [("ensemble_0", 0), ("ensemble_1", 1)]
        assert len(await all_of(session, Execution)) == 2

    in_database(tmp_path, monkeypatch, look)


def test_overrides_and_positions_of_members_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the topology itself, and for one that a compound loads."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        stored = Topology(name="line", description="line", topology_type=TopologyType.PIPELINE)
        types = [agent("parse", model="plain"), agent("analyze", model="plain")]
        able = {"name": "reasoning", "config": {"require_conclusion": False}}
        session.add_all([stored, *types])
        await session.flush()
        assert stored.id is not None
        for slot, one, position, overrides in [
            ("parse", types[0], 2, {"model": "special", "capabilities": [able]}),
            ("analyze", types[1], 1, {}),
        ]:
            assert one.id is not None
            session.add(
                TopologyMembership(
                    topology_id=stored.id,
                    agent_type_id=one.id,
                    slot_name=slot,
                    position=position,
                    config_overrides=overrides,
                )
            )
        await session.commit()
        both = Topology(
            name="both", description="both", topology_type=TopologyType.COMPOUND, config={"sub_topologies": ["line"]}
        )
        await TopologyRegistry.create(both, {}, session).execute({"x": 1})
        assert [(slot, request["model"]) for slot, request in asked] == [("analyze", "plain"), ("parse", "special")]
        assert ["system" in {one["role"] for one in request["messages"]} for _, request in asked] == [False, True]
        asked.clear()
        again = TopologyRegistry.create(stored, {"parse": types[0], "analyze": types[1]}, session)
        await again.execute({"x": 1})
        assert {slot: request["model"] for slot, request in asked} == {"analyze": "plain", "parse": "special"}

    in_database(tmp_path, monkeypatch, look, expire_on_commit=False)


def test_definitions_that_a_commit_expired_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating a topology needs no `await`; its execution reads what the database has by then."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        members = {slot: agent(slot, model="plain") for slot in ("ensemble_0", "ensemble_1")}
        crowd = Topology(name="crowd", description="c", topology_type=TopologyType.ENSEMBLE)
        session.add_all([crowd, *members.values()])
        await session.commit()
        members["ensemble_1"].config = {"model": "changed"}
        await session.commit()

        made = TopologyRegistry.create(crowd, members, session)
        assert isinstance(made, PatternTopology)
        made.check({"prompt": "?"})
        assert made.as_member("ensemble_1", members["ensemble_1"]).config == {"model": "changed"}
        async with AsyncSession(session.bind) as other:
            [stored] = await all_of(other, Topology)
            stored.config = {"aggregation_method": "concat"}
            await other.commit()

        done = await made.execute({"prompt": "?"})
        assert (done.output_data or {})["text"].startswith("[ensemble_0]: ")
        assert {slot: request["model"] for slot, request in asked} == {"ensemble_0": "plain", "ensemble_1": "changed"}
        assert (crowd.name, done.topology_id) == ("crowd", crowd.id)

    in_database(tmp_path, monkeypatch, look)


@pytest.mark.parametrize("closed", [False, True])
def test_expired_definitions_need_no_session(closed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rows the last known values count; the caller's session is left alone, and may be closed."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        pair = {slot: agent(slot) for slot in ("parse", "write")}
        session.add_all([line := Topology(name="line", description="l", topology_type=TopologyType.PIPELINE)])
        session.add_all(pair.values())
        await session.commit()
        if closed:
            await session.close()

        done = await TopologyRegistry.create(line, pair).execute({"x": 1})
        assert done.status.value == "completed"
        assert [slot for slot, _ in asked] == ["parse", "write"]
        assert not session.in_transaction()

    in_database(tmp_path, monkeypatch, look)


def test_a_commit_of_the_caller_during_an_execution_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It expires the definitions of a compound before its second team begins."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        teams = {name: team("pipeline", ["only"], name=name, session=session) for name in ("one", "two")}
        made = team("compound", {}, subs=teams, session=session, sub_topologies=list(teams))

        async def commits(request: dict[str, Any]) -> dict[str, Any]:
            await session.commit()
            return {"content": "done"}

        teams["one"]._call_llm = commits  # type: ignore[method-assign]
        done = await made.execute({"prompt": "?"})
        assert (done.status.value, [slot for slot, _ in asked]) == ("completed", ["only"])
        await session.commit()
        again = await made.execute({"prompt": "?"})
        assert again.topology_id == done.topology_id

    in_database(tmp_path, monkeypatch, look)


def test_a_failed_execution_is_kept_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal too: the execution was begun, and nobody was asked."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        with pytest.raises(PatternRefused):
            await team("debate", ["proponent"], name="lonely", session=session).execute({"question": "?"}, "case-7")
        [one] = await all_of(session, Execution)
        assert (one.status.value, one.correlation_id) == ("failed", "case-7")
        assert "Debate requires 'opponent' slot" in one.error
        assert one.error_details == {"type": "PatternRefused"}
        assert asked == []

    in_database(tmp_path, monkeypatch, look)


def test_a_cancelled_execution_is_kept_as_cancelled_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is never left running; carried on, it is completed under the same id."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        made = team("ensemble", ["ensemble_0"], name="slow", session=session, aggregation_method="vote")
        reached = asyncio.Event()

        async def never(request: dict[str, Any]) -> dict[str, Any]:
            reached.set()
            await asyncio.Event().wait()
            return {}

        answering = made._call_llm
        made._call_llm = never  # type: ignore[method-assign]
        task = asyncio.create_task(made.execute({"prompt": "?"}))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [one] = await all_of(session, Execution)
        assert one.status.value == "cancelled"
        await session.commit()
        made._call_llm = answering  # type: ignore[method-assign]
        done = await made.resume(one.id)
        assert done.status.value == "completed"
        await session.refresh(one)
        assert (one.status.value, one.error) == ("completed", None)

    in_database(tmp_path, monkeypatch, look, expire_on_commit=False)


def test_two_executions_share_a_session_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used by one after the other, and by nobody while agents are asked."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        teams = [
            team("ensemble", ["ensemble_0"], name=name, session=session, aggregation_method="vote")
            for name in ("one", "two", "three")
        ]
        done = await asyncio.gather(*(made.execute({"prompt": "?"}) for made in [*teams, teams[0]]))
        assert [one.status.value for one in done] == ["completed"] * 4
        assert len(await all_of(session, Execution)) == 4

    in_database(tmp_path, monkeypatch, look)


def test_sessions_that_save_the_same_at_once_find_it_saved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two programs do that begin at the same moment; whoever comes second takes what is there."""

    async def look(session: AsyncSession, asked: Asked) -> None:
        async def one() -> str:
            async with AsyncSession(session.bind) as own:
                made = team(
                    "ensemble", ["ensemble_0", "ensemble_1"], name="one", session=own, aggregation_method="vote"
                )
                return (await made.execute({"prompt": "?"})).status.value

        assert await asyncio.gather(one(), one(), one()) == ["completed"] * 3
        counts = [len(await all_of(session, kind)) for kind in (AgentType, Topology, TopologyMembership, Execution)]
        assert counts == [2, 1, 2, 3]

    in_database(tmp_path, monkeypatch, look)


def test_only_a_session_that_can_wait_is_taken() -> None:
    """Anything else is refused, in words."""
    from sqlmodel import Session, create_engine

    with (
        Session(create_engine("sqlite://")) as session,
        pytest.raises(PatternRefused, match="AsyncSession"),
    ):
        play(team("ensemble", ["ensemble_0"], session=session), {"prompt": "?"})


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("new.sqlite", r"no such table.*upgrade\(…\)` makes the tables"),
        ("nowhere/x.sqlite", "no agent was called"),
    ],
)
def test_a_database_without_tables_is_told_of(tmp_path: Path, path: str, told: str) -> None:
    """Whoever forgot to make them reads how; before anybody is asked."""

    async def run() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / path}")
        try:
            async with AsyncSession(engine) as session:
                await team("ensemble", ["ensemble_0"], session=session).execute({"prompt": "?"}, durable=False)
        finally:
            await engine.dispose()

    with pytest.raises(RowsFailed, match=told):
        asyncio.run(run())


@NOT_SIMULATED  # which imports asyncio
def test_names_are_there_without_importing_anything() -> None:
    """`EnsembleTopology` and its like load when they are used."""
    import subprocess
    import sys

    code = "import sys, coterie.patterns; print([m for m in ('sqlmodel', 'msgspec', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
    assert EnsembleTopology.topology_type is TopologyType.ENSEMBLE


def test_an_overridden_broadcast_is_called() -> None:
    """A debate broadcasts each argument to the two others through the method of its class."""
    heard: list[tuple[str, list[str] | None]] = []

    class Loud(DebateTopology):
        async def broadcast_message(
            self,
            sender_slot: str,
            message_type: MessageType,
            content: dict[str, Any],
            context: ExecutionContext,
            exclude: list[str] | None = None,
        ) -> list[Message]:
            heard.append((sender_slot, exclude))
            return await super().broadcast_message(sender_slot, message_type, content, context, exclude)

        async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
            return {"content": "an argument"}

    defined = Topology(name="d", description="d", topology_type=TopologyType.DEBATE, config={"max_rounds": 1})
    made = Loud(defined, {slot: agent(slot) for slot in ("proponent", "opponent", "mediator")})

    assert play(made, {"question": "?"}).output_data is not None
    assert heard == [("proponent", []), ("opponent", [])]


def test_a_setting_that_is_changed_between_executions_counts() -> None:
    """The configuration is read once for many calls, and again when it has changed."""
    made: Any = team(TopologyType.DEBATE, ["proponent", "opponent", "mediator"], max_rounds=2)
    assert made.as_team().config.max_rounds == 2

    made.debate_config.max_rounds = 5

    assert made.as_team().config.max_rounds == 5
