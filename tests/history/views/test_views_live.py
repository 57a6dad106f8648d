"""A run and its child runs as rows: what changes travels, and is what a fold of everything has."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loop_play import Play, loop_plan
from pattern_play import Performance, pattern, scripted
from random_flows import random_flow_plan
from random_nests import random_nest
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.base.ids import child_run_id
from coterie.errors import UsageError
from coterie.execution.kernel.fold import Fold
from coterie.execution.kinds import kind_of
from coterie.history.journal import records as r
from coterie.history.journal.codec import Decoder
from coterie.history.journal.runs import history
from coterie.history.views.costs import costs, dearest
from coterie.history.views.failure import first_failure
from coterie.history.views.live import (
    LiveRun,
    Tables,
    changes_since,
    fold,
    merge,
    position_text,
    read_position,
)
from coterie.team.planning.loop import RolePlan
from coterie.team.planning.plan import (
    AgentPlan,
    FlowPlan,
    Limits,
    MappedFlowPlan,
    MapPlan,
    Plan,
    Wanted,
    to_json,
)
from coterie.team.planning.system import ActorPlan, SupervisorPlan, SystemPlan
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

LONG = "\n  an answer of many words " * 1_000
HISTORIES = sorted((Path(__file__).parents[2] / "histories" / "0.1").glob("*.jsonl"))
PLAYED = 16
"""Random teams of which the journals are folded beside the histories."""
Log = list[tuple[str, r.Record]]


@cache
def log(n: int) -> Log:
    """The records of a history, or of a random team with child runs that was played."""
    if n < len(HISTORIES):
        with HISTORIES[n].open("rb") as file:
            records = list(Decoder(str(HISTORIES[n])).read(file))
        first = records[0]
        assert isinstance(first, r.RunStarted)
        return [(first.run, record) for record in records]
    seed = n - len(HISTORIES)
    plan = random_nest(seed) if seed % 2 else random_flow_plan(seed)
    stage = Stage(plan, Cast({}, resumes=True))
    ended = stage.start(Limits(max_turns=5) if seed % 3 == 0 else None)
    if ended.status not in ("completed", "failed"):
        stage.resume(Limits(max_turns=-1))
    return list(history(stage.store.read, "r"))


def interleaved(records: Log, dice: random.Random) -> Log:
    """*records* in another order that readers may see: each run's in order, a child's after its turn began."""
    left: dict[str, list[r.Record]] = {}
    for name, record in records:
        left.setdefault(name, []).append(record)
    ready, found = [records[0][0]], list[tuple[str, r.Record]]()
    while ready:
        name = dice.choice(ready)
        record = left[name].pop(0)
        found.append((name, record))
        if isinstance(record, r.TurnStarted) and (child := child_run_id(name, record.turn, record.attempt)) in left:
            ready.append(child)
        if not left[name]:
            ready.remove(name)
    return found


def sorted_tables(tables: Tables) -> Tables:
    return {name: dict(sorted(rows.items())) for name, rows in tables.items()}


@given(
    n=st.integers(0, len(HISTORIES) + PLAYED - 1),
    seed=st.integers(0, 10_000),
    cuts=st.sets(st.floats(0, 1), max_size=4),
)
def test_the_state_and_its_changes_are_the_state_of_everything(n: int, seed: int, cuts: set[float]) -> None:
    """Wherever it is cut, in whatever order the runs are read; and so is a reader's that names its position."""
    records = interleaved(log(n), random.Random(seed))
    run = records[0][0]
    whole = sorted_tables(fold(log(n), run).state())
    places = sorted(int(cut * len(records)) for cut in cuts)

    live, known = LiveRun(run), 0
    state = live.state()
    for place in [*places, len(records)]:
        for name, record in records[known:place]:
            live.apply(name, record)
        known = place
        state = merge(state, live.changes())
        assert live.changes() == {}
    assert sorted_tables(state) == whole

    early = fold(records[: places[0] if places else 0], run)
    position = read_position(position_text(early.position), run)
    assert {name: seq for name, seq in position.items() if seq} == early.position
    later = changes_since(records, run, position)
    assert sorted_tables(merge(early.state(), later)) == whole


