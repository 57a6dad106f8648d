"""Crash schedules of loops, and proof that they bite."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from random_loops import random_loop_plan
from sampling import sampled

from coterie.execution.kernel.core import Core
from coterie.execution.kinds.loop.reload import compared
from coterie.history.engines.loop import LoopEngine
from coterie.history.journal import records
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup
from coterie.testing import SimulationFailed, simulate

pytestmark = pytest.mark.once


@pytest.mark.parametrize("seeds", sampled(600, 30, chunk=200))
def test_random_loops_survive(seeds: range) -> None:
    """600 schedules of loops with reviews and waves: what was accepted stands, and counters are as uncrashed."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        survived = simulate(random_loop_plan(seed // 5), seed)
        seen[survived.outcome] += 1
        seen["crashed"] += survived.crashes > 0
        seen["waves"] += "@branch/iteration" in survived.agents
        seen["reviews"] += "review" in survived.agents
        seen["interrupted"] += survived.interrupted > 0
    wanted = ("completed", "stopped", "crashed", "reviews", "interrupted")
    assert min(seen[what] for what in wanted) > len(seeds) / 10, seen
    assert seen["failed"] > len(seeds) / 40, seen
    assert seen["waves"] > len(seeds) / 10, seen


@pytest.mark.parametrize("seeds", sampled(60, 20))
def test_loops_that_are_read_again_survive(seeds: range) -> None:
    """A plan that changes under way holds over crashes: roles come and go, limits move."""
    for seed in seeds:
        plans = [random_loop_plan(seed), random_loop_plan(seed + 1000)]

        def reload(run: str, plan: Plan, plans: list[Plan] = plans) -> Any:
            if "/" in run:
                return records.ConfigKept()
            return compared(plan, plans[plan.content_hash() == plans[0].content_hash()])

        simulate(plans[0], seed, reload=reload)


def test_a_loop_at_a_node_survives() -> None:
    """A flow asks a loop, whose branches are child runs of a child run."""
    for seed in range(40):
        team = AgentPlan(name="team", kind="topology", retry=1, child=_that_ends(random_loop_plan(seed)))
        flow = FlowPlan(mentions=("team", "tell"), groups=(ArrowGroup(source="team", targets=("tell",)),))
        agents = {"team": team, "tell": AgentPlan(name="tell", retry=1)}
        simulate(Plan(name="flow", agents=agents, coordination=flow), seed)


