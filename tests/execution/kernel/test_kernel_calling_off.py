"""Teams in teams that are called off or run out of time, at any depth."""

from bundles import bundle
from nests import how_it_ends, nested
from pattern_play import pattern
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.execution.kernel.owner import Observers, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal.records import AttemptFailed, Record, RunFinished, TurnCancelled, TurnFailed, Usage
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan

BROKEN = Failure(kind="exit", reason="exit status 1")
PAID = Answer(text="x", usage=Usage(cost=1.0))
DEPTHS = [1, 2, 3, 5, 8]


def chain(depth: int, above: str = "r") -> list[str]:
    """The runs of `nested`, outermost first."""
    return ["/".join([above, *["team#1.1"] * n]) for n in range(1, depth + 1)]


def failing(depth: int) -> Plan:
    """A flow of a team, so deep, beside an agent that fails while the innermost agent works."""
    return flow("go -> [team, bad]", team=nested(depth))


def play(stage: Stage) -> RunExit:
    """Run *stage*; when a run ends, no run below it is driven any more."""
    shell = stage._shell(None)

    def appended(run: str, record: Record) -> None:
        if isinstance(record, RunFinished):
            assert [one for one in shell.runs if one.startswith(f"{run}/")] == []

    shell.watch(appended)
    return stage.clock.run(shell.start("r", stage.plan, {"prompt": "go"}))


def check_called_off(stage: Stage, runs: list[str]) -> None:
    """Every run of *runs* was called off, once."""
    for run in runs:
        assert how_it_ends(stage.records(run=run)) == "cancelled", run
        assert len(stage.records(RunFinished, run=run)) == 1


@bundle("depth", DEPTHS)
def test_a_failure_beside_a_team_calls_the_whole_team_off(depth: int) -> None:
    """`on-fail: halt` ends every run of the team, and the run fails as its journal says."""
    stage = Stage(failing(depth), Cast({"bad": [BROKEN], "leaf": [PAID], "end": [PAID]}))
    ended = play(stage)

    assert (ended.status, how_it_ends(stage.records())) == ("failed", "failed")
    check_called_off(stage, chain(depth))


@bundle("depth", DEPTHS)
def test_a_team_of_a_flow_that_takes_too_long_is_called_off(depth: int) -> None:
    """A topology node's `timeout` counts like an agent's."""
    stage = Stage(flow("team -> b", team=nested(depth, timeout=1.5)))
    ended = play(stage)

    assert (ended.status, how_it_ends(stage.records())) == ("failed", "failed")
    assert [(r.kind, r.at) for r in stage.records(AttemptFailed)] == [("timeout", 1.5)]
    check_called_off(stage, chain(depth))


@bundle("depth", DEPTHS)
def test_a_team_in_a_slot_that_takes_too_long_is_called_off(depth: int) -> None:
    """A pattern goes on, or fails, without the team."""
    plan = pattern("pipeline", {"stage_0": nested(depth, timeout=1.5), "stage_1": AgentPlan(name="stage_1")})
    stage = Stage(plan)
    ended = play(stage)

    assert (ended.status, how_it_ends(stage.records())) == ("failed", "failed")
    check_called_off(stage, [run.replace("team#1.1", "stage_0#1.1", 1) for run in chain(depth)])


@bundle("depth", DEPTHS)
def test_a_team_that_is_a_role_and_takes_too_long_is_called_off(depth: int) -> None:
    """The iteration has failed; the loop goes on with the same role."""
    loop = LoopPlan(roles=(RolePlan(id="team"),), handoff=(("loop.start", ("team",)),), max_iterations=2)
    stage = Stage(Plan(name="loop", agents={"team": nested(depth, timeout=1.5)}, coordination=loop))
    ended = play(stage)

    assert (ended.status, ended.reason) == ("stopped", "max_iterations")
    assert [r.kind for r in stage.records(TurnFailed)] == ["timeout", "timeout"]
    for n in (1, 2):
        check_called_off(stage, [run.replace("team#1.1", f"iteration#{n}.1", 1) for run in chain(depth)])
    assert not stage.records(TurnCancelled)


def test_an_attempt_of_a_team_that_was_called_off_is_ended() -> None:
    """Nothing of it works on, and what it says is too late."""
    stage = Stage(flow("team -> b", team=nested(3, timeout=1.5, on_fail="continue")), Cast({}, seconds=2.0))
    assert play(stage).status == "completed"

    assert stage.cast.running == 0
    assert [record.at for record in stage.records(RunFinished, run=chain(3)[-1])] == [1.5]
    assert [request.turn for request in stage.cast.asked] == ["leaf#1", "b#1"]


def test_a_team_that_is_tried_again_does_not_meet_the_one_that_was_late() -> None:
    """The second attempt is a run of its own, a second after the first, which is ending."""
    stage = Stage(flow("team -> b", team=nested(3, timeout=1.5, retry=1)))
    assert play(stage).status == "failed"

    assert [(record.attempt, record.at) for record in stage.records(AttemptFailed)] == [(1, 1.5), (2, 4.0)]
    check_called_off(stage, chain(3) + [run.replace("team#1.1", "team#1.2", 1) for run in chain(3)])


def test_an_interruption_that_comes_with_the_end_of_a_team_is_refused() -> None:
    """Its journal has been closed: nothing is written there any more."""
    stage, verdicts = Stage(flow("team -> b", team=nested(1, flow("x -> y")))), list[str]()

    def interrupt() -> None:
        _, verdict = take(stage.shell, RunMessage(id="m", kind="interrupt"), stage.clock.now(), Sender("operator"))
        verdicts.append(verdict.status)

    def observe(run: str, record: Record) -> None:
        if run != "r" and isinstance(record, RunFinished):
            stage.shell.post(interrupt)

    stage.shell = Shell(
        RunPorts(store=stage.store, turns=stage.cast, clock=stage.clock, make_kind=kind_of),
        observers=Observers(observe=[observe]),
    )
    assert stage.clock.run(stage.shell.start("r", stage.plan, {"prompt": "go"})).status == "completed"
    assert verdicts == ["refused"]
    assert how_it_ends(stage.records(run="r/team#1.1")) == "completed"