def test_each_record_changes_what_it_changes() -> None:
    """After each record the state and its changes are the state of all records so far; child runs change their root."""
    stage = Stage(flow("go -> team", team=AgentPlan(name="team", kind="topology", child=flow("x -> y"))), Cast({}))
    stage.start()
    for records in (*map(log, range(len(HISTORIES))), list(history(stage.store.read, "r"))):
        run = records[0][0]
        live = LiveRun(run)
        state = live.state()
        for place, (name, record) in enumerate(records, 1):
            live.apply(name, record)
            state = merge(state, live.changes())
            assert state == fold(records[:place], run).state(), (name, record)


def test_the_interesting_is_in_what_the_property_folds() -> None:
    """The random teams have child runs, failures, retries, costs, waits and arrows that fire."""
    found: set[str] = set()
    for n in range(len(HISTORIES) + PLAYED):
        state = fold(log(n), log(n)[0][0]).state()
        found |= {table for table, rows in state.items() if rows}
        found |= {f"turn {row['state']}" for row in state["turns"].values()}
        found |= {f"wait {wait['why']}" for row in state["turns"].values() for wait in row["waits"]}
        found |= {f"run {row['state']}" for row in state["runs"].values()}
        found |= {"nested"} if len(state["runs"]) > 1 else set()

    assert found >= {
        *("position", "runs", "teams", "nodes", "arrows", "stages", "turns", "actors", "attention", "costs"),
        *("turn finished", "turn failed", "turn cancelled", "turn running", "turn waiting"),
        *("wait person", "wait retry", "run completed", "run failed", "run running", "nested"),
    }


@bundle("seed", range(40))
def test_the_arrows_fired_as_the_run_decided(seed: int) -> None:
    """Each statement fired as often as the fold of the run says at the ends of its turns."""
    plan = random_flow_plan(seed)
    stage = Stage(plan, Cast({name: _verdict("revise", "approve", "revise") for name in plan.agents}))
    stage.start()
    kind = kind_of(plan)
    run, decided = Fold("r", kind), Counter[tuple[str, tuple[str, ...]]]()
    for record in stage.store.read("r"):
        run.apply(record)
        for source, targets in kind.end_facts(getattr(record, "turn", "")).get("fired", ()):
            decided[source, tuple(targets)] += 1
    state, shown = fold(history(stage.store.read, "r"), "r").state(), Counter[tuple[str, tuple[str, ...]]]()
    for key, row in state["arrows"].items():
        run_id, _, index = key.rpartition("/")
        if run_id != "r":
            continue
        arrow = state["teams"][""]["arrows"][int(index)]
        group = plan.coordination.groups[arrow["group"]]
        assert (arrow["source"], arrow["target"] in group.targets) == (group.source, True)
        if arrow["target"] == group.targets[0]:
            shown[group.source, group.targets] += row["fired"]

    assert +shown == decided


def _verdict(*values: str) -> list[Any]:
    return [Answer(text="", outputs={"verdict": value}) for value in values]


def _review(**agents: AgentPlan) -> Plan:
    """A writer, a reviewer that sends the text back at most twice, and an end."""
    again = ArrowGroup(
        source="critic", targets=("writer",), when=Condition("critic", "verdict", Operator.EQ, "no"), max=2
    )
    on = ArrowGroup(source="critic", targets=("end",), when=Condition("critic", "verdict", Operator.EQ, "yes"))
    groups = (ArrowGroup(source="writer", targets=("critic",)), again, on)
    names = ("writer", "critic", "end")
    made = {name: agents.get(name, AgentPlan(name=name)) for name in names}
    return Plan(name="review", agents=made | agents, coordination=FlowPlan(mentions=names, groups=groups))


