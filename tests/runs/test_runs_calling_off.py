"""Teams in teams that are called off or run out of time, at any depth."""

import pytest
from nests import how_it_ends, nested
from pattern_play import pattern
from stage import Cast, Stage, flow

from coterie.backends.base import Answer, Failure
from coterie.journal.records import AttemptFailed, RunFinished, TurnCancelled, TurnFailed, Usage
from coterie.planning.loop import LoopPlan, RolePlan
from coterie.planning.plan import AgentPlan, Plan

BROKEN = Failure(kind="exit", reason="exit status 1")
PAID = Answer(text="x", usage=Usage(cost=1.0))
DEPTHS = [1, 2, 3, 5, 8]


def chain(depth: int, above: str = "r") -> list[str]:
    """The runs of `nested`, outermost first."""
    return ["/".join([above, *["team#1.1"] * n]) for n in range(1, depth + 1)]


def failing(depth: int) -> Plan:
    """A flow of a team, so deep, beside an agent that fails while the innermost agent works."""
    return flow("go -> [team, bad]", team=nested(depth))


def check_called_off(stage: Stage, runs: list[str]) -> None:
    """Every run of *runs* was called off, deepest first, and its journal was given up."""
    for run in runs:
        assert how_it_ends(stage.records(run=run)) == "cancelled", run
        assert sum(isinstance(record, RunFinished) for record in stage.records(run=run)) == 1
        stage.store.claim("r") if not stage.store._is_owned("r") else None
        stage.store.claim(run)  # its owner has let go of it


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_failure_beside_a_team_calls_the_whole_team_off(depth: int) -> None:
    """`on-fail: halt` ends every run of the team, and the run fails as its journal says."""
    stage = Stage(failing(depth), Cast({"bad": [BROKEN], "leaf": [PAID], "end": [PAID]}))
    stage.cast._seconds = 1.0
    ended = stage.start()

    assert (ended.status, how_it_ends(stage.records())) == ("failed", "failed")
    check_called_off(stage, chain(depth))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_team_of_a_flow_that_takes_too_long_is_called_off(depth: int) -> None:
    """A topology node's `timeout` counts like an agent's."""
    stage = Stage(flow("team -> b", team=nested(depth, timeout=1.5)))
    ended = stage.start()

    assert (ended.status, how_it_ends(stage.records())) == ("failed", "failed")
    assert [(r.kind, r.at) for r in stage.records(AttemptFailed)] == [("timeout", 1.5)]
    check_called_off(stage, chain(depth))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_team_in_a_slot_that_takes_too_long_is_called_off(depth: int) -> None:
    """A pattern goes on, or fails, without the team."""
    plan = pattern("pipeline", {"stage_0": nested(depth, timeout=1.5), "stage_1": AgentPlan(name="stage_1")})
    stage = Stage(plan)
    ended = stage.start()

    assert (ended.status, how_it_ends(stage.records())) == ("failed", "failed")
    check_called_off(stage, [run.replace("team#1.1", "stage_0#1.1", 1) for run in chain(depth)])


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_team_that_is_a_role_and_takes_too_long_is_called_off(depth: int) -> None:
    """The iteration has failed; the loop goes on with the same role."""
    loop = LoopPlan(roles=(RolePlan(id="team"),), handoff=(("loop.start", ("team",)),), max_iterations=2)
    stage = Stage(Plan(name="loop", agents={"team": nested(depth, timeout=1.5)}, coordination=loop))
    ended = stage.start()

    assert ended.status == "failed" or ended.status == "stopped"
    assert [r.kind for r in stage.records(TurnFailed)] == ["timeout", "timeout"]
    for n in (1, 2):
        check_called_off(stage, [run.replace("team#1.1", f"iteration#{n}.1", 1) for run in chain(depth)])
    assert not stage.records(TurnCancelled)
