"""A provider's quota is spent and opens again at a known time: the run waits, without a process or in its place."""

from collections.abc import Sequence

import pytest
from bundles import bundle
from stage import Behaviour, Cast, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, Failure, Request, SessionOpened
from coterie.execution.kernel.retries import QUOTA_MOST, WAIT_MOST
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptSession,
    Record,
    RunStopped,
    TurnFailed,
    TurnStarted,
)
from coterie.team.planning.plan import AgentPlan, FlowPlan

SPENT = Failure(kind="quota", reason="usage limit reached", wait=3600.0)


def spent(kind: str = "quota", wait: float = 3600.0) -> Failure:
    return Failure(kind=kind, reason="usage limit reached", wait=wait)


@pytest.mark.parametrize("kind", ["quota", "rate_limited"])
def test_a_spent_quota_stops_the_run_until_it_opens(kind: str) -> None:
    """The run is neither completed nor failed; resumed after that time it completes, with one attempt more."""
    stage = Stage(flow("a -> b"), Cast({"a": [spent(kind), Answer(text="done")]}))
    ended = stage.start()
    [failed] = stage.records(AttemptFailed)

    assert (ended.status, ended.reason, ended.until) == ("stopped", "quota until 1970-01-01T01:00:01Z", 3601.0)
    assert failed.until == failed.at + 3600.0
    assert stage.records()[-1] == RunStopped(seq=5, at=1.0, reason=ended.reason, until=3601.0)

    stage.clock.advance(3600.0)
    assert stage.resume().status == "completed"
    assert [one.attempt for one in stage.records(TurnStarted) if one.agent == "a"] == [1, 2]


def test_a_run_resumed_too_early_stops_again_without_an_attempt() -> None:
    """It says the same time, and nothing was asked of the provider."""
    stage = Stage(flow("a -> b"), Cast({"a": [SPENT, Answer()]}))
    first = stage.start()
    stage.clock.advance(60.0)
    again = stage.resume()

    assert (again.status, again.reason, again.until) == (first.status, first.reason, first.until)
    assert len(stage.cast.asked) == 1


def test_what_waits_can_be_tried_at_once() -> None:
    """The operator may have bought more; a quota that is spent in the new attempt parks the run again."""
    stage = Stage(flow("a -> b"), Cast({"a": [SPENT, SPENT, Answer()]}))
    stage.start()
    stage.clock.advance(60.0)
    stage.options["quota"] = "now"

    assert stage.resume().until == 62.0 + 3600.0  # the attempt took a second
    assert stage.resume().status == "completed"


def test_a_run_can_wait_in_its_place() -> None:
    """With `wait` the owner stays and tries again when the quota opens."""
    stage = Stage(flow("a -> b"), Cast({"a": [SPENT, Answer()]}), quota="wait")

    assert stage.start().status == "completed"
    assert stage.records(RunStopped) == []
    assert stage.records(TurnStarted)[1].at == 3601.0


def test_other_turns_go_on_while_one_waits_for_its_quota() -> None:
    """The run stops only when nothing else can run; a quota that opens meanwhile is used at once."""
    cast = Cast({"a": [spent(wait=400.0), Answer()]}, seconds=150.0)
    stage = Stage(flow("a -> b", "x -> y -> z"), cast)

    assert stage.start().until == 550.0  # z ends at 450 s
    assert [one.agent.name for one in cast.asked] == ["a", "x", "y", "z"]

    cast = Cast({"a": [spent(wait=400.0), Answer()]}, seconds=150.0)
    stage = Stage(flow("a -> b", "w -> x -> y -> z"), cast)

    assert stage.start().status == "completed"
    assert [one.at for one in stage.records(TurnStarted) if one.attempt == 2] == [550.0]


def test_a_stop_names_the_quota_that_opens_first() -> None:
    """Two providers, two resets."""
    stage = Stage(flow("a -> c", "b -> c"), Cast({"a": [spent(wait=7200.0)], "b": [spent(wait=3600.0)]}))

    assert stage.start().until == 3601.0


@bundle("wait", [0.0, QUOTA_MOST + 1, float("nan"), float("inf")])
def test_a_quota_without_a_believable_reset_fails_the_turn_as_before(wait: float) -> None:
    """Only a known time parks a run."""
    stage = Stage(flow("a -> b"), Cast({"a": [spent(wait=wait)]}))

    assert stage.start().status == "failed"
    assert [one.kind for one in stage.records(TurnFailed)] == ["quota"]
    assert [one.until for one in stage.records(AttemptFailed)] == [0.0]