def test_a_flow_shows_what_is_to_come_and_how_often_each_arrow_fired() -> None:
    """Every node is there with its place from the start; a spent arrow and a forced one are marked."""
    stage = Stage(_review(), Cast({"critic": _verdict("no")}))
    stage.start()
    records: Log = [("r", record) for record in stage.store.read("r")]
    begun, ended = fold(records[:1], "r").state(), fold(records, "r").state()
    boxes = {box["name"]: box for box in begun["teams"][""]["boxes"]}

    assert {key: row["state"] for key, row in begun["nodes"].items()} == {
        "r/writer": "pending",
        "r/critic": "pending",
        "r/end": "pending",
    }
    assert [boxes[name]["stage"] for name in ("writer", "critic", "end")] == [0, 1, 2]
    assert boxes["writer"]["y"] < boxes["critic"]["y"] < boxes["end"]["y"]
    assert boxes["writer"]["width"] > 0
    assert [
        (one["source"], one["target"], one["when"], one["max"], one["back"]) for one in begun["teams"][""]["arrows"]
    ] == [
        ("writer", "critic", "", None, False),
        ("critic", "writer", 'critic.verdict == "no"', 2, True),
        ("critic", "end", 'critic.verdict == "yes"', None, False),
    ]
    shown = {key: (row["fired"], row["turn"], row["spent"], row["forced"]) for key, row in ended["arrows"].items()}
    assert shown == {
        "r/0": (3, "writer#3", False, False),
        "r/1": (2, "critic#3", True, False),
        "r/2": (1, "critic#3", False, True),
    }
    assert {key: (row["state"], row["starts"]) for key, row in ended["nodes"].items()} == {
        "r/writer": ("finished", 3),
        "r/critic": ("finished", 3),
        "r/end": ("finished", 1),
    }
    assert (ended["runs"]["r"]["turns"], ended["runs"]["r"]["done"]) == (7, 7)


def test_a_fallback_works_at_the_node_that_it_replaces() -> None:
    """Its turn counts there, and the arrows of that node fire."""
    plan = _review(writer=AgentPlan(name="writer", on_fail="fallback", fallback="spare"), spare=AgentPlan(name="spare"))
    stage = Stage(plan, Cast({"writer": [Failure(kind="exit", reason="no")], "critic": _verdict("yes")}))
    stage.start()
    state = fold([("r", record) for record in stage.store.read("r")], "r").state()

    assert state["turns"]["r/spare#1"]["node"] == "writer"
    assert {name: state["nodes"]["r/writer"][name] for name in ("state", "starts", "failed", "turn")} == {
        "state": "finished",
        "starts": 2,
        "failed": 1,
        "turn": "spare#1",
    }
    assert state["arrows"]["r/0"]["turn"] == "spare#1"


def test_a_plan_that_was_reloaded_keeps_what_fired() -> None:
    """The new plan agrees with all that was decided, so its arrows have fired as often; new nodes are pending."""
    stage = Stage(_review(), Cast({"critic": _verdict("no", "yes")}))
    stage.start()
    before: Log = [("r", record) for record in stage.store.read("r")]
    later = msgspec.structs.replace(_review(extra=AgentPlan(name="extra")), name="changed")
    last = before[-1][1]
    reloaded = r.PlanReloaded(seq=last.seq + 1, at=last.at, plan=to_json(later).decode())
    state = fold([*before, ("r", reloaded)], "r").state()

    assert {key: row["fired"] for key, row in state["arrows"].items()} == {"r/0": 2, "r/1": 1, "r/2": 1}
    assert state["teams"][""]["name"] == "changed"
    assert state["nodes"]["r/extra"]["state"] == "pending"


