"""Random flows, with random answers, failures and durations: what holds for all of them."""

from collections.abc import Container, Iterator
from random import Random

from flow_driver import Played, agent, enum, finished, make_plan, play
from hypothesis import given
from hypothesis import strategies as st
from parts import one_in

from coterie.history.engines.commands import Ask
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal.records import Record, TurnCancelled, TurnFailed, TurnFinished
from coterie.team.planning.plan import AgentPlan, FlowPlan
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import ArrowGroup

NAMES = "abcdefg"


@st.composite
def groups(draw: st.DrawFn, names: str) -> ArrowGroup:
    """A statement that leads on, back, or both; what leads back has a bound, so every cycle has one."""
    source = draw(st.sampled_from(names))
    targets = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
    back = any(target <= source for target in targets)
    reader = draw(st.sampled_from([source, source, source, *names]))
    op = draw(st.sampled_from([Operator.EQ, Operator.EQ, Operator.NE]))
    return ArrowGroup(
        source=source,
        targets=targets,
        when=draw(st.none() | st.builds(Condition, st.just(reader), st.just("v"), st.just(op), st.sampled_from("xy"))),
        max=draw(st.integers(1, 3)) if back or draw(st.integers(0, 4)) == 0 else None,
        on_max=draw(st.sampled_from(["forward", "forward", "forward", "end", "human"])),
    )


@st.composite
def flows(draw: st.DrawFn) -> tuple[FlowPlan, dict[str, AgentPlan]]:
    names = NAMES[: draw(st.integers(2, 7))]
    plan = make_plan(draw(st.lists(groups(names), min_size=1, max_size=12)))
    policies = ["halt", "skip", "skip", "continue", "continue", "fallback", "fallback"]
    agents = {
        name: agent(name, on_fail=draw(st.sampled_from(policies)), fallback=draw(st.sampled_from([*names, "helper"])))
        for name in names
    }
    return plan, agents | {"helper": agent("helper", on_fail="skip", outputs=(enum("v", "x", "y"),))}


def run(plan: FlowPlan, agents: dict[str, AgentPlan], seed: int, failures: float, readiness: bool = False) -> Played:
    """Play a flow; every answer and duration follows from *seed* and the turn."""
    flow = FlowEngine(plan, agents)
    if readiness:
        flow._ready = ByTheBook(FlowGraph(plan.mentions, plan.groups))  # type: ignore[assignment]

    def answer(ask: Ask, n: int) -> Record:
        chance = Random(f"{seed} {ask.turn}")
        if ask.agent.startswith("on-max:"):
            return finished(ask.turn, decision=chance.choice(["forward", "again"][: 3 - n] if n < 3 else ["end"]))
        if chance.random() < failures:
            if chance.random() < 0.2:
                return TurnCancelled(turn=ask.turn)
            return TurnFailed(turn=ask.turn, kind="exit", reason="status 1")
        return finished(ask.turn, **{"v": chance.choice("xy")} if chance.random() < 0.9 else {})

    return play(flow, answer, lambda ask, n: Random(f"{seed} {ask.turn} seconds").randint(1, 4))


class ByTheBook:
    """The settled rule, word for word: every marked node is looked at in every step."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.running: set[str] = set()
        self.marks: dict[str, set[int]] = {}

    def mark(self, node: str, group: int | None = None) -> None:
        self.marks.setdefault(node, set()).update([] if group is None else [group])

    def end(self, node: str) -> None:
        self.running.discard(node)

    def check_again(self, node: str) -> None:
        pass

    def start(self, busy: Container[str], mapped: Container[str] = ()) -> Iterator[tuple[str, list[str]]]:
        rank = self.graph.rank
        for node in sorted(self.marks, key=rank.__getitem__):
            in_flight = self.running | {other for other in self.marks if rank[other] < rank[node]}
            settled = not any(self.graph.upstream(node) >> rank[other] & 1 for other in in_flight)
            if settled and node not in self.running and node not in busy:
                marks = self.marks.pop(node)
                self.running.add(node)
                arrows = self.graph.arrows_into(node)
                yield node, list(dict.fromkeys(source for i, source in arrows if i in marks))


SEEDS = st.integers(0, 10_000)
FAILURES = st.sampled_from([0.0, 0.0, 0.3])


@one_in(2)
@given(flows(), SEEDS, FAILURES)
def test_a_bounded_flow_ends_and_runs_no_agent_twice_at_once(
    flow: tuple[FlowPlan, dict[str, AgentPlan]], seed: int, failures: float
) -> None:
    """No deadlock, no endless round, one turn at a time; without failures it completes."""
    played = run(*flow, seed, failures)

    assert played.finish is not None
    assert set(played.most.values()) <= {1}
    assert failures or played.finish.outcome == "completed"


@one_in(2)
@given(flows(), SEEDS, FAILURES)
def test_the_same_records_give_the_same_commands(
    flow: tuple[FlowPlan, dict[str, AgentPlan]], seed: int, failures: float
) -> None:
    """A fresh engine that hears the journal decides it all over again."""
    again = FlowEngine(*flow)

    for _, record, commands in run(*flow, seed, failures).heard:
        assert list(again.step(record)) == commands


@one_in(2)
@given(flows(), SEEDS, FAILURES)
def test_readiness_is_the_settled_rule_by_the_book(
    flow: tuple[FlowPlan, dict[str, AgentPlan]], seed: int, failures: float
) -> None:
    """Filing who waits under whom gives, step by step, what looking at everybody gives."""
    assert run(*flow, seed, failures).heard == run(*flow, seed, failures, readiness=True).heard


@one_in(2)
@given(flows(), SEEDS)
def test_no_group_fires_more_often_than_its_max(flow: tuple[FlowPlan, dict[str, AgentPlan]], seed: int) -> None:
    """Counted over the run, over forced firings too; only a human may grant more."""
    plan, agents = flow
    engine = FlowEngine(plan, agents)
    fired: dict[tuple[str, tuple[str, ...]], int] = {}
    granted = False
    for _, record, _ in run(plan, agents, seed, 0.0).heard:
        engine.step(record)
        if engine.decision is not None:
            granted |= isinstance(record, TurnFinished) and record.outputs.get("decision") == "again"
            for arrows in engine.decision.fired:
                fired[arrows] = fired.get(arrows, 0) + 1
            assert engine.decision.forced is None or engine.decision.forced in engine.decision.fired
    allowed: dict[tuple[str, tuple[str, ...]], float] = {}
    for each in plan.groups:
        arrows = (each.source, each.targets)
        allowed[arrows] = allowed.get(arrows, 0) + (float("inf") if each.max is None else each.max)
    assert granted or all(count <= allowed[arrows] for arrows, count in fired.items())
