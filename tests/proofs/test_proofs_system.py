"""The transition system decides what the engine decides, step by step."""

import random
from itertools import groupby

import pytest
from exhaustive import copied
from msgspec.structs import replace as with_
from parts import parts
from proof_flows import proof_plan

from coterie.history.engines.commands import Ask, Finish
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal.records import Record, RunStarted, TurnFailed, TurnFinished
from coterie.proofs.answers import answers
from coterie.proofs.shape import FlowShape
from coterie.proofs.state import Started, Step
from coterie.proofs.system import FlowSystem
from coterie.team.planning.plan import FlowPlan, Plan
from coterie.team.topology.model import ArrowGroup

pytestmark = pytest.mark.once


def humans_asked(plan: Plan, dice: random.Random) -> Plan:
    """*plan*, now and then with a human who is asked when a loop is spent."""
    assert isinstance(plan.coordination, FlowPlan)
    from msgspec.structs import replace

    def asked(group: ArrowGroup) -> ArrowGroup:
        return replace(group, on_max="human") if dice.random() < 0.3 else group

    groups = tuple(asked(group) for group in plan.coordination.groups)
    return with_(plan, coordination=with_(plan.coordination, groups=groups))


class Pair:
    """One run of the engine and of the system, side by side."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.coordination, FlowPlan)
        self.shape = shape = FlowShape(plan.coordination, plan.agents)
        self.places = [(node, place) for node, chain in enumerate(shape.chains) for place in range(len(chain))]
        self.answers = {(node, place): answers(shape, node, place, None) for node, place in self.places}
        self.system = FlowSystem(shape, self.answers, dict.fromkeys(self.places, True))
        self.engine = FlowEngine(plan.coordination, plan.agents)
        self.nodes: dict[str, str] = {}  # turn -> node
        begins, self.state = self.system.start()
        self.over = self.same(begins, "", RunStarted(run="r", engine="flow"))

    def step(self, dice: random.Random) -> None:
        """Take the same random step on both sides."""
        step, self.state = dice.choice(list(self.system.steps(self.state)))
        self.over = self.same(step.started, step.over, self.record(step))
        decision = self.engine.decision
        if decision is not None:
            groups = self.shape.groups
            assert decision.fired == tuple((groups[i].source, groups[i].targets) for i in step.fired)
            assert decision.exhausted == tuple((groups[i].source, groups[i].targets) for i in step.exhausted)
            assert (decision.forced is not None) == step.forced
        else:
            assert step.fired == step.exhausted == ()

    def record(self, step: Step) -> Record:
        """The record that brings *step* about."""
        node = self.shape.names[step.node]
        turn = next(name for name, turn in self.engine._turns.items() if turn.node == node)
        assert self.engine._turns[turn].agent == self.shape.asked(step.node, step.place)
        if step.how == "failure":
            return TurnFailed(turn=turn, kind="failed", reason="it fails")
        if step.how == "answer":
            outputs = self.answers[step.node, step.place][step.answer].outputs
            return TurnFinished(turn=turn, attempt=1, outputs=outputs)
        return TurnFinished(turn=turn, attempt=1, outputs={"decision": step.how})

    def same(self, started: tuple[Started, ...], over: str, record: Record) -> str:
        """Hold what the engine wants after *record* against what the system says."""
        commands = self.engine.step(record)
        asks = [command for command in commands if isinstance(command, Ask)]
        assert [ask.agent for ask in asks] == [self.shape.asked(turn.node, turn.place) for turn in started]
        for ask, turn in zip(asks, started, strict=True):
            self.nodes[ask.turn] = self.shape.names[turn.node]
            if turn.arrows:
                sources = [self.shape.names[source] for source in self.shape.sources(turn.arrows)]
                assert [self.nodes[name] for name in ask.inputs] == sources
        assert next((command.outcome for command in commands if isinstance(command, Finish)), "") == over
        if not over:
            halting = {node for node, _ in self.system.halting(self.state)}
            failing = {step.node for step, _ in self.system.steps(self.state) if step.over == "failed"}
            fails = {self.shape.rank[turn.node] for name, turn in self.engine._turns.items() if self.fails(name)}
            assert halting <= fails <= halting | failing
        return over

    def fails(self, turn: str) -> bool:
        """Whether the run fails if *turn* does."""
        commands = copied(self.engine).step(TurnFailed(turn=turn, kind="failed", reason="it fails"))
        return any(isinstance(command, Finish) and command.outcome == "failed" for command in commands)


@parts(4, default=2)
def test_every_step_is_the_engines(part: int) -> None:
    """Random walks through random flows: the same turns start, the same groups fire, the run ends alike."""
    taken = 0
    for seed in range(part * 100, part * 100 + 100):
        dice = random.Random(seed)
        plan = proof_plan(seed)
        for _ in range(3):
            pair = Pair(humans_asked(plan, dice) if dice.random() < 0.5 else plan)
            for _ in range(60):
                if pair.over:
                    break
                pair.step(dice)
                taken += 1
    assert taken > 1000


def test_a_state_does_not_depend_on_how_it_was_reached() -> None:
    """What nothing to come looks at is forgotten: two loops in a row add their states, they do not multiply them."""
    from coterie.proofs import check
    from coterie.team.topology.conditions import Condition, Operator

    def loop(start: str, end: str, onward: str) -> list[ArrowGroup]:
        again = Condition(end, "v", Operator.EQ, "x")
        return [
            ArrowGroup(source=start, targets=(end,)),
            ArrowGroup(source=end, targets=(start,), when=again, max=50),
            ArrowGroup(source=end, targets=(onward,), when=Condition(end, "v", Operator.NE, "x")),
        ]

    groups = (*loop("a", "b", "c"), *loop("c", "d", "e"))
    names = [name for name, _ in groupby(sorted({n for g in groups for n in (g.source, *g.targets)}))]
    report = check(Plan(name="row", coordination=FlowPlan(mentions=tuple(names), groups=groups)))

    assert report.worst is not None
    assert report.worst.turns == 51 * 4 + 1
    assert report.states < 51 * 4 + 10