def test_teams_at_nodes_are_drawn_before_they_run_and_counted_once() -> None:
    """A team's own turn does not count, what ran in it does; a failure is that of the innermost turn."""
    inner = flow("x -> y", y=AgentPlan(name="y"))
    plan = flow("a -> team -> b", team=AgentPlan(name="team", kind="topology", child=inner))
    usage = r.Usage(cost=0.25, input_tokens=10)
    cast = Cast(
        {
            "a": [Answer(text="a", usage=usage)],
            "x": [Answer(text="x", usage=usage)],
            "y": [Failure(kind="exit", reason="broken", text="said this", usage=usage)],
        }
    )
    stage = Stage(plan, cast)
    stage.start()
    records = list(history(stage.store.read, "r"))
    begun, live = fold(records[:1], "r").state(), fold(records, "r")
    state = live.state()
    child = "r/team#1.1"
    failed = first_failure(live)
    spent = costs(live.costs.values(), "r", 2.0)

    assert [box["name"] for box in begun["teams"]["team"]["boxes"]] == ["x", "y"]
    assert next(box["nested"] for box in begun["teams"][""]["boxes"] if box["name"] == "team")
    assert state["runs"][child]["place"] == "team"
    assert state["turns"]["r/team#1"]["children"] == (child,)
    assert (state["runs"]["r"]["turns"], state["runs"]["r"]["done"], state["runs"]["r"]["cost"]) == (3, 3, 0.75)
    assert state["runs"]["r"]["failed_first"] == {"run": child, "turn": "y#1"}
    assert failed is not None
    assert (failed.run, failed.turn, failed.kind, failed.output) == (
        child,
        "y#1",
        "exit",
        "said this",
    )
    assert {path: one.cost for path, one in spent.by_agent.items()} == {"a": 0.25, "team/x": 0.25, "team/y": 0.25}
    assert [round(point.total, 2) for point in spent.points] == [0.25, 0.5, 0.75]
    assert dearest(spent) == {"a": 0.25, "team/x": 0.25, "team/y": 0.25}
    assert list(spent.by_turn) == ["a#1", "team#1.1/x#1", "team#1.1/y#1"]


def test_a_loop_is_its_roles_with_the_event_that_routed_last() -> None:
    """A handoff fires when the next role begins; an iteration belongs to its role."""
    roles = (RolePlan(id="plan", emits=("ready",)), RolePlan(id="build", emits=("done", "again", "task.complete")))
    handoff = (("loop.start", ("plan",)), ("ready", ("build",)), ("again", ("build",)), ("done", ("plan",)))
    play = Play(loop_plan(roles=roles, handoff=handoff, max_iterations=9))
    play.does("ready", "again", "done")
    records: Log = [("r", record) for record in play.log]
    first = records[0][1]
    assert isinstance(first, r.RunStarted)
    state = fold([("r", msgspec.structs.replace(first, plan=to_json(play.plan).decode())), *records[1:]], "r").state()
    arrows = {(one["source"], one["event"], one["target"]): one["index"] for one in state["teams"][""]["arrows"]}
    fired = {arrow: state["arrows"].get(f"r/{index}", {}).get("fired", 0) for arrow, index in arrows.items()}

    assert fired == {("plan", "ready", "build"): 1, ("build", "done", "plan"): 1, ("build", "again", "build"): 1}
    assert {key: row["starts"] for key, row in state["nodes"].items()} == {"r/plan": 2, "r/build": 2}
    assert state["nodes"]["r/plan"]["state"] == "running"
    assert state["turns"]["r/iteration#2"]["event"] == "again"
    event = state["runs"]["r"]["last_event"]
    assert (event["event"], event["source"], event["target"], event["turn"]) == ("done", "build", "plan", "iteration#3")
    assert (state["runs"]["r"]["iteration"], state["runs"]["r"]["most_iterations"]) == (4, 9)


