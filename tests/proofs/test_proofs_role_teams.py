"""Loops with teams as roles: what they take at most, and where what their outputs choose can lead."""

import pytest
from loop_play import review, waves
from msgspec import structs
from role_teams import JURY, events, jury_plan, pattern

from coterie.execution.runs.rehearsal import rehearse
from coterie.proofs import Prices, check
from coterie.proofs.measures import asked_paths
from coterie.team.planning.loop import RolePlan
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Plan

pytestmark = pytest.mark.once

REJECTS = {f"jury/{name}": [{"text": '{"approved": false}'}] for name in ("checker_0", "checker_1")}


def test_the_turns_of_a_team_are_counted() -> None:
    """A cross-check takes five turns with its repairs, in each of nine iterations; a writer takes one."""
    plan = jury_plan()
    report = check(plan, Prices(turn=0.5))
    assert report.worst is not None
    assert report.cost is not None

    assert (report.method, report.ends, report.worst.turns) == ("bound", True, 9 * 5)
    assert report.worst.agents["writer"] == 9
    assert report.worst.agents["jury/primary"] == 8
    assert report.worst.agents["jury/checker_0"] == 16
    assert report.cost.turns == 9 * 5 * 0.5
    assert set(report.worst.agents) == set(asked_paths(plan))
    document = rehearse(plan, {"prompt": "x"}, REJECTS)
    assert document["reason"] == "max_iterations"
    assert sum(len(turn["child"]["turns"]) if "child" in turn else 1 for turn in document["turns"]) <= 9 * 5


def test_in_branches_of_waves_they_count_as_often() -> None:
    report = check(jury_plan(parallel=waves(2), review=review(4)), Prices(turn=0.0, agents={"@branch/writer": 1.0}))
    assert report.worst is not None
    assert report.cost is not None

    assert report.worst.turns == 9 * 5 * 3 + 2
    assert report.worst.agents["@branch/jury/primary"] == 9 * 2
    assert report.worst.agents["@review"] == 2
    assert report.cost.turns == 9 * 2 * 1.0


def test_a_team_of_which_nothing_is_known_is_told() -> None:
    plan = jury_plan()
    own = structs.replace(pattern(JURY), coordination=PatternPlan(type="own:play"))
    plan.agents["jury"] = AgentPlan(name="jury", kind="topology", child=own)
    report = check(plan, Prices(turn=1.0))

    assert (report.worst, report.cost) == (None, None)
    [note] = [each for each in report.findings if each.code == "not-proved"]
    assert "'jury'" in note.message


def test_a_loop_as_a_role_is_counted_by_its_iterations() -> None:
    """The council is asked in seven iterations of a loop in eight at most, and in seven of the loop itself."""
    plan = jury_plan()
    plan.agents["jury"] = AgentPlan(name="jury", kind="topology", child=jury_plan())
    report = check(plan)
    assert report.worst is not None

    assert (report.method, report.worst.turns) == ("bound", 9 + 8 * 9 * 5 + 7 * 3)
    assert report.worst.agents["jury/council/mediator"] == 8 * 7


def test_what_its_outputs_never_choose_does_not_happen() -> None:
    """The jury may emit that the draft passed, and no output chooses it: the council is never reached."""
    plan = jury_plan()
    assert [each.code for each in check(plan).findings] == []
    blocked = _with_jury(events("jury", draft__rejected=""))

    found = {each.code: each for each in check(blocked).findings}
    assert set(found) == {"cannot-complete", "unreachable-role", "idle-key"}
    assert "'council'" in found["unreachable-role"].message


def test_no_script_pretends_to_choose_for_a_team() -> None:
    """A trap behind a team is told without a run that shows it."""
    roles = (
        RolePlan(id="jury", emits=("task.complete", "lost"), events=events("jury", lost="", task__complete="")),
        RolePlan(id="nobody"),
    )
    plan = jury_plan(roles=roles, handoff=(("loop.start", ("jury",)), ("lost", ("nobody",))), promise="")
    plan.agents["nobody"] = AgentPlan(name="nobody")
    [trap] = [each for each in check(plan).findings if each.code == "no-way-back"]

    assert trap.script is None


@pytest.mark.parametrize("name", ["jury", "writer"])
def test_prices_are_those_of_whoever_is_asked(name: str) -> None:
    """A role that a team answers for costs nothing by itself."""
    assert (name in set(asked_paths(jury_plan()))) is (name == "writer")


def _with_jury(chosen: tuple[object, ...]) -> Plan:
    plan = jury_plan()
    roles = tuple(
        RolePlan(id=role.id, emits=role.emits, events=chosen) if role.id == "jury" else role  # type: ignore[arg-type]
        for role in plan.coordination.roles  # type: ignore[union-attr]
    )
    made = jury_plan(roles=roles)
    made.agents["jury"] = AgentPlan(name="jury", kind="topology", child=pattern(JURY))
    return made
