"""Rows are checked when they are made, and come back from a database as they were."""

import asyncio
import importlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from bundles import bundle
from sqlalchemy import text
from sqlmodel import Session, SQLModel, create_engine, select

from coterie import patterns
from coterie.errors import ExtraMissing, PatternRefused
from coterie.patterns import (
    AgentCapability,
    AgentInstance,
    AgentRole,
    AgentType,
    AgentTypeCreate,
    AgentTypeRead,
    AgentTypeUpdate,
    DebateConfig,
    Execution,
    ExecutionCreate,
    ExecutionRead,
    ExecutionStatus,
    Message,
    MessageCreate,
    MessageRead,
    MessageType,
    Result,
    Topology,
    TopologyCreate,
    TopologyMembership,
    TopologyRead,
    TopologyRegistry,
    TopologyType,
    TopologyUpdate,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def agent(**given: Any) -> AgentType:
    return AgentType(**{"name": "judge", "description": "Decides.", "role": "critic", **given})


def topology(**given: Any) -> Topology:
    return Topology(**{"name": "talk", "description": "A debate.", "topology_type": "debate", **given})


@bundle(
    ("wrong", "said"),
    [
        ({"name": "Invalid Name!"}, "alphanumeric"),
        ({"name": ""}, "at least 1"),
        ({"name": "a" * 65}, "at most 64"),
        ({"name": "naïve"}, "alphanumeric"),
        ({"description": ""}, "at least 1"),
        ({"description": "d" * 1025}, "at most 1024"),
        ({"role": "nonsense"}, "role"),
        ({"config": {"modle": "x"}}, "modle"),
        ({"config": {"temperature": 3}}, "temperature"),
        ({"config": {"system_prompt": object()}}, "JSON"),
        ({"nmae": "x"}, "nmae"),
    ],
)
def test_an_agent_type_that_is_wrong_is_refused(wrong: dict[str, Any], said: str) -> None:
    """At once, and by the schema for new ones as well."""
    with pytest.raises(PatternRefused, match=f"this AgentType does not fit: .*{said}") as refused:
        agent(**wrong)
    assert isinstance(refused.value, ValueError)
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match=said):
        AgentTypeCreate(**{"name": "judge", "description": "Decides.", "role": "critic", **wrong})


@bundle(
    ("wrong", "said"),
    [
        ({"name": "two words"}, "alphanumeric"),
        ({"description": ""}, "at least 1"),
        ({"topology_type": "duel"}, "topology_type"),
        ({"config": {"max_round": 99}}, "max_round"),
        ({"config": {"max_rounds": 99}}, "max_rounds"),
        ({"topology_type": "compound", "config": {"composition_type": "zigzag"}}, "Unknown composition type: zigzag"),
    ],
)
def test_a_topology_that_is_wrong_is_refused(wrong: dict[str, Any], said: str) -> None:
    """Its configuration has to be one of its type."""
    with pytest.raises(PatternRefused, match=f"this Topology does not fit: .*{said}"):
        topology(**wrong)
    with pytest.raises(ValueError, match=said):
        TopologyCreate(**{"name": "talk", "description": "A debate.", "topology_type": "debate", **wrong})


def test_what_is_missing_is_refused() -> None:
    """A table's class asks for it, too."""
    with pytest.raises(PatternRefused, match="role: Field required"):
        AgentType(name="judge", description="Decides.")
    with pytest.raises(ValueError, match="topology_id"):
        Execution()
    with pytest.raises(ValueError, match="temperature"):
        TopologyMembership(topology_id=1, agent_type_id=1, slot_name="a", config_overrides={"temperature": 9})


def test_what_is_changed_to_something_that_does_not_fit_is_refused_where_it_is_read() -> None:
    """Whoever assigns to a row is not checked: its typed configuration is, and nobody is asked with it."""
    judge, talk = agent(), topology()
    judge.config, talk.config = {"modle": "x"}, {"max_rounds": 11}

    with pytest.raises(PatternRefused, match="the configuration of 'judge' does not fit: modle: Extra"):
        judge.get_typed_config()
    with pytest.raises(PatternRefused, match="max_rounds"):
        talk.get_typed_config()
    sides = dict.fromkeys(("proponent", "opponent", "mediator"), judge)
    with pytest.raises(PatternRefused, match="the configuration of 'judge' does not fit: modle"):
        asyncio.run(TopologyRegistry.create(topology(), sides).execute({"question": "?"}))


