"""Many schedules of one team: what they show depends on the seeds alone, and says what was counted."""

import msgspec
import pytest
from bundles import bundle
from protocol_engines import agents
from random_flows import random_flow_plan

from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup
from coterie.testing import simulate
from coterie.testing.random_replies import choices
from coterie.testing.series import CHUNK, Series, simulate_many
from coterie.testing.simulated import SimulatedWriter

pytestmark = pytest.mark.once

VERDICT = Wanted(name="verdict", type="enum", values=("revise", "approve"))


def review(**critic: object) -> Plan:
    """A writer and a critic who send work back twice at most; a publisher behind them."""
    again = Condition("critic", "verdict", Operator.EQ, "revise")
    groups = (
        ArrowGroup(source="writer", targets=("critic",)),
        ArrowGroup(source="critic", targets=("writer",), when=again, max=2),
        ArrowGroup(source="critic", targets=("publisher",)),
    )
    made = agents("writer", "publisher", retry=1)
    made["critic"] = AgentPlan(name="critic", outputs=(VERDICT,), **critic)  # type: ignore[arg-type]
    return Plan(
        name="review",
        agents=made,
        coordination=FlowPlan(mentions=("writer", "critic", "publisher"), groups=groups),
    )


@pytest.mark.slow  # processes of the pool load the library anew
def test_what_a_series_shows_does_not_depend_on_how_many_processes_share_it() -> None:
    """The same to the last number, first seeds of the worst cases included."""
    plan = random_flow_plan(3)
    alone = simulate_many(plan, CHUNK + 1, first=7, jobs=1)

    assert simulate_many(plan, CHUNK + 1, first=7, jobs=2) == alone
    assert alone.schedules == CHUNK + 1
    assert alone.broken is None


def test_a_series_adds_up_its_schedules() -> None:
    """Sums are sums, worst cases are those of the schedule that is named."""
    plan = review()
    found = simulate_many(plan, 60, jobs=1)
    each = [simulate(plan, seed) for seed in range(60)]

    assert found.crashes == sum(one.crashes for one in each) > 0
    assert found.crashed == sum(one.crashes > 0 for one in each)
    assert found.in_a_row == sum(one.in_a_row for one in each) > 0
    assert all(one.in_a_row < one.crashes for one in each if one.crashes)
    assert sum(found.outcomes.values()) == found.schedules == 60
    assert found.turns == max(one.turns for one in each)
    assert found.turns_seed == min(seed for seed, one in enumerate(each) if one.turns == found.turns)
    assert found.seconds == max(one.seconds for one in each) == each[found.seconds_seed or 0].seconds
    for name, worst in found.agents.items():
        loads = [one.agents[name] for one in each if name in one.agents]
        assert (worst.turns, worst.attempts, worst.cut) == tuple(
            max(getattr(load, field) for load in loads) for field in ("turns", "attempts", "cut")
        )


def test_the_worst_case_of_a_loop_is_its_bound() -> None:
    """Two rounds back make three turns; who is behind the loop, and not in it, has one turn at most."""
    agents = simulate_many(review(), 60, jobs=1).agents

    assert list(agents) == ["writer", "critic", "publisher"]
    assert [one.turns for one in agents.values()] == [3, 3, 1]
    assert max(one.cut for one in agents.values()) > 0


def test_the_agents_of_a_child_run_are_told_under_their_node() -> None:
    """A node that is a team has no turns of its own to count."""
    nested = Plan(
        name="outer",
        agents={**agents("clerk"), "team": AgentPlan(name="team", kind="topology", child=review())},
        coordination=FlowPlan(mentions=("team", "clerk"), groups=(ArrowGroup(source="team", targets=("clerk",)),)),
    )
    assert set(simulate_many(nested, 30, jobs=1).agents) == {"team/writer", "team/critic", "team/publisher", "clerk"}


def test_somebody_decides_on_a_turn_that_is_not_asked_again_unasked() -> None:
    """`on-interrupt: ask` does not keep a schedule from its end: sometimes it is asked again, sometimes called off."""
    found = simulate_many(review(on_interrupt="ask"), 60, jobs=1)

    assert found.broken is None
    assert found.agents["critic"].cut > 0
    assert found.agents["critic"].attempts > 1


def test_attempts_that_outlive_their_owner_are_started_once() -> None:
    """`on-interrupt: adopt`: half of the attempts survive a crash, and none is started twice under its number."""
    found = simulate_many(review(on_interrupt="adopt"), 60, jobs=1)

    assert found.broken is None


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_first_broken_promise_ends_a_series(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which seed, and holds the records; the schedules before it are counted."""
    plan = review()
    if jobs == 1:
        monkeypatch.setattr(SimulatedWriter, "is_durable", lambda writer, seq: True)
    else:  # a patch does not reach other processes; a flow that begins at a node it does not have breaks there too
        plan = msgspec.structs.replace(plan, coordination=FlowPlan(mentions=(), groups=(), entries=("nobody",)))
    told: list[int] = []
    found = simulate_many(plan, 4 * CHUNK, jobs=jobs, told=lambda so_far: told.append(so_far.schedules))

    assert found.broken is not None
    assert found.broken.seed == found.schedules < 4 * CHUNK
    assert found.broken.what
    assert told[-1] == found.schedules


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_told_ends_a_series_when_it_raises(jobs: int) -> None:
    """As Ctrl-C does: the processes of the series end with it."""

    def stop(so_far: Series) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_many(review(), 4 * CHUNK, jobs=jobs, told=stop)


@bundle(
    ("type", "values", "compared", "chosen"),
    [
        ("enum", ("a", "b"), ("c",), {"a", "b"}),
        ("boolean", (), (), {True, False}),
        ("integer", (), (8,), {7, 8, 9}),
        ("number", (), (0.5,), {0, 0.5, 1}),
        ("integer", (), (), set(range(6))),
        ("any", ("yes",), (), {"yes", "something else"}),
        ("text", (), ("yes", 3), {"yes", 2, 3, 4, "something else"}),
    ],
)
def test_stand_ins_choose_so_that_every_condition_can_hold_and_can_fail(
    type: str, values: tuple[str, ...], compared: tuple[str | float, ...], chosen: set[object]
) -> None:
    """Declared values, what conditions compare with, and what lies beside it."""
    assert set(choices(type, values, compared)) == chosen