def test_a_pattern_is_its_stages() -> None:
    """Turns that began together are one stage, and the handoffs from the stage before fire."""
    slots = {name: AgentPlan(name=name) for name in ("primary", "checker_0", "checker_1")}
    played = Performance(pattern("crosscheck", slots), {"prompt": "go"}, scripted({}))
    state = fold([("r", record) for record in played.store.read("r")], "r").state()
    arrows = state["teams"][""]["arrows"]
    fired = {
        (arrows[int(key.rpartition("/")[2])]["source"], arrows[int(key.rpartition("/")[2])]["target"])
        for key in state["arrows"]
    }

    assert list(state["stages"].values())[:2] == [["primary#1"], ["checker_0#1", "checker_1#1"]]
    assert {("primary", "checker_0"), ("primary", "checker_1")} <= fired


def test_a_system_is_its_tree_with_what_happened_to_it() -> None:
    """The tree is drawn before it runs; restarts, crashes and dead letters count."""
    root = SupervisorPlan(name="root", children=(ActorPlan(name="w", type="m.W"), SupervisorPlan(name="low")))
    plan = Plan(name="s", coordination=SystemPlan(root=root))
    said = [
        r.RunStarted(run="r", engine="system", plan=to_json(plan).decode()),
        r.ActorStarted(name="root", kind="supervisor"),
        r.ActorStarted(name="w", path="root"),
        r.ActorCrashed(name="w", error="ValueError: x"),
        r.RestartPlanned(supervisor="root", name="w", names=("w",)),
        r.ActorStarted(name="w", path="root", incarnation=2),
        r.LetterDead(id="1", recipient="w", reason="timeout", count=3),
    ]
    records: Log = [("r", msgspec.structs.replace(one, seq=n, at=float(n))) for n, one in enumerate(said, 1)]
    state = fold(records, "r").state()
    actor = state["actors"]["r/w"]

    assert [(one["source"], one["target"]) for one in state["teams"][""]["arrows"]] == [("root", "w"), ("root", "low")]
    assert [box["kind"] for box in state["teams"][""]["boxes"]] == ["supervisor", "agent", "supervisor"]
    assert (actor["above"], actor["state"], actor["restarts"], actor["crashes"]) == ("root", "running", 1, 1)
    assert actor["letters"] == {"timeout": 3}
    assert actor["reason"] == "ValueError: x"
    assert fold(records[:5], "r").state()["actors"]["r/w"]["state"] == "waiting"


def _waiting() -> Iterator[tuple[str, list[r.Record], list[tuple[str, bool]]]]:
    started = r.TurnStarted(turn="a#1", agent="a")
    asked = r.AttentionAsked(id="a#1?1", turn="a#1", attempt=1, tool="Bash")
    answered = r.AttentionAnswered(id="a#1?1", turn="a#1", attempt=1, answer="allow")
    failed = r.AttemptFailed(turn="a#1", attempt=1, kind="quota", reason="spent", until=99.0)
    cut = r.AttemptInterrupted(turn="a#1", attempt=1, reason=r.PARKED)
    again = r.TurnStarted(turn="a#1", agent="a", attempt=2)
    yield "asked", [started, asked], [("person", True)]
    yield "answered", [started, asked, answered], [("person", False)]
    yield "quota", [started, failed], [("quota", True)]
    yield "again", [started, failed, again], [("quota", False)]
    yield "parked", [started, cut], [("person", True)]
    yield "retry", [started, msgspec.structs.replace(failed, until=0.0)], [("retry", True)]
    yield "over", [started, asked, r.TurnCancelled(turn="a#1")], [("person", False)]
    yield "human", [r.TurnStarted(turn="h#1", agent="h")], [("person", True)]


