"""Maps: the engine plays random flows as the second simulator does, and the cases that the rules name."""

from collections.abc import Callable
from typing import Any

import pytest
from flow_driver import failed, finished, play
from map_simulator import Simulator, Trace
from mapped_flows import answer_of, flow_of_mutual_fallbacks, random_mapped_flow, seconds_of

from coterie.history.engines.commands import Ask
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal import records as r
from coterie.team.planning.plan import AgentPlan, FlowPlan


def played(plan: FlowPlan, agents: dict[str, AgentPlan], given: dict[str, Any], seed: int) -> Trace:
    """What the engine does, in the words of the simulator."""
    engine, items = FlowEngine(plan, agents), {}

    def answer(ask: Ask, n: int) -> r.Record:
        if ask.item is not None:
            items[ask.turn] = (ask.item.k, ask.item.of, ask.item.value)
        said = answer_of(seed, ask.turn)
        if said == "cancel":
            return r.TurnCancelled(turn=ask.turn)
        return failed(ask.turn) if said == "fail" else finished(ask.turn, **said)

    begun = r.RunStarted(run="r", engine="flow", engine_version=FlowEngine.version, input=given)
    run = play(engine, answer, lambda ask, n: seconds_of(seed, ask.turn), begun)
    trace = Trace(items={})
    for now, record, commands in run.heard:
        match record:
            case r.SetStarted():
                trace.events.append((now, "set", record.set, record.items))
            case r.SetEnded():
                trace.events.append((now, "set ended", record.set, record.done, sorted(record.outputs)))
            case r.TurnStarted():
                trace.events.append((now, "start", record.turn, record.inputs))
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                what = {r.TurnFinished: "finished", r.TurnFailed: "failed"}.get(type(record), "cancelled")
                trace.events.append((now, what, record.turn))
        for command in commands:
            if isinstance(command, Ask) and command.item is not None:
                item = command.item
                trace.items[command.turn] = (item.k, item.of, item.value)
    assert run.finish is not None
    trace.outcome, trace.at_fault = run.finish.outcome, run.finish.at_fault
    return trace


def compare(seed: int, flow: Callable[[int], tuple[FlowPlan, dict[str, AgentPlan], Any]] = random_mapped_flow) -> Trace:
    """Play flow *seed* both ways."""
    plan, agents, given = flow(seed)
    other = Simulator(plan, agents, given, lambda turn: answer_of(seed, turn), lambda turn: seconds_of(seed, turn))
    wanted, found = other.run(), played(plan, agents, given, seed)
    assert found.events == wanted.events, seed
    assert (found.items, found.outcome, found.at_fault) == (wanted.items, wanted.outcome, wanted.at_fault), seed
    return found


def test_the_engine_plays_random_flows_with_maps_as_the_second_simulator_does() -> None:
    """Every start and end, in order and at its time, with the same items, numbers and inputs."""
    kinds: set[str] = set()
    for seed in range(300):
        kinds |= {event[1] for event in compare(seed).events}
    assert kinds == {"set", "set ended", "start", "finished", "failed", "cancelled"}


def test_sets_whose_fallbacks_are_each_others_nodes_end() -> None:
    """Each would wait until the set of the other has ended: the first that waits is worked on."""
    outcomes = {compare(seed, flow_of_mutual_fallbacks).outcome for seed in range(400)}
    assert outcomes == {"completed", "failed"}


@pytest.mark.long
def test_the_engine_plays_twenty_thousand_flows_with_maps_as_the_second_simulator_does() -> None:
    """As above, for many more."""
    for seed in range(300, 20_000):
        compare(seed)
