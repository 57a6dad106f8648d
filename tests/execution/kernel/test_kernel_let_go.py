"""A run of many turns keeps the results that a prompt may still show, and no others."""

import asyncio
from collections.abc import Collection
from random import Random
from typing import Any

import pytest
from page_moments import Everyone
from played import played
from random_flows import random_flow_plan
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer
from coterie.execution.kernel import fold
from coterie.execution.kernel.event_queue import Event, EventQueue
from coterie.execution.kernel.fold import Fold
from coterie.execution.kinds.flow import FlowKind
from coterie.execution.kinds.system import SystemKind
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import Conversation, Question
from coterie.history.journal.records import CallAsked, RunStarted, TurnFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan, FlowPlan, MappedFlowPlan, MapPlan, Plan, Wanted
from coterie.team.planning.system import SupervisorPlan, SystemPlan
from coterie.team.topology.model import ArrowGroup

ROUNDS = 100


def looped(name: str, plan: Plan, rounds: int) -> Plan:
    """*plan*, and an arrow from its last node back to its first one."""
    assert plan.flow is not None
    back = ArrowGroup(source=plan.flow.mentions[-1], targets=plan.flow.mentions[:1], max=rounds)
    groups = (*plan.flow.groups, back)
    return Plan(name=name, agents=plan.agents, coordination=FlowPlan(mentions=plan.flow.mentions, groups=groups))


def with_text(stage: Stage) -> list[str]:
    """The turns and sets whose answers are in memory."""
    core = stage.shell.runs["r"].core
    return [one.ask.turn for one in (*core.turns.values(), *core.sets.values()) if one.result and one.result.text]


def test_a_flow_keeps_the_latest_results() -> None:
    """Hundred rounds of two agents leave the answers of a few."""
    stage = Stage(looped("long", flow("a -> b"), ROUNDS))
    stage.start()

    assert len(stage.records()) > 4 * ROUNDS
    assert {f"a#{ROUNDS + 1}", f"b#{ROUNDS + 1}"} <= {*with_text(stage)}
    assert len(with_text(stage)) <= 20


def test_a_pattern_keeps_the_latest_results() -> None:
    """Its questions contain what they need."""

    def conversation(given: dict[str, Any]) -> Conversation:
        for n in range(ROUNDS):
            yield Question("writer", f"{n}")
        return "done"

    make = played(lambda plan: (GeneratorEngine(conversation), {}))
    stage = Stage(Plan(name="p"), Cast({"writer": [Answer(text="it")]}), make_kind=make)
    stage.start()

    assert len(with_text(stage)) <= 20


class _All(Collection[str]):
    """Every name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def _random_plan(seed: int) -> Plan:
    dice = Random(f"let go {seed}")
    if seed % 4 == 0:
        names = ("l", "verdict")
        lister = AgentPlan(name="lister", outputs=tuple(Wanted(name=name, type="list") for name in names))
        plan = looped("sets", flow("lister -> check -> report", lister=lister), rounds=6)
        assert plan.flow is not None
        each = MapPlan(agent="lister", field="l", at_most=9, on_more="first", tolerate="90%")
        maps = MappedFlowPlan(mentions=plan.flow.mentions, groups=plan.flow.groups, maps={"check": each})
        return Plan(name="sets", agents=plan.agents, coordination=maps)
    if seed % 4 == 1:
        kinds = {name: AgentPlan(name=name, kind=dice.choice(["agent", "gate"])) for name in "bcd"}
        return looped("gates", flow("a -> [b, c]", "[b, c] -> d", "d -> e", **kinds), rounds=6)
    return random_flow_plan(seed, most=7)


@pytest.mark.parametrize("seed", range(24))
def test_no_prompt_lacks_a_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts are the same whether results are let go of as soon as possible, or never."""

    def asked() -> list[str]:
        stage = Stage(_random_plan(seed), Cast(Everyone(Random(seed))), park=True)
        stage.start()
        return [request.prompt for request in stage.cast.asked]

    monkeypatch.setattr(fold, "_REPLACED_MOST", 0)
    without = asked()
    monkeypatch.setattr(FlowKind, "quoted", lambda self, fold: _All())

    assert asked() == without


def test_a_system_keeps_its_latest_turns() -> None:
    """It may answer for months; the next number of an agent is known all the same."""
    system = SystemPlan(root=SupervisorPlan(name="root"))
    kind = SystemKind(Plan(name="s", agents={"a": AgentPlan(name="a")}, coordination=system))
    known = Fold("r", kind)
    known.apply(RunStarted(seq=1, run="r", engine="system"))
    for n in range(1, 1_501):
        known.apply(CallAsked(seq=known.seq + 1, turn=f"a#{n}", agent="a", given={}))
        known.apply(TurnStarted(seq=known.seq + 1, turn=f"a#{n}", agent="a", cause=(known.seq, 0)))
        if n != 7:
            known.apply(TurnFinished(seq=known.seq + 1, turn=f"a#{n}", attempt=1, text="it"))

    assert (len(known.turns), [*known.open]) == (kind.turns_kept + 1, ["a#7"])
    assert "a#1500" in known.turns
    assert kind.engine.numbers == {"a": 1_500}


def test_the_timer_of_a_child_run_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its time is over, it would hold what the run was given."""
    timers: list[asyncio.TimerHandle | None] = []
    put_later = EventQueue.put_later

    def noted(self: EventQueue, wait: float, event: Event) -> asyncio.TimerHandle | None:
        timers.append(put_later(self, wait, event))
        return timers[-1]

    monkeypatch.setattr(EventQueue, "put_later", noted)
    team = AgentPlan(name="team", kind="topology", child=flow("x -> y"), timeout=3_600)
    Stage(flow("a -> team", team=team)).start()

    assert [one is not None and one.cancelled() for one in timers] == [True]


def test_a_plan_that_is_read_again_adds_no_secrets() -> None:
    """A loop may read its plan again in each iteration."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", env={"TOKEN": "s3cret-value"})))
    stage.start()
    tree = stage.shell.tree
    known = len(tree._environments)
    for _ in range(3):
        tree.learn_secrets(stage.plan)

    assert len(tree._environments) == known