@pytest.mark.parametrize("seeds", sampled(120, 24))
def test_teams_as_roles_survive(seeds: range) -> None:
    """Flows answer for roles, and what they give back chooses what they emit: once, whenever the owner dies."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        survived = simulate(_with_teams(random_loop_plan(seed // 2), seed), seed)
        seen[survived.outcome] += 1
        seen["crashed"] += survived.crashes > 0
        seen["teams"] += any(name.endswith("iteration/last") for name in survived.agents)
    assert min(seen["crashed"], seen["teams"], seen["completed"]) > len(seeds) / 8, seen


def _with_teams(plan: Plan, seed: int) -> Plan:
    """*plan*, every second role of which a flow of two agents answers for."""
    loop = plan.coordination
    assert isinstance(loop, LoopPlan)
    values = ("one", "two", "three")
    agents, roles = dict(plan.agents), list(loop.roles)
    for n, role in enumerate(loop.roles):
        if (n + seed) % 2:
            continue
        names = [event for event in role.emits if not event.startswith("/")]
        choices = tuple(
            (event, None if k == 2 else Condition(role.id, "verdict", Operator.EQ, value))
            for k, (event, value) in enumerate(zip(names, values, strict=False))
        )
        roles[n] = msgspec.structs.replace(role, events=choices)
        last = AgentPlan(name="last", retry=1, outputs=(Wanted(name="verdict", type="enum", values=values),))
        flow = FlowPlan(mentions=("first", "last"), groups=(ArrowGroup(source="first", targets=("last",)),))
        child = Plan(name="team", agents={"first": AgentPlan(name="first", retry=1), "last": last}, coordination=flow)
        agents[role.id] = AgentPlan(name=role.id, kind="topology", child=child)
    changed = msgspec.structs.replace(loop, roles=tuple(roles))
    return msgspec.structs.replace(plan, agents=agents, coordination=changed)


def _that_ends(plan: Plan) -> Plan:
    """*plan*, so that no limit of its own keeps it from an end: one role, which completes it or fails."""
    assert isinstance(plan.coordination, LoopPlan)
    loop = msgspec.structs.replace(
        plan.coordination, roles=(), handoff=(), required=(), max_iterations=10_000, max_cost=0.0
    )
    return msgspec.structs.replace(plan, coordination=loop)


# -- mutants ----------------------------------------------------------------------------------------------------------


def accepted_lost(patch: pytest.MonkeyPatch) -> None:
    """What a turn had emitted is forgotten when a crash cuts it off."""
    cut_off = LoopEngine._cut_off

    def forget(loop: LoopEngine, record: records.AttemptInterrupted) -> None:
        turn = loop.state.turns.get(record.turn)
        if turn is not None and record.reason == "crash":
            turn.events.clear()
            turn.routes = turn.wave = ""
            turn.completes = False
        cut_off(loop, record)

    patch.setattr(LoopEngine, "_cut_off", forget)


def ended_by_its_event(patch: pytest.MonkeyPatch) -> None:
    """A turn that a crash cuts off behind the completion is not retried."""
    cut_off = LoopEngine._cut_off

    def end(loop: LoopEngine, record: records.AttemptInterrupted) -> None:
        turn = loop.state.turns.get(record.turn)
        if turn is not None and turn.completes:
            loop._finish("completed", "completion_event")
        else:
            cut_off(loop, record)

    patch.setattr(LoopEngine, "_cut_off", end)


def stopped_by_ctrl_c(patch: pytest.MonkeyPatch) -> None:
    """A turn that Ctrl-C cuts off is cancelled if it had emitted."""
    cut_off = LoopEngine._cut_off

    def keep(loop: LoopEngine, record: records.AttemptInterrupted) -> None:
        cut_off(loop, record)
        if record.reason == "interrupted" and not loop._commands:
            loop._keep_events(record.turn, "it was interrupted")

    patch.setattr(LoopEngine, "_cut_off", keep)


def crash_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    """A crash counts among the failures in a row."""
    cut_off = LoopEngine._cut_off

    def count(loop: LoopEngine, record: records.AttemptInterrupted) -> None:
        loop.state.failures += record.reason == "crash"
        cut_off(loop, record)

    patch.setattr(LoopEngine, "_cut_off", count)


def decided_twice(patch: pytest.MonkeyPatch) -> None:
    """Every new owner decides anew what comes next, though it was decided."""
    hear = LoopEngine._apply

    def again(loop: LoopEngine, record: records.Record) -> None:
        if isinstance(record, records.RunOwned) and record.epoch > 1:
            loop.state.stopped = True
        hear(loop, record)

    patch.setattr(LoopEngine, "_apply", again)


def branch_started_anew(patch: pytest.MonkeyPatch) -> None:
    """A branch that was cut off begins from its start."""
    patch.setattr(Core, "takes_a_slot", lambda core, agent: core.kind(agent) != "human")


def memory_outside_the_journal(patch: pytest.MonkeyPatch) -> None:
    """Something that an input says is kept in the engine and in no record."""
    judge = LoopEngine.judge

    def keep(loop: LoopEngine, said: Any) -> Any:
        loop.state.waves += hasattr(said, "event")
        return judge(loop, said)

    patch.setattr(LoopEngine, "judge", keep)


MUTANTS = [
    pytest.param(accepted_lost, marks=pytest.mark.slow),
    ended_by_its_event,
    stopped_by_ctrl_c,
    crash_is_a_failure,
    decided_twice,
    branch_started_anew,
    memory_outside_the_journal,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_loop_is_caught(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these mistakes breaks a promise within a few hundred schedules."""
    mutant(monkeypatch)

    assert any(_breaks(seed) for seed in range(400))


def _breaks(seed: int) -> bool:
    try:
        simulate(random_loop_plan(seed // 5), seed)
    except SimulationFailed:
        return True
    return False