@bundle("name, said, waits", _waiting(), ids=lambda one: str(one) if isinstance(one, str) else "")
def test_what_a_turn_waits_for(name: str, said: list[r.Record], waits: list[tuple[str, bool]]) -> None:
    """A person, a quota or the next attempt; while it waits it is not working."""
    plan = flow("a -> h", h=AgentPlan(name="h", kind="human"))
    first = r.RunStarted(run="r", engine="flow", plan=to_json(plan).decode())
    records: Log = [("r", msgspec.structs.replace(one, seq=n, at=float(n))) for n, one in enumerate([first, *said], 1)]
    live = fold(records, "r")
    [row] = live.state()["turns"].values()

    assert [(wait["why"], wait["end"] is None) for wait in row["waits"]] == waits
    assert (row["state"] == "waiting") == waits[-1][1]
    assert bool(live.runs["r"].working()) == (row["state"] == "running")


def test_a_run_that_was_reopened_is_running_again() -> None:
    """What ended it counts no longer: not the failed turn, not the first failure, not the end."""
    stage = Stage(flow("a -> b -> c"), Cast({"b": [Failure(kind="exit", reason="no")]}))
    stage.start()
    records: Log = [("r", record) for record in stage.store.read("r")]
    live = fold(records, "r")
    failed = live.state()
    last = records[-1][1]
    assert isinstance(last, r.RunFinished)

    def tell(record: r.Record) -> None:
        seq = live.position["r"] + 1
        live.apply("r", msgspec.structs.replace(record, seq=seq, at=last.at + seq))

    since = next(one.seq for _, one in records if isinstance(one, r.TurnFailed))
    tell(r.RunReopened(turns=("b#1",), since=since))
    waiting = live.state()
    tell(r.RunOwned(epoch=2))
    tell(r.TurnStarted(turn="b#1", agent="b", attempt=2))
    again = merge(waiting, live.changes())
    assert first_failure(live) is None
    tell(r.TurnFinished(turn="b#1", attempt=2, text="done"))
    tell(r.RunFinished(outcome="completed"))
    ended = merge(again, live.changes())

    assert failed["runs"]["r"]["failed_first"] == {"run": "r", "turn": "b#1"}
    assert (again["runs"]["r"]["state"], again["runs"]["r"]["finished"], again["runs"]["r"]["failed_first"]) == (
        "running",
        None,
        None,
    )
    assert (again["turns"]["r/b#1"]["state"], again["turns"]["r/b#1"]["finished"]) == ("running", None)
    assert (again["runs"]["r"]["turns"], again["runs"]["r"]["done"]) == (2, 1)
    assert (ended["nodes"]["r/b"]["failed"], ended["nodes"]["r/b"]["state"], ended["nodes"]["r/b"]["starts"]) == (
        0,
        "finished",
        1,
    )
    assert [halt["reason"] for halt in ended["runs"]["r"]["halts"]] == ["failed", "completed"]
    assert ended["runs"]["r"]["words"] == "completed"
    assert ended["runs"]["r"]["done"] == 2
    assert {key: row["fired"] for key, row in ended["arrows"].items()} == {"r/0": 1, "r/1": 1}
    assert [wait["end"] is None for wait in waiting["turns"]["r/b#1"]["waits"]] == [False, True]
    assert (waiting["turns"]["r/b#1"]["state"], waiting["nodes"]["r/b"]["failed"]) == ("waiting", 0)


def test_long_texts_of_agents_do_not_travel_with_each_change() -> None:
    """A row holds the beginning of a prompt and of a reason, whatever their length."""
    plan = flow("a -> b")
    long = "x" * 1_000_000
    said = [
        r.RunStarted(run="r", engine="flow", plan=to_json(plan).decode(), input={"prompt": long}),
        r.TurnStarted(turn="a#1", agent="a"),
        r.AttemptFailed(turn="a#1", attempt=1, kind="exit", reason=long),
        r.TurnFailed(turn="a#1", kind="exit", reason=long),
        r.RunFinished(outcome="failed", reason=long),
    ]
    records: Log = [("r", msgspec.structs.replace(one, seq=n, at=float(n))) for n, one in enumerate(said, 1)]

    assert len(msgspec.json.encode(fold(records, "r").state())) < 20_000