def test_only_a_topology_and_agents_make_a_topology_object() -> None:
    """Said in `create`, before anything is written."""
    with pytest.raises(PatternRefused, match="the first argument must be a Topology, not str"):
        TopologyRegistry.create("talk", {})  # type: ignore[arg-type]
    with pytest.raises(PatternRefused, match="slot 'mediator' must be filled by an AgentType, not by str"):
        TopologyRegistry.create(topology(), {"mediator": "judge"})  # type: ignore[dict-item]


def test_names_are_in_lower_case() -> None:
    assert agent(name="The_Judge-2").name == "the_judge-2"
    assert topology(name="TALK").name == "talk"
    assert TopologyCreate(name="Talk", description="d", topology_type="debate", agent_names=["Judge"]).agent_names == [
        "judge"
    ]


def test_capabilities_come_out_of_the_configuration() -> None:
    """As they are declared, switched off or not."""
    declared = [AgentCapability(name="memory", config={"max_memories": 5}), {"name": "tool_use", "enabled": False}]
    judge = agent(config={"capabilities": declared})

    assert judge.get_capabilities() == [
        AgentCapability(name="memory", config={"max_memories": 5}),
        AgentCapability(name="tool_use", enabled=False),
    ]
    assert judge.has_capability("tool_use")
    assert not judge.has_capability("reasoning")
    assert judge.get_typed_config().max_retries == 3


def test_a_topology_knows_its_typed_configuration() -> None:
    assert topology(config=DebateConfig(max_rounds=5).model_dump()).get_typed_config() == DebateConfig(max_rounds=5)


def test_a_row_is_made_of_anything_that_has_its_fields() -> None:
    """And checked as if it were made by hand."""
    one = AgentType.model_validate(agent(id=4), update={"name": "Other"})

    assert (one.id, one.name, one.role) == (4, "other", AgentRole.CRITIC)
    with pytest.raises(ValueError, match="alphanumeric"):
        AgentType.model_validate({"name": "!", "description": "d", "role": "critic"})


def test_what_a_row_holds_is_its_own() -> None:
    """Whoever gave it may go on with theirs."""
    output = {"content": "yes", "issues": []}
    result = Result(execution_id=uuid4(), agent_instance_id=uuid4(), output=output)
    output["validation"] = True

    assert result.output == {"content": "yes", "issues": []}


def test_a_result_ends_when_it_began_or_later() -> None:
    """Without a beginning it began when it ended, not when the row was made."""
    ids = {"execution_id": uuid4(), "agent_instance_id": uuid4(), "output": {}}

    assert Result(**ids, completed_at=NOON).started_at == NOON
    with pytest.raises(ValueError, match="ended"):
        Result(**ids, started_at=NOON, completed_at=NOON - timedelta(seconds=1))
    with pytest.raises(ValueError, match="confidence"):
        Result(**ids, confidence=1.1)


def test_times_are_in_utc() -> None:
    """One without a zone is UTC, any other is converted."""
    east = timezone(timedelta(hours=2))

    assert agent().created_at.tzinfo is UTC
    assert agent(created_at=datetime(2026, 3, 1, 12)).created_at == NOON
    assert agent(created_at=datetime(2026, 3, 1, 14, tzinfo=east)).created_at.isoformat() == "2026-03-01T12:00:00+00:00"


def test_an_execution_tells_how_long_it_took() -> None:
    """In milliseconds, once it is over."""
    one = Execution(topology_id=1, started_at=NOON, status="running")
    assert one.duration_ms is None

    one.completed_at = NOON + timedelta(seconds=1.5)
    assert one.duration_ms == 1500


