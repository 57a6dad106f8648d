"""What a run's records are as rows, without a database."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pattern_play
import rows_stage as stage
from bundles import bundle
from pattern_cases import Case, case_id, cases, script_of
from role_teams import Court, jury_plan

from coterie.agents.backends.base import Answer, Emitted, Failure, OnEvent, Request, Result
from coterie.base.clock import VirtualClock
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal import records as r
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.runs import history
from coterie.patterns.identity import execution_id, instance_id, message_id, result_id
from coterie.patterns.rows.definitions import definition, row_name
from coterie.patterns.rows.enums import AgentRole, ExecutionStatus
from coterie.patterns.rows.fold import LEFT, LET_GO, RowFold, RowUpdate
from coterie.team.planning.loop import ParallelPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, to_json
from coterie.team.planning.program import AgentDefinition, ProgramPlan
from coterie.team.topology.patterns.names import TopologyType

Tables = dict[str, dict[UUID, dict[str, Any]]]


def tables(rows: Iterable[RowUpdate]) -> Tables:
    """The last of each row, by table and id."""
    found: Tables = {}
    for row in rows:
        found.setdefault(row.table, {})[row.id] = row.values
    return found


def played(plan: Plan, given: dict[str, Any], says: stage.Says = stage.as_rehearsed) -> list[tuple[str, r.Record]]:
    """The records of a whole run, those of its child runs behind it."""
    store = MemoryStore()
    asyncio.run(stage.play(plan, given, says=says, store=store))
    return list(history(store.read, "r"))


def told(news: Iterable[tuple[str, r.Record]], fold: RowFold | None = None) -> Tables:
    fold = fold or RowFold()
    return tables(row for run, record in news for row in fold.apply(run, record))


def the(rows: dict[UUID, dict[str, Any]]) -> dict[str, Any]:
    [row] = rows.values()
    return row


def by_hand(*records: r.Record, plan: Plan | None = None) -> list[tuple[str, r.Record]]:
    """A run of a debate with these records behind its first."""
    plan = plan or stage.debate()
    started = r.RunStarted(run="r", engine="pattern", plan=to_json(plan).decode(), input={"question": "?"})
    numbered = [r.RunOwned(epoch=1), *records]
    return [("r", started), *(("r", one) for one in numbered)]


def test_a_debate_is_an_execution_with_instances_messages_and_results() -> None:
    """Of two rounds: five turns, each argument told to two others."""
    found = told(played(stage.debate(), {"question": "Is it so?"}))
    execution = the(found["executions"])

    assert execution["id"] == execution_id("r")
    assert execution["topology"] == "debate"
    assert execution["status"] is ExecutionStatus.COMPLETED
    assert execution["input_data"] == {"question": "Is it so?"}
    assert execution["output_data"]["rounds"] == 2
    assert execution["started_at"] <= execution["completed_at"]
    assert [row["metadata"]["slot"] for row in found["agent_instances"].values()] == [
        "proponent",
        "opponent",
        "mediator",
    ]
    assert len(found["results"]) == 5
    assert found["results"][result_id("r", "mediator#1")]["output"] == {"content": "mediator#1 says so"}
    assert {row["token_usage"] for row in found["results"].values()} == {None}
    assert all(row["started_at"] <= row["completed_at"] for row in found["results"].values())
    assert [row["sequence_number"] for row in found["messages"].values()] == list(range(1, 9))
    first = found["messages"][message_id("r", 1)]
    assert (first["sender_id"], first["recipient_id"], first["round_number"]) == (
        instance_id("r", "proponent"),
        instance_id("r", "opponent"),
        0,
    )


def test_the_same_records_are_the_same_rows() -> None:
    """However often they are told: each id is of one row, and each time is that of a record, none of the telling."""
    news = played(stage.debate(), {"question": "Is it so?"})
    found = told(news)
    times = {datetime.fromtimestamp(record.at, UTC) for _, record in news}

    assert found == told(news)
    assert all(row["id"] == id for rows in found.values() for id, row in rows.items())
    shown = [value for rows in found.values() for row in rows.values() for value in row.values()]
    assert {value for value in shown if isinstance(value, datetime)} <= times


def test_an_answer_tells_how_sure_it_is_and_what_it_cost() -> None:
    """And what led there, as one text."""
    outputs = {"_confidence": 0.75, "_reasoning": {"steps": ["first", "then"]}}
    usage = r.Usage(input_tokens=3, output_tokens=4, cached_tokens=1)
    finished = r.TurnFinished(turn="mediator#1", attempt=1, text="So.", outputs=outputs, usage=usage, at=9.5)
    found = told(by_hand(r.TurnStarted(turn="mediator#1", agent="mediator", at=7.0), finished))
    result = the(found["results"])

    assert (result["confidence"], result["reasoning"]) == (0.75, "first\nthen")
    assert result["token_usage"] == {"input_tokens": 3, "output_tokens": 4, "cached_tokens": 1}
    assert (result["started_at"].timestamp(), result["completed_at"].timestamp()) == (7.0, 9.5)
    assert found["agent_instances"][instance_id("r", "mediator")]["last_active"].timestamp() == 9.5


def test_a_turn_that_failed_is_a_result_that_says_so() -> None:
    """It began with its first attempt."""

    async def says(request: Request) -> Result:
        return Failure(kind="failed", reason="no such model") if request.agent.name == "opponent" else Answer(text="x")

    found = told(played(stage.debate(), {"question": "?"}, says))

    assert found["results"][result_id("r", "opponent#1")]["output"] == {"error": "no such model", "kind": "failed"}


def test_what_no_database_takes_is_not_in_a_row() -> None:
    """NUL and half a surrogate pair in a text, infinity in JSON."""
    outputs = {"_reasoning": "a\0b\ud800", "score": float("inf")}
    found = told(
        by_hand(
            r.TurnStarted(turn="mediator#1", agent="mediator"),
            r.TurnFinished(turn="mediator#1", attempt=1, outputs=outputs),
            r.RunFinished(outcome="failed", reason="bad\0news"),
        )
    )

    assert the(found["results"])["reasoning"] == "a\ufffdb?"
    assert the(found["results"])["output"]["score"] is None
    assert the(found["executions"])["error"] == "bad\ufffdnews"


@bundle(
    ("end", "status", "error"),
    [
        (r.RunFinished(outcome="completed", result={"text": "x"}), "completed", None),
        (r.RunFinished(outcome="failed", reason="no agent"), "failed", "no agent"),
        (r.RunFinished(outcome="failed"), "failed", "failed"),
        (r.RunFinished(outcome="cancelled", reason="called off"), "cancelled", "called off"),
        (r.RunStopped(reason="waiting"), "paused", "stopped: waiting"),
        (r.RunStopped(reason="max_turns"), "paused", "stopped: max_turns"),
        (r.RunStopped(reason="interrupted"), "cancelled", "interrupted"),
    ],
)
def test_an_execution_is_what_its_run_is(end: r.Record, status: str, error: str | None) -> None:
    """Nothing that ended is left `running`."""
    execution = the(told(by_hand(end))["executions"])

    assert (execution["status"], execution["error"]) == (status, error)
    assert (execution["completed_at"] is None) == (status == "paused")


def test_a_run_that_is_resumed_runs_again() -> None:
    """Until it ends, and what stopped it is no error any more."""
    news = by_hand(r.RunStopped(reason="interrupted"), r.RunOwned(epoch=2))
    fold = RowFold()
    running = the(told(news, fold)["executions"])
    done = the(told([("r", r.RunFinished(outcome="completed"))], fold)["executions"])

    assert (running["status"], running["error"], running["completed_at"]) == ("running", None, None)
    assert (done["status"], done["error"], done["output_data"]) == ("completed", None, {"text": ""})


def test_a_run_that_nobody_drives_is_paused() -> None:
    """Whatever its process did last."""
    fold = RowFold()
    told(by_hand(), fold)

    assert [row.values["error"] for row in fold.let_go()] == [LET_GO]
    assert list(fold.let_go()) == []


def nested() -> Plan:
    """Two debates, one after the other."""
    first, second = stage.debate("first", 1), stage.debate("second", 1)
    return stage.team("compound", name="both", first=first, second=second)


def test_teams_of_a_compound_are_executions_of_their_own() -> None:
    """With a link to the one they are part of; the compound itself asks nobody."""
    found = told(played(nested(), {"question": "Is it so?"}))
    outer, first, second = found["executions"].values()

    assert [row["topology"] for row in (outer, first, second)] == ["both", "first", "second"]
    assert [row["metadata"].get("parent") for row in (outer, first, second)] == [None, *[str(outer["id"])] * 2]
    assert {row["execution_id"] for row in found["results"].values()} == {first["id"], second["id"]}
    assert len(found["agent_instances"]) == 6


def test_an_agent_of_a_compound_has_rows_of_its_own() -> None:
    """Beside the teams, which are executions instead."""
    found = told(played(stage.team("compound", "alone", team=stage.debate(rounds=1)), {"question": "Is it so?"}))

    assert [row["metadata"]["run"] for row in found["executions"].values()] == ["r", "r/team#1.1"]
    of_compound = [row for row in found["agent_instances"].values() if row["execution_id"] == execution_id("r")]
    assert [row["metadata"]["slot"] for row in of_compound] == ["alone"]
    assert found["results"][result_id("r", "alone#1")]["output"]["content"] == "alone#1 says so"


def test_a_team_in_the_slot_of_a_debate_is_asked_like_an_agent() -> None:
    """It has an instance and results there, and an execution of its own."""
    plan = stage.team(
        "debate", "proponent", "mediator", config={"max_rounds": 1}, opponent=stage.team("pipeline", "a", "b")
    )
    found = told(played(plan, {"question": "Is it so?"}))

    assert len(found["executions"]) == 2
    assert len(found["agent_instances"]) == 3 + 2
    assert {row["agent_instance_id"] for row in found["results"].values()} >= {
        instance_id("r", "opponent"),
        instance_id("r/opponent#1.1", "b"),
    }


def test_a_pattern_in_a_flow_has_rows_though_the_flow_has_none() -> None:
    """The tables have no word for a flow."""
    agents = {"panel": AgentPlan(name="panel", kind="topology", child=stage.debate(rounds=1))}
    flow = Plan(name="flow", agents=agents, coordination=FlowPlan(mentions=("panel",), groups=()))
    found = told(played(flow, {"prompt": "Is it so?"}))

    assert the(found["executions"])["metadata"]["run"] == "r/panel#1.1"
    assert len(found["results"]) == 3


def test_a_child_run_whose_parent_is_over_does_not_go_on() -> None:
    """It was called off with it."""
    news = played(nested(), {"question": "Is it so?"})
    cut = [(run, one) for run, one in news if not (run != "r" and isinstance(one, r.RunFinished))]
    outer = [(run, one) for run, one in cut if run == "r" and not isinstance(one, r.RunFinished)]
    found = told(
        [*outer, *(one for one in cut if one[0] != "r"), ("r", r.RunFinished(outcome="failed", reason="late"))]
    )

    assert [(row["status"], row["error"]) for row in found["executions"].values()] == [
        ("failed", "late"),
        ("cancelled", LEFT),
        ("cancelled", LEFT),
    ]


def test_a_child_run_whose_parent_stops_is_paused() -> None:
    """It has no stop of its own: the same process drove both."""
    news = played(nested(), {"question": "Is it so?"})
    cut = [(run, one) for run, one in news if not isinstance(one, r.RunFinished)]
    found = told([*cut, ("r", r.RunStopped(reason="max_turns"))])

    assert [(row["status"], row["error"]) for row in found["executions"].values()] == [
        ("paused", "stopped: max_turns"),
        ("paused", LET_GO),
        ("paused", LET_GO),
    ]


def test_a_team_in_a_branch_of_a_wave_has_rows() -> None:
    """As one in the loop itself: each role that a pattern fills is an execution."""
    plan, store, clock = jury_plan(parallel=ParallelPlan(most=2)), MemoryStore(), VirtualClock()

    class Splits(Court):
        async def start(self, request: Request, on_event: OnEvent) -> Any:
            part = await super().start(request, on_event)
            if (request.run, request.turn) == ("r", "iteration#1"):
                on_event(Emitted(event="draft.ready.parallel", payload="- a\n- b"))
            return part

    court = Splits(rejects=(), acts={"writer": Answer(text="a draft")})
    clock.run(
        Shell(RunPorts(store=store, turns=court, clock=clock, make_kind=kind_of)).start("r", plan, {"prompt": "go"})
    )
    found = told(history(store.read, "r"))["executions"].values()

    assert {row["metadata"]["run"] for row in found} == {
        "r/wave-1.1#1.1/iteration#1.1",
        "r/wave-1.2#1.1/iteration#1.1",
        "r/iteration#2.1",
        "r/iteration#3.1",
    }
    assert {row["status"] for row in found} == {"completed"}


def test_what_is_forgotten_is_told_from_its_beginning_again() -> None:
    """Its child runs are, too."""
    fold = RowFold()
    told(played(nested(), {"question": "Is it so?"}), fold)

    assert list(fold.forget("r")) == ["r", "r/first#1.1", "r/second#1.1"]
    assert fold.definition("r/first#1.1") is None


def program(**given: Any) -> Plan:
    """A program with one agent."""
    slots = {"one": AgentDefinition(name="Asker", role="planner", config={"max_retries": 1})}
    plan = ProgramPlan(program="m:C", type="pipeline", name="Ask", slots=slots, **given)
    return Plan(name="ask", coordination=plan)


def test_a_program_is_what_its_user_defined() -> None:
    """Under the name that its starter gave it."""
    found = definition(program(correlation="case-7", config={"stages": ["one"]}))

    assert found is not None
    assert (found.topology["name"], found.topology["topology_type"]) == ("ask", TopologyType.PIPELINE)
    assert (found.agents["one"]["name"], found.agents["one"]["role"]) == ("asker", AgentRole.PLANNER)
    assert the(told(by_hand(plan=program(correlation="case-7")))["executions"])["correlation_id"] == "case-7"


def test_what_a_program_records_and_remembers_is_in_rows() -> None:
    """Under the ids that it knows them by."""
    found = told(
        by_hand(
            r.CallAsked(turn="one#1", agent="one", state={"asked": 1}),
            r.ResultRecorded(id="one+1", agent="one", output={"score": 3}, confidence=0.5, tokens={"in": 1}, at=4.0),
            r.StateChanged(agent="one", turn="one#1", state={"asked": 1, "memories": ["x"]}),
            r.MessageSent(sender="one", type="feedback", content={"text": "well"}, round=2),
            plan=program(),
        )
    )
    result = found["results"][result_id("r", "one+1")]

    assert the(found["agent_instances"])["state"] == {"asked": 1, "memories": ["x"]}
    assert (result["output"], result["confidence"], result["token_usage"]) == ({"score": 3}, 0.5, {"in": 1})
    assert result["started_at"] == result["completed_at"]
    assert (the(found["messages"])["recipient_id"], the(found["messages"])["message_type"]) == (None, "feedback")


COMPLETED = [case for case in cases() if not case["deviates"] and case["expect_seed"]["status"] == "completed"]


@bundle("case", COMPLETED, ids=case_id)
def test_where_an_earlier_system_was_right_it_had_as_many_rows(case: Case) -> None:
    """As many executions, with the same ends, and as many results; messages where it wrote them at all."""
    stored = {one["name"]: one for one in case.get("sub_topologies", ())}
    plan = pattern_play._plan_of(case, stored, case["agent_defaults"])
    done = pattern_play.Performance(plan, case["input"], pattern_play._says(script_of(case)))
    found, wanted = told(history(done.store.read, "r")), case["expect_seed"]

    assert [row["status"] for row in found["executions"].values()] == [one["status"] for one in wanted["executions"]]
    assert len(found["results"]) == wanted["result_rows"]
    if wanted["messages"]:
        assert len(found["messages"]) == len(wanted["messages"])


def test_a_name_that_tables_do_not_take_is_made_to_fit() -> None:
    """Two long ones stay two."""
    assert row_name("My team (2)") == "my-team-2"
    assert row_name("…") == "team"
    long = "a" * 80
    assert len(row_name(long)) == 64
    assert row_name(long) != row_name(long + "b")


def test_what_the_tables_have_no_word_for_has_no_rows() -> None:
    """A flow, and a pattern of a user's own."""
    own = stage.debate()
    assert isinstance(own.coordination, stage.PatternPlan)
    other = msgspec.structs.replace(own, coordination=msgspec.structs.replace(own.coordination, type="mine:pattern"))
    assert definition(other) is None
    assert definition(Plan(name="flow", coordination=FlowPlan(mentions=(), groups=()))) is None