def test_a_run_that_failed_without_a_turn_says_why() -> None:
    """As one whose work could not be merged."""
    said = [r.RunStarted(run="r", engine="flow"), r.RunFinished(outcome="failed", reason="merge_conflict")]
    records: Log = [("r", msgspec.structs.replace(one, seq=n)) for n, one in enumerate(said, 1)]
    found = first_failure(fold(records, "r"))

    assert found is not None
    assert (found.turn, found.reason) == ("", "merge_conflict")
    assert first_failure(fold(records[:1], "r")) is None


@pytest.mark.parametrize("text", ["x", "-1", "7;", "7;=3", "7;a=b", "7;polish#1.1"])
def test_a_text_that_is_no_position_is_refused(text: str) -> None:
    """Whoever goes on after it would read everything again, as if it were new."""
    with pytest.raises(UsageError, match="is no position in a run: give one"):
        read_position(text, "r")


def test_what_no_row_shows_is_not_kept() -> None:
    """A run may be told something without end: only the position of its state changes."""
    live = LiveRun("r")
    live.apply("r", r.RunStarted(run="r", engine="flow", seq=1, at=1.0, topology="t", plan=to_json(flow("a")).decode()))
    live.state()
    for seq in range(2, 50):
        live.apply("r", r.OperatorSaid(seq=seq, at=1.0, message=f"m{seq}", what="guide", text="go on"))
        assert live.changes()["position"] == {"r": seq}
    assert live.runs["r"].view.noted == []


def test_a_team_waits_if_all_in_it_do() -> None:
    """Nothing works at its node once what is in it was stopped; then the next attempt does."""
    team = AgentPlan(name="team", kind="topology", child=flow("a -> b"))
    plan = to_json(flow("team -> end", team=team)).decode()
    below, asked = "r/team#1.1", {"turn": "a#1", "agent": "a"}
    told: list[tuple[str, r.Record, str]] = [
        ("r", r.RunStarted(run="r", engine="flow", plan=plan), "pending"),
        ("r", r.TurnStarted(turn="team#1", agent="team"), "running"),
        (below, r.RunStarted(run=below, engine="flow"), "running"),
        (below, r.TurnStarted(**asked), "running"),
        (below, r.AttemptInterrupted(turn="a#1", attempt=1, reason="interrupted"), "waiting"),
        (below, r.RunStopped(reason="interrupted"), "waiting"),
        ("r", r.RunStopped(reason="interrupted"), "waiting"),
        ("r", r.RunOwned(epoch=2), "waiting"),
        (below, r.RunOwned(epoch=2), "waiting"),
        (below, r.TurnStarted(**asked, attempt=2), "running"),
    ]
    live, seqs = LiveRun("r"), Counter[str]()
    state = live.state()
    for run, record, shown in told:
        seqs[run] += 1
        live.apply(run, msgspec.structs.replace(record, seq=seqs[run], at=1.0))
        state = merge(state, live.changes())
        assert state["nodes"]["r/team"]["state"] == shown, record
        assert state["turns"].get("r/team#1", {"state": "pending"})["state"] == shown, record


def test_nothing_works_in_a_run_without_an_owner() -> None:
    """The records do not tell that a process was killed; each row of what was at work changes, and back again."""
    live = LiveRun("r")
    begin = [
        r.RunStarted(run="r", engine="flow", engine_version=1, topology="t", plan=""),
        r.RunOwned(epoch=1),
        r.TurnStarted(turn="a#1", agent="a", attempt=1),
    ]
    for seq, record in enumerate(begin, 1):
        live.apply("r", msgspec.structs.replace(record, seq=seq, at=float(seq)))
    before = live.state()
    live.own(True)
    unchanged = live.changes()
    live.own(False)
    after = merge(before, live.changes())
    live.own(True)
    back = merge(after, live.changes())

    assert unchanged == {}
    assert [before["turns"]["r/a#1"]["state"], after["turns"]["r/a#1"]["state"]] == ["running", "cut off"]
    assert [one["state"] for one in after["turns"]["r/a#1"]["attempts"]] == ["cut off"]
    assert (after["runs"]["r"]["state"], after["runs"]["r"]["words"]) == ("cut off", "cut off")
    assert back == before
    live.own(False)
    live.apply("r", r.RunStopped(reason="max_turns", seq=4, at=4.0))
    assert live.state()["runs"]["r"]["state"] == "stopped"


