"""What an attempt is given when it starts, and what its run records of it."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from stage import Cast, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, Failure, Launched, OwnRepository, SessionOpened
from coterie.agents.workspace.base import Workspace
from coterie.execution.kernel.opening import RootOpening
from coterie.history.journal.records import AttemptLaunched, ThreadStart, TreePosition, TurnStarted
from coterie.team.planning.plan import AgentPlan


class OwnRepositories(Workspace):
    """Has a repository for the agents of each place, from when the place was looked at."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def attests(self, place: str, agent: AgentPlan) -> bool:
        return True

    async def position(self, place: str, agent: AgentPlan, team: Iterable[Path] = ()) -> TreePosition | None:
        self.seen.add(place)
        return None

    def repository(self, place: str) -> OwnRepository | None:
        return repository_of(place) if place in self.seen else None


def repository_of(place: str) -> OwnRepository:
    return OwnRepository(tree=Path("/tree", place), git=Path("/git", place), link=None, common=Path("/common"), read=())


@pytest.mark.parametrize("options", [{"sandbox": "off"}, {"sandbox": "auto"}])
def test_an_attempt_gets_the_repository_of_its_place(options: dict[str, str]) -> None:
    """It is known once the attempt may work there; whether a sandbox guards the files of the team is another thing."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", options=options)), workspace=OwnRepositories())
    stage.start()

    assert [one.repository for one in stage.cast.asked] == [repository_of("r/a#1"), repository_of("r/b#1")]


def test_where_an_attempt_runs_is_recorded_once_for_each_handle() -> None:
    """One that is found again says so again; what has no process here is told apart by its handle alone."""
    places = ("one", "two", "one")
    said = Streamed([(0.0, Launched(handle=handle)) for handle in places], Answer(text="done"))
    stage = Stage(flow("a -> b"), Cast({"a": [said]}))
    stage.start()

    assert [one.handle for one in stage.records(AttemptLaunched)] == ["one", "two"]


def test_the_first_turn_of_an_agent_goes_on_in_the_session_of_the_thread() -> None:
    """Only of one that reads the thread, and whose backend can; its intent says so, and so does its request."""
    plan = flow("a -> b", a=AgentPlan(name="a", options={"thread": True}))
    opening = RootOpening(thread=ThreadStart(name="t", after="q", sessions={"a": "s", "b": "s"}))
    sessions = {}
    for resumes in (True, False):
        stage = Stage(plan, Cast({}, resumes=resumes))
        stage.clock.run(stage._shell(None).start("r", plan, {"prompt": "go"}, opening))
        sessions[resumes] = [one.session for one in stage.records(TurnStarted)]
        assert [one.session for one in stage.cast.asked] == sessions[resumes]

    assert sessions == {True: ["s", ""], False: ["", ""]}


def test_an_attempt_goes_on_in_the_session_of_the_one_before() -> None:
    """With `on-interrupt: resume`, if its backend can; else it begins its own."""
    began = Streamed([(0.0, SessionOpened(id="s"))], Failure(kind="interrupted", reason="cut"))
    sessions = {}
    for policy in ("resume", "retry"):
        cast = Cast({"a": [began, Answer(text="done")]}, resumes=True)
        stage = Stage(flow("a -> b", a=AgentPlan(name="a", on_interrupt=policy)), cast)
        stage.start()
        sessions[policy] = [one.session for one in stage.records(TurnStarted) if one.turn == "a#1"]
        assert [one.session for one in stage.cast.asked if one.turn == "a#1"] == sessions[policy]

    assert sessions == {"resume": ["", "s"], "retry": ["", ""]}