@bundle("wait", [5.0, WAIT_MOST])
def test_a_quota_that_opens_soon_is_a_rate_limit(wait: float) -> None:
    """The attempt is retried then: a quota that opens later would not fail the turn either."""
    stage = Stage(flow("a -> b"), Cast({"a": [spent(wait=wait), Answer()]}))

    assert stage.start().status == "completed"
    [failed] = stage.records(AttemptFailed)
    again = [one for one in stage.records(TurnStarted) if one.agent == "a"][1]
    assert (failed.kind, again.at - failed.at) == ("rate_limited", wait)


def test_a_spent_quota_does_not_count_against_retries() -> None:
    """Each time it parks; three transient failures may still follow."""
    parts: Sequence[Behaviour] = (
        [spent("rate_limited")] * 5 + [Failure(kind="transient", reason="503")] * 3 + [Answer()]
    )
    stage = Stage(flow("a -> b"), Cast({"a": parts}), quota="wait")

    assert stage.start().status == "completed"


def test_an_agent_with_a_fallback_is_replaced_at_once() -> None:
    """The plan says what to do when it fails; nothing waits."""
    plan = flow("a -> b", a=AgentPlan(name="a", on_fail="fallback", fallback="spare"))
    plan.agents["spare"] = AgentPlan(name="spare")
    assert isinstance(plan.coordination, FlowPlan)
    stage = Stage(plan, Cast({"a": [SPENT]}))

    assert stage.start().status == "completed"
    assert [one.agent for one in stage.records(TurnStarted)] == ["a", "spare", "b"]


def test_a_child_run_parks_its_root() -> None:
    """Every run of the tree stops for the same reason, and goes on from where it was."""
    inner = flow("x -> y")
    plan = flow("a -> t", t=AgentPlan(name="t", kind="topology", child=inner))
    stage = Stage(plan, Cast({"x": [SPENT, Answer()]}))

    assert stage.start().reason.startswith("quota until ")
    assert stage.records(RunStopped, run="r/t#1.1")[0].until == stage.records(RunStopped)[0].until
    stage.clock.advance(7200.0)
    assert stage.resume().status == "completed"


def test_the_agent_goes_on_in_its_session_after_a_quota() -> None:
    """Whatever `on-interrupt` says: the attempt was cut off by its provider."""

    def at_work(request: Request) -> Streamed:
        opened = SessionOpened(id=request.session or "s1", resumed=bool(request.session))
        return Streamed([(0.5, opened)], Answer() if request.session else SPENT)

    cast = Cast({"a": [at_work]}, resumes=True)
    stage = Stage(flow("a -> b"), cast)
    stage.start()
    stage.clock.advance(7200.0)

    assert stage.resume().status == "completed"
    assert [one.session for one in cast.asked if one.agent.name == "a"] == ["", "s1"]
    assert [(one.attempt, one.session, one.lost) for one in stage.records(AttemptSession)] == [(1, "s1", "")]
    assert "# Go on where you stopped" in cast.asked[1].prompt


def test_a_run_killed_while_it_waits_still_waits() -> None:
    """The time lies in the journal: a kill at any record, and the quota is still not tried before it opens."""
    stage = Stage(flow("a -> b"), Cast({"a": [SPENT, Answer()]}), quota="wait")
    stage.start()
    whole = stage.records()
    failed = next(k for k, record in enumerate(whole) if isinstance(record, AttemptFailed))
    for cut in range(failed + 1, len(whole)):
        again = Stage(stage.plan, Cast({"a": [Answer()]}), quota="wait")
        kill(again, whole[:cut])
        assert again.resume().status == "completed"
        [second, *_] = [one for one in again.records(TurnStarted) if one.agent == "a" and one.attempt > 1]
        assert second.at >= whole[failed].at + 3600.0


def kill(stage: Stage, records: Sequence[Record]) -> None:
    """Let *records* be the journal that a killed owner left."""

    async def left() -> None:
        writer = stage.store.claim("r")
        writer.append(records)
        await writer.durable(len(records))
        await writer.close()

    stage.clock.advance(records[-1].at)
    stage.clock.run(left())