def test_a_set_is_one_node_with_its_items() -> None:
    """Those that have not begun count for it until its end, and a tolerated failure does not fail it."""
    lister = AgentPlan(name="lister", outputs=(Wanted(name="l", type="list"),))
    plan = flow("lister -> check -> report", lister=lister)
    assert plan.flow is not None
    maps = {"check": MapPlan(agent="lister", field="l", at_most=9, at_once=2, tolerate=1)}
    each = MappedFlowPlan(mentions=plan.flow.mentions, groups=plan.flow.groups, maps=maps)
    lists = Answer(text="", outputs={"l": ["a", "b", "c", "d"]})
    cast = Cast({"lister": [lists], "check": [Answer(text="ok"), Failure(kind="exit", reason="no"), Answer(text="ok")]})
    stage = Stage(Plan(name="test", agents=plan.agents, coordination=each), cast)
    stage.start()
    records = list(history(stage.store.read, "r"))
    begun = next(n for n, (_, one) in enumerate(records) if isinstance(one, r.TurnStarted) and one.turn == "check#2")

    def shown(n: int) -> Any:
        state = fold(records[:n], "r").state()
        node, run = state["nodes"]["r/check"], state["runs"]["r"]
        return [node[name] for name in ("state", "items", "left", "finished", "failed")], run["left"]

    assert shown(begun + 1) == (["running", 4, 2, 0, 0], 3)
    assert shown(len(records)) == (["finished", 4, 0, 3, 1], 0)
    assert {row["set"] for row in fold(records, "r").state()["turns"].values()} == {"", "check@1"}


def test_a_view_keeps_the_beginnings_of_answers() -> None:
    """As much as its rows show; the rows are those of a view that keeps all."""
    log: Log = []
    for run in ("r", "r/b#1.1"):
        team = plan_of_two() if run == "r" else flow("c -> d")
        given, plan = {"prompt": LONG, "l": [LONG]}, to_json(team).decode()
        records: list[r.Record] = [r.RunStarted(run=run, engine="flow", plan=plan, input=given)]
        for name in ("a", "b") if run == "r" else ("c", "d"):
            records.append(r.TurnStarted(turn=f"{name}#1", agent=name))
            records.append(r.TurnFinished(turn=f"{name}#1", attempt=1, text=LONG, outputs={"l": [LONG], "n": 1}))
        records.append(r.RunFinished(outcome="completed", result={"text": LONG, "outputs": {"b": {"l": [LONG]}}}))
        log += [(run, msgspec.structs.replace(one, seq=n, at=float(n))) for n, one in enumerate(records, 1)]
    short, whole = fold(log, "r"), fold(log, "r", answers=None)

    assert short.state() == whole.state()
    some = short.state(("runs", "nodes"))
    assert {name: some[name] for name in ("runs", "nodes")} == {name: whole.state()[name] for name in ("runs", "nodes")}
    assert not some["turns"]
    views = [one.view for one in short.runs.values()]
    assert len(msgspec.json.encode([(one.input, one.result, one.turns) for one in views])) < 4 * len(LONG)
    heard = [one for known in short.runs.values() for one in known.plan._heard]
    assert len(msgspec.json.encode(heard)) < 6 * len(LONG)
    assert not any(one.text for one in heard if isinstance(one, r.TurnFinished))


def plan_of_two() -> Plan:
    """A flow with a team in it."""
    return flow("a -> b", b=AgentPlan(name="b", kind="topology", child=flow("c -> d")))
