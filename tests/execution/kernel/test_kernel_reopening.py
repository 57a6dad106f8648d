"""A failed run that is reopened: what is retried, what stands, and that every kill in between is survived."""

from collections.abc import Callable
from typing import Any

import pytest
from bundles import bundle
from msgspec.structs import replace
from nests import how_it_ends, nested
from pattern_play import pattern
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.errors import RetryRefused, RunIsOwned
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.opening import RootOpening, reported
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.retry import before_failure, reopening
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import (
    AttemptFailed,
    Record,
    RunFinished,
    RunReopened,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.history.journal.runs import Journal, RunReader
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Limits, Plan

BROKEN = Failure(kind="exit", reason="exit status 1", usage=Usage(cost=1.0))
PAID = Answer(text="done", usage=Usage(cost=1.0))


def journals(store: MemoryStore) -> list[Journal]:
    """The journals of the run and its child runs."""
    return list(RunReader(store).tree("r"))


def retry(stage: Stage, turn: str = "", plan: Plan | None = None) -> RunExit:
    """Reopen the run of *stage* under *plan*, and drive it to its end."""
    opening = RootOpening(
        reopened=reopening(journals(stage.store), stage.clock.now(), turn), is_reloaded=plan is not None
    )
    stage.shell = stage._shell(None)
    return stage.clock.run(stage.shell.resume("r", plan or stage.plan, opening))


def started(stage: Stage, run: str = "r") -> list[str]:
    """The attempts that were started, in order."""
    return [f"{record.turn}.{record.attempt}" for record in stage.records(TurnStarted, run=run)]


def check(stage: Stage, ended: RunExit) -> None:
    """The journals of a run that has ended replay, and say what its end says."""
    for journal in journals(stage.store):
        fold = Fold(journal.run, kind_of(journal.plan()))
        fold.fold(journal.records)
        assert fold.todo == {}, journal.run
        if journal.run == "r":
            assert fold.spent == ended.usage
    leaves = [record for one in journals(stage.store) for record in one.records if _is_leaf(one, record)]
    assert sum((record.usage.cost for record in leaves), 0.0) == ended.usage.cost


def _is_leaf(journal: Journal, record: Any) -> bool:
    """Whether *record* says what an attempt used that is no child run."""
    if not isinstance(record, TurnFinished | AttemptFailed | TurnCancelled):
        return False
    starts = [one for one in journal.records if isinstance(one, TurnStarted) and one.turn == record.turn]
    agent = kind_of(journal.plan()).agents.get(starts[0].agent) if starts else None
    return agent is None or agent.child is None


def team(child: Plan, **fields: Any) -> AgentPlan:
    """An agent that *child* plays."""
    return AgentPlan(name="team", kind="topology", child=child, **fields)


def loop(**fields: Any) -> LoopPlan:
    """A loop of one role that emits nothing."""
    role = RolePlan(id="one", emits=("again",))
    return LoopPlan(roles=(role,), handoff=(("loop.start", ("one",)),), **{"max_iterations": 3, **fields})


def loop_of(*agents: AgentPlan, **fields: Any) -> Plan:
    return Plan(name="loop", agents={one.name: one for one in agents}, coordination=loop(**fields))


# -- what is retried --------------------------------------------------------------------------------------------------


def test_the_turn_that_failed_gets_its_next_attempt_and_fresh_retries() -> None:
    """Attempts are counted on; `retry 1` holds anew after each reopening; what had finished is not run again."""
    plan = flow("a -> b -> c", b=AgentPlan(name="b", retry=1))
    stage = Stage(plan, Cast({"b": [BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, PAID]}))

    assert stage.start().status == "failed"
    assert retry(stage).status == "failed"
    assert started(stage) == ["a#1.1", "b#1.1", "b#1.2", "b#1.3", "b#1.4"]
    ended = retry(stage)
    assert ended.status == "completed"
    assert started(stage) == ["a#1.1", "b#1.1", "b#1.2", "b#1.3", "b#1.4", "b#1.5", "b#1.6", "c#1.1"]
    assert ended.usage.cost == 6.0
    assert [one.turns for one in stage.records(RunReopened)] == [("b#1",), ("b#1",)]
    assert "exit status 1" in stage.cast.asked[-2].prompt, "the next attempt learns how the last one failed"
    check(stage, ended)


def test_the_turns_that_have_not_ended_are_open_after_every_record() -> None:
    """Those that a reopening brings back as well: what waits for a person or costs money is found among them."""
    stage = Stage(flow("a -> b -> c", b=AgentPlan(name="b")), Cast({"b": [BROKEN, PAID]}))
    assert stage.start().status == "failed"
    assert retry(stage).status == "completed"
    [journal] = journals(stage.store)
    seen = set()
    for end in range(1, len(journal.records) + 1):
        fold = Fold("r", kind_of(journal.plan()))
        fold.fold(journal.records[:end])
        assert list(fold.open) == [name for name, turn in fold.turns.items() if turn.status != "ended"]
        seen.update((name, turn.attempt, turn.status) for name, turn in fold.open.items())
    assert {("b#1", 1, "between"), ("b#1", 2, "running")} <= seen


def test_what_the_failure_cancelled_is_retried_too() -> None:
    """Turns that ran, that waited for a place and for a retry, go on; a turn that had finished stands."""
    plan = flow("go -> [bad, quick, slow, late]")
    stage = Stage(plan, Cast({"bad": [BROKEN, PAID], "slow": [PAID]}, seconds=5.0), limits=Limits(max_parallel=2))
    assert stage.start().status == "failed"
    assert "late#1" in [record.turn for record in stage.records(TurnCancelled)]
    ended = retry(stage)

    assert ended.status == "completed"
    assert sorted(started(stage)) == sorted({*started(stage)}), "no attempt is started twice"
    assert {record.turn for record in stage.records(TurnFinished)} == {"go#1", "bad#1", "quick#1", "slow#1", "late#1"}
    [reopened] = stage.records(RunReopened)
    assert reopened.turns[0] == "bad#1"
    check(stage, ended)


@bundle(
    "fails, on_fail, fallback, wanted",
    [
        ("a", "skip", "", "d#1"),
        ("a", "continue", "", "d#1"),
        ("a", "fallback", "spare", "d#1"),
    ],
    ids=str,
)
def test_turns_that_on_fail_skipped_or_replaced_are_not_retried(
    fails: str, on_fail: str, fallback: str, wanted: str
) -> None:
    """Only what failed the run is; naming another failed turn is refused."""
    agent = AgentPlan(name=fails, on_fail=on_fail, fallback=fallback)
    spare = {"spare": AgentPlan(name="spare")} if fallback else {}
    stage = Stage(flow("go -> [a, d]", a=agent, **spare), Cast({"a": [BROKEN], "d": [BROKEN, PAID]}))
    assert stage.start().status == "failed"

    with pytest.raises(RetryRefused, match="failed, but that did not end the run; `coterie resume r --retry d#1`"):
        retry(stage, "a#1")
    ended = retry(stage)
    assert ended.status == "completed"
    assert [record.turns[0] for record in stage.records(RunReopened)] == [wanted]
    assert started(stage).count("a#1.2") == 0
    check(stage, ended)


def test_a_fallback_that_failed_is_retried_itself() -> None:
    """The agent that it replaced is not."""
    agents = {"a": AgentPlan(name="a", on_fail="fallback", fallback="spare"), "spare": AgentPlan(name="spare")}
    stage = Stage(flow("a -> b", **agents), Cast({"a": [BROKEN], "spare": [BROKEN, PAID]}))
    assert stage.start().status == "failed"
    ended = retry(stage)

    assert started(stage) == ["a#1.1", "spare#1.1", "spare#1.2", "b#1.1"]
    check(stage, ended)


def test_failed_child_runs_are_reopened_in_place_three_deep() -> None:
    """Each under its id, from where it was; their finished turns stand, and everything that was used counts once."""
    leaf = flow("before -> leaf -> end")
    stage = Stage(
        flow("go -> team -> last", team=nested(3, leaf)), Cast({"leaf": [BROKEN, BROKEN, PAID], "before": [PAID]})
    )
    assert stage.start().status == "failed"
    assert retry(stage, "team#1/team#1/team#1/leaf#1").status == "failed"
    ended = retry(stage)

    assert ended.status == "completed"
    inner = "r/team#1.1/team#1.1/team#1.1"
    assert started(stage, inner) == ["before#1.1", "leaf#1.1", "leaf#1.2", "leaf#1.3", "end#1.1"]
    assert started(stage) == ["go#1.1", "team#1.1", "last#1.1"]
    for run in (inner, "r/team#1.1/team#1.1", "r/team#1.1", "r"):
        assert [how.above for how in stage.records(RunReopened, run=run)] == sorted(
            [how.above for how in stage.records(RunReopened, run=run)]
        )
        assert len(stage.records(RunReopened, run=run)) == 2
        assert how_it_ends(stage.records(run=run)) == "completed"
    assert stage.records(RunReopened)[0].turns == ("team#1.1/team#1.1/team#1.1/leaf#1",)
    check(stage, ended)


def test_a_team_that_was_cancelled_or_late_goes_on_where_it_was() -> None:
    """Beside a failed turn, or after its own timeout, which begins anew."""
    stage = Stage(flow("go -> [team, bad]", team=nested(2, flow("x -> y -> z"))), Cast({"bad": [BROKEN, PAID]}))
    assert stage.start().status == "failed"
    ended = retry(stage)
    assert ended.status == "completed"
    assert [f for f in started(stage, "r/team#1.1/team#1.1") if f.endswith(".1")] == ["x#1.1", "y#1.1", "z#1.1"]
    check(stage, ended)

    late = Stage(flow("team -> last", team=nested(2, flow("x -> y -> z -> w"), timeout=3.5)), Cast({"x": [PAID]}))
    assert late.start().status == "failed"
    ended = retry(late)
    assert ended.status == "completed"
    inner = started(late, "r/team#1.1/team#1.1")
    assert [one for one in inner if one.startswith("x#1")] == ["x#1.1"], "what had finished in time stands"
    check(late, ended)


def test_a_team_without_anything_to_retry_is_asked_anew() -> None:
    """A reply that the caller could not use, and a failure that no turn caused, do not change by going on."""
    wants = flow("x -> y")
    empty = pattern("pipeline", ["stage_0"])
    for child, said in ((empty, {"stage_0": [Answer(text=" "), PAID]}), (wants, {"y": [BROKEN, PAID]})):
        stage = Stage(flow("team -> b", team=team(child)), Cast(said))
        assert stage.start().status == "failed"
        ended = retry(stage)
        assert ended.status == "completed"
        attempts = [one for one in started(stage) if one.startswith("team")]
        assert attempts == (["team#1.1", "team#1.2"] if child is empty else ["team#1.1"])
        check(stage, ended)


def test_a_loop_goes_on_at_the_iteration_that_failed() -> None:
    """Its count of failures is that before the failure, its caps hold, and its iteration keeps its number."""
    stage = Stage(
        loop_of(AgentPlan(name="one"), max_failures=2, max_iterations=3), Cast({"one": [BROKEN] * 3 + [PAID]})
    )
    assert stage.start().status == "failed"
    assert started(stage) == ["iteration#1.1", "iteration#2.1"]
    assert retry(stage).status == "failed"
    ended = retry(stage)

    assert (ended.status, ended.reason, ended.iterations) == ("stopped", "max_iterations", 3)
    assert started(stage) == ["iteration#1.1", *(f"iteration#2.{n}" for n in (1, 2, 3)), "iteration#3.1"]


@bundle("turn, retried", [("", ["a#1", "b#1", "c#1"]), ("b#1", ["b#1"])], ids=str)
def test_the_failures_of_an_ensemble_are_retried_together_or_one(turn: str, retried: list[str]) -> None:
    """All that failed it by default; one that is named may be enough, and the failures of the others stand."""
    slots = {name: AgentPlan(name=name) for name in ("voice_0", "voice_1", "voice_2", "voice_3")}
    plan = pattern("ensemble", slots, aggregation_method="vote", failure_threshold=0.5)
    said = {name: [BROKEN, Answer(text="yes")] for name in ("voice_0", "voice_1", "voice_2")}
    stage = Stage(plan, Cast(said | {"voice_3": [Answer(text="yes")]}))
    first = stage.start()
    assert first.status == "failed", first
    names = {"a": "voice_0", "b": "voice_1", "c": "voice_2"}
    wanted = [one.replace(one[0], names[one[0]], 1) for one in retried]
    ended = retry(stage, turn and turn.replace(turn[0], names[turn[0]], 1))

    assert ended.status == "completed", ended
    assert [one for one in started(stage) if one.endswith(".2")] == [f"{one}.2" for one in wanted]
    check(stage, ended)


# -- another plan, other owners, kills --------------------------------------------------------------------------------


@bundle(
    "change",
    [
        {"retry": 3},
        {"on_fail": "skip"},
        {"on_fail": "fallback", "fallback": "c"},
        {"timeout": 9.0},
        {"prompt": "Better."},
    ],
    ids=str,
)
def test_the_plan_may_have_changed(change: dict[str, Any]) -> None:
    """What the new plan would have decided of the failure does not matter: it counts no longer."""
    stage = Stage(flow("a -> [b, x] -> c"), Cast({"b": [BROKEN, PAID]}))
    assert stage.start().status == "failed"
    agents = stage.plan.agents | {"b": replace(stage.plan.agents["b"], **change)}
    ended = retry(stage, plan=replace(stage.plan, agents=agents))

    assert ended.status == "completed"
    assert started(stage).count("b#1.2") == 1
    check(stage, ended)


def test_of_two_that_retry_at_once_one_is_refused() -> None:
    """The run went on after the other had read it."""
    stage = Stage(flow("a -> b"), Cast({"b": [BROKEN, BROKEN, PAID]}))
    stage.start()
    late = RootOpening(reopened=reopening(journals(stage.store), 0.0))
    assert retry(stage).status == "failed"
    before = stage.records()
    with pytest.raises(RunIsOwned):
        stage.clock.run(stage._shell(None).resume("r", stage.plan, late))
    assert stage.records() == before


KILLED: dict[str, Callable[[], Stage]] = {
    "flow": lambda: Stage(flow("go -> [bad, slow] -> end"), Cast({"bad": [BROKEN, BROKEN, PAID]})),
    "nest": lambda: Stage(
        flow("go -> [team, x] -> end", team=nested(3, flow("p -> [leaf, q]"))), Cast({"leaf": [BROKEN, BROKEN, PAID]})
    ),
    "called off": lambda: Stage(flow("go -> [team, bad]", team=nested(3)), Cast({"bad": [BROKEN] * 2 + [PAID]})),
    "loop": lambda: Stage(
        loop_of(AgentPlan(name="one"), max_failures=1, max_iterations=2), Cast({"one": [BROKEN, BROKEN, PAID]})
    ),
    "ensemble": lambda: Stage(
        pattern(
            "ensemble",
            {f"voice_{k}": AgentPlan(name=f"voice_{k}") for k in range(3)},
            aggregation_method="vote",
            failure_threshold=0.0,
        ),
        Cast({"voice_1": [BROKEN, BROKEN, PAID], "voice_2": [BROKEN, PAID]}),
    ),
}


@bundle("name", KILLED)
def test_an_owner_killed_at_any_append_is_succeeded(name: str) -> None:
    """After each prefix of what the owners wrote, from the first failure on, the next one ends the run as they did."""
    stage = KILLED[name]()
    order: list[tuple[str, Record]] = []
    watched(stage, order, lambda shell: shell.start("r", stage.plan, {"prompt": "go"}))
    upto = len(order)
    whole = RunExit(run="r", status="failed")
    while whole.status == "failed":
        opening = RootOpening(reopened=reopening(journals(stage.store), stage.clock.now()))
        whole = watched(stage, order, lambda shell, how=opening: shell.resume("r", stage.plan, how))
    assert sum(isinstance(record, RunReopened) for run, record in order if run == "r") == 2

    for kept in range(upto, len(order)):
        again = Stage(stage.plan)
        again.clock.advance(1000.0)
        for run, record in order[:kept]:
            again.store.fill(run, [record])
        ended = (
            retry(again)
            if isinstance(order[kept - 1][1], RunFinished) and order[kept - 1][0] == "r"
            else again.resume()
        )
        while ended.status == "failed":  # its last failure was recorded, and what it led to was not
            ended = retry(again)
        assert ended.status == whole.status, (kept, ended)
        assert sorted(finished(again, "r")) == sorted(finished(stage, "r")), kept
        for run in {one for one, _ in order}:
            assert len({*finished(again, run)}) == len(finished(again, run)), (kept, run)
            above = [one.above for one in again.records(RunReopened, run=run) if one.above]
            assert len({*above}) == len(above), f"{kept}: {run} is reopened once for each time that its parent is"
        check(again, ended)


def watched(stage: Stage, order: list[tuple[str, Record]], main: Callable[[Shell], Any]) -> RunExit:
    """Drive the run of *stage* to its end, and add its records to *order* as they are appended."""
    shell = stage._shell(None)
    shell.watch(lambda run, record: order.append((run, record)))
    ended: RunExit = stage.clock.run(main(shell))
    return ended


def finished(stage: Stage, run: str) -> list[str]:
    """The turns that finished; none of them may be run again."""
    return [record.turn for record in stage.records(TurnFinished, run=run)] if stage.store.has(run) else []


# -- what is refused --------------------------------------------------------------------------------------------------


def at_max(way: str) -> Plan:
    plan = flow("a -> b")
    [group] = plan.coordination.groups
    return replace(plan, coordination=replace(plan.coordination, groups=(replace(group, max=0, on_max=way),)))


@bundle(
    "play, turn, says",
    [
        (lambda: ran(Stage(flow("a -> b"))), "", "it has completed; `coterie fork r --at SEQ` begins a new run"),
        (
            lambda: ran(Stage(flow("a -> b")), limits=Limits(max_turns=1)),
            "",
            r"it did not fail, it was stopped \(max_turns\); `coterie resume r --max-turns N` continues it",
        ),
        (
            lambda: ran(Stage(pattern("pipeline", ["stage_0"]), Cast({"stage_0": [Answer(text=" ")]}))),
            "",
            "no failed turn ended it, but this: .* empty answer; `coterie fork r --at 2` begins a new run before",
        ),
        (lambda: ran(failed()), "c#1", "it has no turn 'c#1'; .*`coterie resume r --retry b#1` retries"),
        (lambda: ran(failed()), "a#1", "a#1 did not fail; `coterie resume r --retry b#1` retries"),
        (lambda: ran(failed()), "x#1", "x#1 was cancelled: it is retried together with what failed the run"),
    ],
    ids=["completed", "stopped", "no turn", "unknown", "finished", "cancelled"],
)
def test_what_is_not_retried_says_what_to_type(play: Callable[[], Stage], turn: str, says: str) -> None:
    """The message has the reason and the next command, and nothing is written."""
    stage = play()
    before = stage.records()
    with pytest.raises(RetryRefused, match=says):
        retry(stage, turn)
    assert stage.records() == before


def ran(stage: Stage, limits: Limits | None = None) -> Stage:
    stage.start(limits)
    return stage


def failed() -> Stage:
    """A run in which b fails after a has answered, and while x works."""
    return Stage(flow("a -> [b, x]"), Cast({"b": [BROKEN]}))


def test_a_fork_of_a_failed_run_begins_before_the_turn_that_failed_it() -> None:
    """Of one that has not failed there is no such place."""
    stage = ran(failed())
    [start] = [one for one in stage.records(TurnStarted) if one.turn == "b#1"]
    assert before_failure(journals(stage.store)) == start.seq - 1
    assert before_failure(journals(ran(Stage(flow("a -> b"))).store)) is None


def failure(turn: str, attempt: int = 1) -> AttemptFailed:
    return AttemptFailed(turn=turn, attempt=attempt, kind="exit", reason="no", usage=Usage(cost=1.0))


def test_the_last_report_of_a_turn_whose_child_run_is_reopened_is_found() -> None:
    """Of that attempt alone, and not of child runs' own turns."""
    records = [
        failure("team#1"),
        failure("team#1", 2),
        failure("other#1"),
        TurnCancelled(turn="late#1", usage=Usage(cost=1.0)),
    ]

    assert reported(records, ["team#1.2", "late#1.1", "team#1.2/coder#1.1"]) == {
        "team#1": Usage(cost=1.0),
        "late#1": Usage(cost=1.0),
    }
    assert reported(records, ["team#1.3"]) == {}


def test_a_report_that_an_earlier_reopening_took_back_is_not_taken_back_again() -> None:
    """The run has failed a second time, before that turn reported anything new."""
    records = [failure("team#1"), RunReopened(turns=("team#1",), since=1), failure("other#1")]

    assert reported(records, ["team#1.1", "other#1.1"]) == {"other#1": Usage(cost=1.0)}
