"""An attempt that was cut off goes on in the agent's session, where plan and backend allow it."""

from collections.abc import Callable

import pytest
from stage import Cast, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, Failure, Request, SessionOpened
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptSession, Record, RunOwned, TurnStarted
from coterie.history.views.timeline import sentence
from coterie.team.planning.plan import AgentPlan, Plan


def team(policy: str = "resume") -> Plan:
    return flow("a -> b", a=AgentPlan(name="a", on_interrupt=policy, retry=3))


def working(opens: Callable[[Request], SessionOpened]) -> Callable[[Request], Streamed]:
    """An agent that opens a session at once and answers after a second."""
    return lambda request: Streamed([(0.0, opens(request))], Answer(text="done"))


def faithful(request: Request) -> SessionOpened:
    return SessionOpened(id=request.session or f"s{request.attempt}", resumed=bool(request.session))


def killed_at_work(plan: Plan, opens: Callable[[Request], SessionOpened] = faithful, *, resumes: bool = True) -> Stage:
    """A run whose owner died while its first agent worked in its session."""
    stage = Stage(plan, Cast({"a": [working(opens)]}, resumes=resumes))
    stage.start()
    records: list[Record] = stage.records()
    kept = records[: next(k for k, one in enumerate(records) if isinstance(one, AttemptSession)) + 1]
    stage.store = MemoryStore()

    async def left() -> None:
        writer = stage.store.claim("r")
        writer.append(kept)
        await writer.durable(len(kept))
        await writer.close()

    stage.clock.run(left())
    stage.cast.asked.clear()
    return stage


def test_an_attempt_after_a_crash_goes_on_in_the_session() -> None:
    """The intent names it, the request has it, and the prompt says so."""
    stage = killed_at_work(team())

    assert stage.resume().status == "completed"
    assert stage.cast.asked[0].session == "s1"
    assert "# Go on where you stopped" in stage.cast.asked[0].prompt
    assert [one.session for one in stage.records(TurnStarted) if one.agent == "a"] == ["", "s1"]
    assert [one.lost for one in stage.records(AttemptSession)] == [""]


@pytest.mark.parametrize(("policy", "resumes"), [("retry", True), ("resume", False)])
def test_otherwise_it_is_retried_with_a_note(policy: str, resumes: bool) -> None:
    """The plan does not want it, or the backend cannot."""
    stage = killed_at_work(team(policy), resumes=resumes)

    assert stage.resume().status == "completed"
    assert stage.cast.asked[0].session == ""
    assert "# An earlier attempt was interrupted" in stage.cast.asked[0].prompt


@pytest.mark.parametrize(
    ("opened", "reason"),
    [
        (SessionOpened(id="other"), "the agent began another one"),
        (SessionOpened(id="s1", resumed=True, turns=0), "it has none of its earlier turns"),
    ],
)
def test_a_wrong_or_fresh_session_is_reported(opened: SessionOpened, reason: str) -> None:
    """By its id, or since it has no turns: the timeline warns."""
    stage = killed_at_work(team(), lambda request: opened if request.session else faithful(request))
    stage.resume()
    said = stage.records(AttemptSession)[-1]

    assert (said.session, said.lost, said.reason) == (opened.id, "s1", reason)
    assert sentence(said).endswith(f"; warning: the session s1 could not be continued: {reason}")


def test_a_session_is_left_when_the_attempt_failed_in_it() -> None:
    """Only what was cut off goes on; a failure may be the session's fault."""

    def fails(request: Request) -> Streamed:
        return Streamed(
            [(0.0, faithful(request))], Failure(kind="exit", reason="1") if request.attempt == 1 else Answer()
        )

    stage = Stage(team(), Cast({"a": [fails]}, resumes=True))

    assert stage.start().status == "completed"
    assert [one.session for one in stage.cast.asked if one.agent.name == "a"] == ["", ""]


def test_a_crash_before_the_session_opened_again_loses_nothing() -> None:
    """The session of the attempt before is in the intent; the third attempt goes on in it."""
    stage = killed_at_work(team())
    stage.resume()
    records: list[Record] = stage.records()
    second = next(k for k, one in enumerate(records) if isinstance(one, TurnStarted) and one.attempt == 2)
    stage.store = MemoryStore()

    async def left() -> None:
        writer = stage.store.claim("r")
        writer.append(records[: second + 1])
        await writer.durable(second + 1)
        await writer.close()

    stage.clock.run(left())
    stage.cast.asked.clear()

    assert stage.resume().status == "completed"
    assert stage.cast.asked[0].session == "s1"
    assert len(stage.records(RunOwned)) == 3