def test_an_execution_ends_in_one_of_three_ways() -> None:
    done, failed, off = (Execution(topology_id=1) for _ in range(3))
    done.mark_complete({"answer": 42})
    failed.mark_failed("no agent", {"type": "ValueError"})
    off.mark_cancelled()

    assert (done.status, done.output_data, done.error) == (ExecutionStatus.COMPLETED, {"answer": 42}, None)
    assert (failed.status, failed.error, failed.error_details) == ("failed", "no agent", {"type": "ValueError"})
    assert (off.status, off.output_data) == ("cancelled", None)
    assert all(one.duration_ms is not None and one.duration_ms >= 0 for one in (done, failed, off))


def test_what_an_instance_remembers_is_put_over_what_it_knew() -> None:
    one = AgentInstance(agent_type_id=1, state={"a": 1, "b": 2})
    one.update_state({"b": 3})

    assert one.state == {"a": 1, "b": 3}
    assert one.last_active is not None


def test_rows_come_back_as_they_were() -> None:
    """Times with their zone; of an enum, the value is stored."""
    engine = create_engine("sqlite://")
    SQLModel.metadata.create_all(engine)
    judge, talk = agent(created_at=NOON), topology()
    with Session(engine) as session:
        session.add_all([judge, talk])
        session.flush()
        execution = Execution(topology_id=talk.id, input_data={"question": "?"}, started_at=NOON, status="running")
        instance = AgentInstance(agent_type_id=judge.id, execution_id=execution.id, metadata_={"slot": "mediator"})
        session.add_all(
            [
                execution,
                instance,
                TopologyMembership(topology_id=talk.id, agent_type_id=judge.id, slot_name="mediator"),
                Message(
                    execution_id=execution.id,
                    sender_id=instance.id,
                    message_type="broadcast",
                    content={"argument": "so"},
                    sequence_number=1,
                ),
                Result(execution_id=execution.id, agent_instance_id=instance.id, output={"content": "so"}),
            ]
        )
        session.commit()
    with Session(engine) as session:
        found = session.exec(select(Execution)).one()
        message = session.exec(select(Message)).one()
        raw = session.connection().execute(text("SELECT status, metadata FROM executions")).one()
        shown = ExecutionRead.model_validate(found)
        seen = MessageRead.model_validate(message)
        named = AgentTypeRead.model_validate(session.exec(select(AgentType)).one())
        drawn = TopologyRead.model_validate(session.exec(select(Topology)).one())
    engine.dispose()

    assert tuple(raw) == ("running", "{}")
    assert (shown.status, shown.started_at, shown.duration_ms) == (ExecutionStatus.RUNNING, NOON, None)
    assert (seen.message_type, seen.recipient_id, seen.content) == (MessageType.BROADCAST, None, {"argument": "so"})
    assert (named.role, named.created_at) == (AgentRole.CRITIC, NOON)
    assert drawn.topology_type is TopologyType.DEBATE


def test_what_changes_is_checked_as_far_as_it_is_said() -> None:
    assert AgentTypeUpdate(description="New.").model_dump(exclude_none=True) == {"description": "New."}
    assert TopologyUpdate().config is None
    assert ExecutionCreate(topology_name="talk", input_data={}).metadata_ is None
    with pytest.raises(ValueError, match="modle"):
        AgentTypeUpdate(config={"modle": 1})
    with pytest.raises(ValueError, match="message_type"):
        MessageCreate(execution_id=UUID(int=1), sender_id=UUID(int=2), message_type="whisper", content={})


def test_every_friendly_name_is_there() -> None:
    """And no other."""
    assert sorted(patterns.__all__) == list(patterns.__all__)
    assert all(getattr(patterns, name).__name__ == name for name in patterns.__all__)
    with pytest.raises(AttributeError, match="AgentTypes"):
        patterns.AgentTypes  # noqa: B018


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError, too, for whoever looks for one."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named 'sqlmodel' ({name})", name="sqlmodel")

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.delitem(vars(patterns), "AgentType", raising=False)
    with pytest.raises(ExtraMissing, match=r"AgentType needs 'sqlmodel'.*pip install 'coterie\[sql\]'") as said:
        patterns.AgentType  # noqa: B018
    assert isinstance(said.value, ImportError)
