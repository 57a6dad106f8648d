"""A budget holds for attempts that run at once, for those that cost more than expected, and across crashes."""

import asyncio
from pathlib import Path

import msgspec
from bundles import bundle
from hypothesis import strategies as st
from loop_play import loop_plan, plan_of, waves
from played import played
from sampled import sampled
from spending import Costs, Spending
from stage import Cast, Part, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, AttemptRef, Emitted, Failure, OnEvent, Request, Text, Used
from coterie.agents.backends.prices import estimated_cost
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import Conversation, Question, Together
from coterie.history.journal.records import (
    AttemptInterrupted,
    AttemptMisreported,
    RunOwned,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.team.planning.plan import AgentPlan, Limits, Plan

STEP = 0.25
PRICED = {"price_in": 0.0, "price_out": 1_000_000.0, "max_tokens": 1}
"""A model one answer of which costs a dollar."""


def costing(steps: int) -> Streamed:
    """An attempt that reports a quarter of a dollar a second, so many times."""
    events = [(1.0, Used(usage=Usage(cost=STEP * n))) for n in range(1, steps + 1)]
    return Streamed(events, Answer(usage=Usage(cost=STEP * steps)))


def team(*names: str, after: str = "z", **options: object) -> Plan:
    agents = {name: AgentPlan(name=name, options=options) for name in names}
    return flow(f"[{', '.join(names)}] -> {after}" if len(names) > 1 else f"{names[0]} -> {after}", **agents)


def test_attempts_at_once_share_the_budget() -> None:
    """Each is estimated at a dollar: three of them wait until there is room for another."""
    names = "abcd"
    stage = Stage(team(*names, **PRICED), Cast({name: [costing(4)] for name in names}))
    ended = stage.start(Limits(max_cost=2.0))

    assert stage.cast.most == 2
    assert (ended.reason, ended.usage.cost) == ("max_cost", 2.0)
    assert [one.reserved for one in stage.records(TurnStarted)] == [1.0, 1.0]


def test_the_most_expensive_attempt_so_far_is_the_estimate() -> None:
    """Of the agent, in this run; the rest of the budget is reserved if the estimate is more."""
    plan = flow("a -> z", a=AgentPlan(name="a", retry=5))
    fails = [Failure(kind="exit", reason="1", usage=Usage(cost=cost)) for cost in (0.25, 0.75, 0.25)]
    stage = Stage(plan, Cast({"a": fails}))
    stage.start(Limits(max_cost=1.5))

    assert [one.reserved for one in stage.records(TurnStarted)] == [0.0, 0.25, 0.5, 0.25]


def test_an_attempt_that_passes_the_budget_is_cut_off() -> None:
    """At its first report beyond it; with more money the turn is tried again."""
    stage = Stage(team("a", **PRICED), Cast({"a": [costing(40), costing(2)]}))
    ended = stage.start(Limits(max_cost=2.0))
    [cut] = stage.records(AttemptInterrupted)

    assert (ended.status, ended.reason, ended.usage.cost) == ("stopped", "max_cost", 2.25)
    assert (cut.reason, cut.usage.cost) == ("max_cost", 2.25)
    assert stage.resume(Limits(max_cost=10.0)).status == "completed"


def test_limits_stay_in_force_until_another_owner_has_new_ones() -> None:
    """Each by itself; -1 lifts one, for later owners too."""
    stage = Stage(flow("a -> b -> c -> d"), Cast({}))
    stage.start(Limits(max_turns=1, max_cost=0.6))
    ends = [
        stage.resume(limits)
        for limits in (Limits(), Limits(max_turns=2), Limits(max_cost=2.0), Limits(max_turns=-1, max_cost=0.0))
    ]
    assert stage.resume(Limits(max_cost=-1)).status == "completed"

    found = [(one.limits.max_turns, one.limits.max_cost) for one in stage.records(RunOwned)]
    assert found == [(1, 0.6), (1, 0.6), (2, 0.6), (2, 2.0), (None, 0.0), (None, None)]
    assert [(end.reason, end.usage.turns) for end in ends] == [("max_turns", n) for n in (1, 2, 2)] + [("max_cost", 2)]


def test_an_attempt_may_pass_its_reservation_within_the_budget() -> None:
    """An estimate is no limit."""
    stage = Stage(team("a", **PRICED), Cast({"a": [costing(7)]}))

    assert stage.start(Limits(max_cost=2.0)).status == "completed"


def test_agents_without_cost_are_not_estimated() -> None:
    """They run at once, whatever the budget."""
    stage = Stage(team("a", "b", "c"), Cast({}))

    assert stage.start(Limits(max_cost=0.01)).status == "completed"
    assert stage.cast.most == 3


def test_nothing_starts_once_an_attempt_was_cut_off() -> None:
    """Even if another one then costs less than was reserved for it."""
    agents = {"a": AgentPlan(name="a"), "b": AgentPlan(name="b", options=PRICED)}
    stage = Stage(flow("[a, b] -> z", **agents), Cast({"a": [costing(40)], "b": [costing(2)]}))
    ended = stage.start(Limits(max_cost=1.0))

    assert (ended.reason, ended.usage.cost) == ("max_cost", 0.75)
    assert [one.turn for one in stage.records(TurnStarted)] == ["a#1", "b#1"]


def test_what_a_failure_does_not_say_was_reported_before() -> None:
    """What an attempt reported counts, though its failure names no usage."""
    fails = Streamed([(1.0, Used(usage=Usage(cost=0.5)))], Failure(kind="exit", reason="1"))
    ended = Stage(flow("a -> z"), Cast({"a": [fails]})).start()

    assert (ended.status, ended.usage.cost) == ("failed", 0.5)


def race(given: object) -> Conversation:
    """The first answer of two counts, then a third agent is asked."""
    questions = (Question("a", "Which?"), Question("b", "Which?"))
    yield Together(*questions, until=lambda got: any(one is not None for one in got))
    yield Question("c", "Why?")
    return {}


def test_what_a_cancelled_attempt_reported_counts_once() -> None:
    """The estimate of the next one fits beside it."""
    cheap = {"price_out": 250_000.0, "max_tokens": 1}
    agents = {"a": AgentPlan(name="a"), "b": AgentPlan(name="b"), "c": AgentPlan(name="c", options=cheap)}
    cast = Cast({"a": [costing(2)], "b": [costing(20)], "c": [costing(1)]}, seconds=0.5)
    kinds = played(lambda plan: (GeneratorEngine(race), agents))
    ended = Stage(flow("a -> b", **agents), cast, make_kind=kinds).start(Limits(max_cost=1.5))

    assert (ended.status, ended.usage.cost) == ("completed", 1.25)


def test_an_attempt_that_overspends_before_its_session_is_known_is_cut_off() -> None:
    """As soon as it can be."""

    class Late(Cast):
        async def start(self, request: Request, on_event: OnEvent) -> Part:
            on_event(Used(usage=Usage(cost=3.0)))
            await asyncio.sleep(1)
            return await super().start(request, on_event)

    ended = Stage(flow("a -> z"), Late({}, seconds=60)).start(Limits(max_cost=2.0))

    assert (ended.reason, ended.seconds) == ("max_cost", 1.0)


def test_what_a_lost_attempt_had_reserved_stays_reserved() -> None:
    """Its owner was killed before the attempt reported anything: it may have cost all of it."""
    spending = Spending(team("a", **PRICED), {"a": Costs([], 0.5)})
    spending.stage.start(Limits(max_cost=1.0))
    killed = spending.killed_after(3)
    ended = killed.stage.resume(Limits(max_cost=1.0))

    assert (ended.reason, ended.usage.cost, ended.usage.unsettled) == ("max_cost", 0.0, 1.0)
    assert len(killed.stage.records(TurnStarted)) == 1
    assert killed.stage.resume(Limits(max_cost=2.0)).status == "completed"


def test_the_last_report_is_read_from_the_files_of_an_attempt(tmp_path: Path) -> None:
    """Whatever it said after it; a line that the kill cut off does not count."""
    files = AttemptFolders(Runs(tmp_path))
    assert files.used(AttemptRef(run="r", turn="a#1", attempt=1)) == []

    for event in (Used(usage=Usage(cost=0.25)), Used(usage=Usage(cost=0.5)), Text(text='{"usage": 1}\n' * 9)):
        files.stream(files.attempt_folder(AttemptRef(run="r", turn="a#1", attempt=1)), event)
    with (files.attempt_folder(AttemptRef(run="r", turn="a#1", attempt=1)) / "stream.jsonl").open("a") as file:
        file.write('{"kind":"usage","usage":{"cost":0.75')

    assert [one.cost for one in files.used(AttemptRef(run="r", turn="a#1", attempt=1))] == [0.25, 0.5]


FORGED = {
    "negative": ([0.5, -100.0], "negative", 1.0),
    "falls": ([1.5, 0.25], "its cost fell from $1.50 to $0.25", 1.5),
    "not a number": ([float("nan")], "not finite", 1.0),
    "endless": ([0.25, float("inf")], "not finite", 1.0),
    "a hundred times": ([0.5, 101.0], "more than 100 times the $1.00 reserved", 1.0),
    "later reports": ([-1.0, 90.0], "negative", 1.0),
}


@bundle("name", FORGED)
def test_a_usage_that_cannot_be_right_is_on_record_and_the_reservation_counts(name: str) -> None:
    """Or what the attempt had reported before, if that is more; so in an answer, while it runs, and in a failure."""
    costs, reason, counted = FORGED[name]
    usages = [Usage(cost=cost) for cost in costs]
    running = Streamed([(1.0, Used(usage=one)) for one in usages], Answer(usage=usages[-1]))
    at_end = Streamed([(1.0, Used(usage=one)) for one in usages[:-1]], Answer(usage=usages[-1]))
    failing = Streamed(at_end.events, Failure(kind="exit", reason="1", usage=usages[-1]))
    for attempt in (running, at_end, failing):
        stage = Stage(team("a", **PRICED), Cast({"a": [attempt]}))
        ended = stage.start(Limits(max_cost=500.0))
        if name == "later reports" and attempt is not running:
            continue  # a single report of 90 times is possible
        [flagged] = stage.records(AttemptMisreported)
        assert (reason in flagged.reason, flagged.usage.cost, ended.usage.cost) == (True, counted, counted), flagged


def test_the_next_attempt_of_a_turn_reports_anew() -> None:
    """What its predecessor forged is over with it."""
    forging = Streamed([(1.0, Used(usage=Usage(cost=-1.0)))], Failure(kind="exit", reason="1"))
    plan = flow("a -> z", a=AgentPlan(name="a", options=PRICED, retry=1))
    ended = Stage(plan, Cast({"a": [forging, costing(2)]})).start(Limits(max_cost=9.0))

    assert (ended.status, ended.usage.cost) == ("completed", 1.5)


@bundle("line", ['{"cost":-100}', '{"cost":0.01}', '{"output_tokens":-5}'])
def test_a_usage_that_was_forged_in_the_files_of_a_killed_attempt_does_not_count(line: str) -> None:
    """An agent without a sandbox can append to them; what is reserved stays reserved."""
    spending = Spending(team("a", **PRICED), {"a": Costs([(1.0, 0.5), (1.0, 0.25)], 0.5)})
    spending.run(Limits(max_cost=2.0))
    reports = [n for n, _, _ in spending.files.reports]
    killed = spending.killed_after(reports[-1])
    killed.files.reports.append((0, ("r", "a#1", 1), msgspec.json.decode(line, type=Usage)))
    killed.run(Limits(max_cost=5.0))
    [flagged] = killed.stage.records(AttemptMisreported)
    cut = killed.stage.records(AttemptInterrupted)[0]

    assert flagged.attempt == cut.attempt == 1
    assert cut.usage.cost + cut.usage.unsettled == 1.0
    assert next(one.usage.cost for one in killed.stage.records(TurnFinished) if one.turn == "a#1") == 1.25


def test_prices_of_the_library_are_known_by_the_model() -> None:
    """An unknown model costs nothing beforehand."""
    assert estimated_cost(AgentPlan(name="a", model="no-such-model"), 1000) == 0.0
    assert estimated_cost(AgentPlan(name="a", options=PRICED), 1000) == 1.0


def teams(names: list[str], **options: object) -> Plan:
    """Agents side by side, half of them in a team of their own."""
    inner, outer = names[::2], names[1::2]
    child = team(*inner, **options)
    return flow(
        f"[{', '.join([*outer, 'team'])}] -> z" if outer else "team -> z",
        team=AgentPlan(name="team", kind="topology", child=child),
        **{name: AgentPlan(name=name, options=options) for name in outer},
    )


REPORT = st.tuples(st.sampled_from([0.5, 1.0, 1.5]), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
AGENT = st.builds(Costs, st.lists(REPORT, max_size=4), st.sampled_from([0.0, 0.0, 0.25]))


@sampled(
    4,
    100,
    agents=st.lists(AGENT, min_size=1, max_size=5),
    budget=st.integers(1, 16),
    priced=st.booleans(),
    interrupted=st.lists(st.sampled_from([0.25, 1.0, 1.75, 3.0]), max_size=2),
    stopped=st.sampled_from([0.0, 0.0, 0.75, 2.0]),
    again=st.integers(1, 10),
)
def test_the_bound_holds(
    agents: list[Costs], budget: int, priced: bool, interrupted: list[float], stopped: float, again: int
) -> None:
    """Whatever runs at once and is interrupted, and wherever owners are killed, once or twice."""
    costs = {f"n{k}": one for k, one in enumerate(agents)}
    plan = teams(list(costs), **(PRICED if priced else {}))
    spending = Spending(plan, costs, interrupted=interrupted, stopped=stopped)
    check_everywhere(spending, Limits(max_cost=budget * STEP), again)


@sampled(2, 20, role=AGENT, budget=st.integers(1, 16), priced=st.booleans(), again=st.integers(1, 10))
def test_the_bound_holds_in_waves(role: Costs, budget: int, priced: bool, again: int) -> None:
    """Iterations and the branches of a wave share the budget."""
    plan = plan_of(loop_plan(parallel=waves(), max_iterations=3), options=PRICED if priced else {})
    opens = {"iteration#1": Emitted(event="explore.parallel", payload="- a\n- b")}
    spending = Spending(plan, dict.fromkeys(plan.agents, role), opens)
    check_everywhere(spending, Limits(max_cost=budget * STEP), again)


def check_everywhere(spending: Spending, limits: Limits, again: int) -> None:
    """Check the bound in a whole run, and after a kill behind each of its records, and *again* records later."""
    check_bound(spending, spending.run(limits), limits)
    for length in range(2, len(spending.store.log)):
        killed = spending.killed_after(length)
        check_bound(killed, killed.run(limits), limits)
        if length + again < len(killed.store.log):
            killed = killed.killed_after(length + again)
            check_bound(killed, killed.run(limits), limits)


def check_bound(spending: Spending, ended: RunExit, limits: Limits) -> None:
    """Nothing is spent beyond the budget but one report of each attempt that ran when it was passed."""
    assert limits.max_cost is not None
    spent = spending.spent()
    assert ended.usage.cost == spent  # every total has all of it
    assert spent + ended.usage.unsettled <= limits.max_cost + spending.passed()
