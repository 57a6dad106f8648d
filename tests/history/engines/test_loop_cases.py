"""What an earlier system did, case by case; where the loop does otherwise, the sentence that decides it stands here."""

import json
import tomllib
from typing import Any

import pytest
from bundles import bundle
from loop_cases import cases
from loop_play import Play, loop_plan, waves

from coterie.history.engines.commands import Emit
from coterie.history.engines.loop import View, verdict
from coterie.history.engines.loop.objectives import NoObjectives, objectives
from coterie.history.engines.loop.schedule import review_is_due
from coterie.history.engines.loop.state import State, TurnOutput
from coterie.history.journal.records import EventInvalid, EventNoted
from coterie.team.planning.loop import LoopPlan, ReviewPlan, RolePlan
from coterie.team.topology.events import COORDINATION, JOINED, PARALLEL

Case = dict[str, Any]


def ids(area: str, otherwise: dict[str, str]) -> list[Any]:
    """The cases of *area*; those that are decided otherwise are expected to differ."""
    known = {case["id"] for case in cases(area)}
    assert set(otherwise) <= known, set(otherwise) - known
    return [pytest.param(case, otherwise.get(case["id"], ""), id=case["id"]) for case in cases(area)]


NOTHING_ALLOWED = "empty `emits` allows nothing"
ALWAYS_NOTED = "Coordination events are always accepted, recorded as `event.noted`"
NAMELESS = "an event needs a name"


def _decided(case: Case) -> str:
    """Why the loop says otherwise of this event, if it does."""
    if not case["topic"]:
        return NAMELESS
    if case["topic"] in COORDINATION:
        return ALWAYS_NOTED if case["invalid"] else ""
    return NOTHING_ALLOWED if not (case["allowed_events"] or case["invalid"] or case["topic"] == OPEN) else ""


OPEN = "explore.parallel"
EMITS = {case["id"]: why for case in cases("emit_validity") if (why := _decided(case))}


@bundle(("case", "otherwise"), ids("emit_validity", EMITS))
def test_which_events_are_valid(case: Case, otherwise: str) -> None:
    view = View(
        allowed=tuple(case["allowed_events"]),
        completion=case["completion_event"],
        branches=3 if case["parallel_enabled"] else 0,
    )
    found = verdict(view, Emit(turn="t", attempt=1, event=case["topic"], payload="- a"))

    assert (isinstance(found, EventInvalid) == case["invalid"]) is not bool(otherwise), (found, otherwise)


DISTINCT = "the payload grammar is checked at emit, repeated items are rejected"


@bundle(("case", "otherwise"), ids("parallel_payload", {"parallel_payload-017": DISTINCT}))
def test_what_a_wave_is_asked_for(case: Case, otherwise: str) -> None:
    try:
        found = list(objectives(case["payload"], case["max_branches"]))
    except NoObjectives:
        found = []

    assert (found == case["result"]["objectives"]) is not bool(otherwise), (found, otherwise)


@bundle(("case", "otherwise"), ids("stall", {}))
def test_when_it_stalls(case: Case, otherwise: str) -> None:
    state = State()
    for text in case["outputs"]:
        state.add_output(TurnOutput(name="iteration", text=text))

    assert (bool(case["threshold"]) and state.same >= case["threshold"]) is case["result"]["stalled"]


FIRST = "before iteration i > 1 when (i - 1) is a multiple of `every_iterations`: no adversarial review besides"
REVIEWS = {
    case["id"]: FIRST
    for case in cases("metareview_schedule")
    if case["adversarial_first"] and case["iteration"] == 2 and case["every"] > 1
}


@bundle(("case", "otherwise"), ids("metareview_schedule", REVIEWS))
def test_when_a_review_comes(case: Case, otherwise: str) -> None:
    plan = LoopPlan(review=ReviewPlan(every=case["every"]))
    due = review_is_due(plan, State(iteration=case["iteration"] - 1))

    assert (due == case["runs"]) is not bool(otherwise), otherwise


@bundle(("case", "otherwise"), ids("topic_class", {}))
def test_what_a_name_says(case: Case, otherwise: str) -> None:
    """Coordination, waves and joins; who may route is told by a record's source, so no other name means anything."""
    event = case["topic"]
    noted = isinstance(verdict(View(), Emit(turn="t", attempt=1, event=event)), EventNoted)

    assert noted is case["coordination"]
    assert event.endswith(JOINED) is case["reserved_joined"]
    assert event.endswith(PARALLEL) is case["parallel_trigger"]


ORDER = "an accepted completion event ends the run at the turn's end whatever follows"
OUTCOMES = {"outcome-016": ORDER}


@bundle(("case", "otherwise"), ids("outcome", OUTCOMES))
def test_how_an_iteration_ends_the_run(case: Case, otherwise: str) -> None:
    """The same facts, told as one turn: what was emitted before, what it emits, what it says."""
    ctx = case["ctx"]
    play = Play(
        loop_plan(
            roles=(),
            handoff=(),
            completion=ctx["completionEvent"],
            promise=ctx["completionPromise"],
            required=tuple(ctx["requiredEvents"]),
            parallel=waves(),
        )
    )
    before = [event for event in ctx["allTopics"] if event not in ("loop.start", ctx["emittedTopic"], "task.complete")]
    play.does(*before)
    if ctx["hadInvalidEvents"]:
        play.emit("x.parallel.joined")
    tasks = ("task-1",) if ctx["hasBlockingTasks"] else ()
    for event in [one for one in ctx["allTopics"] if one == "task.complete"]:
        play.emit(event, open_tasks=tasks)
    if ctx["emittedTopic"] not in ("", "task.complete"):
        play.emit(ctx["emittedTopic"])
    play.answer(ctx["output"], open_tasks=tasks)
    action = case["result"]["action"]
    wanted = {"complete_event": "completion_event", "complete_promise": "completion_promise"}.get(action, "")
    found = play.core.finished.reason if play.core.finished is not None else ""

    assert (found == wanted) is not bool(otherwise), (found, otherwise)


ANY_ROLE = "Only an accepted event of an agent, or a join of the harness, moves the routing position"
UNKNOWN = "an event that is not allowed is rejected when it is emitted"
SPENT = "`explore.parallel.joined` restores the position that opened the wave: a join without one is no record here"
AS_BASE = "`<base>.parallel.joined` routes by its own handoff key when there is one, else as `<base>`"
JOURNALS = {
    "routing_from_journal-011": ANY_ROLE,
    "routing_from_journal-012": ANY_ROLE,
    "routing_from_journal-014": ANY_ROLE,
    "routing_from_journal-015": ANY_ROLE,
    "routing_from_journal-018": AS_BASE,
    "routing_from_journal-020": SPENT,
    "routing_from_journal-021": SPENT,
    "routing_from_journal-023": UNKNOWN,
}


@bundle(("case", "otherwise"), ids("routing_from_journal", JOURNALS))
def test_where_a_journal_leaves_a_loop(case: Case, otherwise: str) -> None:
    """Each agent's event is a turn; what the harness wrote beside is not written here, or moves nothing."""
    loop = _loop(case["topology"])
    lines = [json.loads(line) for line in case["journal"]]
    first = next((line["topic"] for line in lines if line.get("source") == "agent"), "")
    play = Play(loop)
    play.engine.state.position = _entry(loop, first)  # the cases begin in the middle
    play.answer()
    for line in lines:
        if line["topic"] == "event.invalid":
            play.emit(line["fields"]["emitted"])
        elif line["topic"].endswith(".joined") and play.running and play.running[0].startswith("wave"):
            for attempt in list(play.running):
                play.answer(turn=attempt.rpartition(".")[0])
        elif line.get("source") == "agent" and line["topic"] != "human.ask":
            play.emit(line["topic"], "- a\n- b")
            play.answer()
    if not lines or not first:
        play = Play(loop)
    play.answer()
    view = play.engine.view(play.turn)
    same = (view.recent, list(view.suggested)) == (case["recent_event"], case["suggested_roles"])

    assert same is not bool(otherwise), (view, otherwise)
    if same:
        assert list(view.allowed) == case["allowed_events"]


def _loop(text: str) -> LoopPlan:
    data = tomllib.loads(text)
    roles = tuple(RolePlan(id=role["id"], emits=tuple(role["emits"])) for role in data["role"])
    handoff = tuple((event, tuple(targets)) for event, targets in data["handoff"].items())
    return loop_plan(roles=roles, handoff=handoff, completion=data["completion"], parallel=waves())


def _entry(loop: LoopPlan, event: str) -> str:
    """An event that leads to a role which may emit *event*, so that a case may begin there."""
    base = event.removesuffix(PARALLEL)
    emitters = {role.id for role in loop.roles if base in role.emits}
    return next((key for key, targets in loop.handoff if emitters & set(targets)), "loop.start")
