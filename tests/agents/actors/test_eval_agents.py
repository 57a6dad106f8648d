"""Eval agents: they observe what agents report, and their corrections take effect, within their limit."""

import asyncio
import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from value_agents import untyped

import coterie
from coterie import AgentProcess, Correction, EvalAgent, EvalEvent, Runtime, Supervisor
from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.evaluation import CorrectionLimit
from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.agents.actors.system import ActorSystem
from coterie.agents.actors.transports.base import Transport
from coterie.base.clock import VirtualClock
from coterie.errors import AgentStopped, CannotStart
from coterie.execution.kinds.systems.turn_actor import TurnActor
from coterie.history.journal.records import (
    ActorStopped,
    CorrectionDropped,
    CorrectionSent,
    EvalReported,
    LetterDead,
    Record,
    TurnFinished,
)
from coterie.history.views.spans import TraceSpan
from coterie.team.planning.plan import AgentPlan
from coterie.team.planning.system import ActorPlan, DynamicPlan, EvalPlan, SupervisorPlan, SystemPlan, TurnActorPlan

HERE = __name__


class Reporter(AgentProcess):
    """Reports each payload as an event, and remembers in which order corrections and messages came."""

    async def on_start(self) -> None:
        self.seen: list[Any] = []

    async def handle(self, message: Message) -> Message | None:
        self.seen.append(message.payload)
        match message.payload:
            case {"report": said}:
                await self.emit_eval("said", said)
            case {"type": type}:
                await self.emit_eval(type)
            case {"crash": _}:
                raise ValueError("crash")
            case {"spawn": name}:
                await self.spawn(EvalAgent, name)
        return self.reply(list(self.seen))

    async def on_correction(self, message: Message) -> None:
        self.seen.append(message.payload)


class Judge(EvalAgent):
    """Corrects with what the event says."""

    async def on_start(self) -> None:
        self.events: list[EvalEvent] = []

    async def on_eval_event(self, event: EvalEvent) -> Correction | None:
        self.events.append(event)
        if event.payload == "crash":
            raise ValueError("no judgement")
        return Correction(**event.payload) if isinstance(event.payload, dict) else None

    async def handle(self, message: Message) -> Message | None:
        return self.reply([event.payload for event in self.events])


class Plain(EvalAgent):
    """Its judgement needs no await."""

    def on_eval_event(self, event: EvalEvent) -> Any:
        return event.payload


CLASSES: dict[str, type] = {"Reporter": Reporter, "Judge": Judge, "Plain": Plain}


def play(*children: Any, scene: Any, **fields: Any) -> list[Record]:
    """Run *scene* with a system of *children* under one supervisor; return the records."""
    records: list[Record] = []
    clock = VirtualClock(1000.0)

    async def main() -> None:
        root = SupervisorPlan(name="root", children=children, backoff_base=0.0, **fields)
        system = ActorSystem(SystemPlan(root=root), SystemPorts(clock=clock, sink=records.append, classes=CLASSES))
        await system.start()
        try:
            await scene(system)
        finally:
            await system.stop()

    clock.run(main())
    return records


def of(records: list[Record], *kinds: type[Record]) -> list[Any]:
    return [record for record in records if isinstance(record, kinds)]


REPORTER = ActorPlan(name="a", type="Reporter")
JUDGE = EvalPlan(name="judge", class_="Judge")


def test_without_a_class_events_are_recorded() -> None:
    """The event has its agent, type and payload; nothing follows from it."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": {"words": 3}})

    records = play(REPORTER, EvalPlan(name="monitor"), scene=scene)

    assert of(records, EvalReported) == [EvalReported(agent="a", type="said", payload={"words": 3})]
    assert not of(records, CorrectionSent, LetterDead)


def test_without_eval_agents_events_are_nothing() -> None:
    """An agent may report events that no part of the system observes."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": 1})

    assert not of(play(REPORTER, scene=scene), EvalReported)


@pytest.mark.parametrize("kind", ["nudge", "redirect"])
def test_a_correction_is_given_before_the_next_message(kind: str) -> None:
    """Also before messages that were sent earlier, and even if the mailbox is full."""
    seen: list[Any] = []

    async def scene(system: ActorSystem) -> None:
        await system.send("a", {"report": {"kind": kind, "reason": "brief", "payload": [1]}})
        asks = [asyncio.ensure_future(system.ask("a", n)) for n in range(2)]
        seen.extend((await asks[1]).payload)

    plan = ActorPlan(name="a", type="Reporter", mailbox_size=3)
    records = play(plan, JUDGE, scene=scene)

    correction = {"agent": "a", "kind": kind, "reason": "brief", "payload": [1]}
    assert correction in seen
    assert of(records, CorrectionSent) == [CorrectionSent(evaluator="judge", **correction)]


def test_a_correction_waits_for_a_restart() -> None:
    """An agent that has crashed gets it as its next incarnation, before what waits in its mailbox."""
    seen: list[Any] = []

    async def scene(system: ActorSystem) -> None:
        await system.ask("b", {"report": {"kind": "nudge", "agent": "a", "reason": "one"}})
        await system.send("a", {"crash": 1})
        await system.ask("b", {"report": {"kind": "nudge", "agent": "a", "reason": "two"}})
        await asyncio.sleep(5)
        seen.extend((await system.ask("a", "last")).payload)

    play(REPORTER, ActorPlan(name="b", type="Reporter"), JUDGE, scene=scene, backoff="CONSTANT")

    assert [one["reason"] if isinstance(one, dict) else one for one in seen] == ["two", "last"]


def test_a_halt_stops_the_agent_for_good() -> None:
    """Whatever its restart type; those that wait for it get `AgentStopped`."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": {"kind": "halt", "reason": "loops"}})
        await asyncio.sleep(1)
        with pytest.raises(AgentStopped):
            await system.ask("a", 1)

    records = play(REPORTER, JUDGE, scene=scene)

    assert [(one.agent, one.kind, one.reason) for one in of(records, CorrectionSent)] == [("a", "halt", "loops")]
    assert next(one.name for one in of(records, ActorStopped)) == "a"


def test_an_eval_agent_can_halt_itself_and_what_is_above_it() -> None:
    """The halt is carried out by the supervisor, so nothing waits for itself."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": {"kind": "halt", "agent": "sup"}})
        await asyncio.sleep(1)
        assert {one.name: one.state for one in system.describe()}["sup"] == "stopped"

    records = play(REPORTER, SupervisorPlan(name="sup", children=(JUDGE,)), scene=scene)

    stopped = of(records, ActorStopped)
    assert [one.name for one in stopped][:2] == ["judge", "sup"]
    assert {one.reason for one in stopped} == {"shutdown"}


def test_the_limit_counts_per_agent_and_window() -> None:
    """Beyond it a nudge is dropped, with a record; another agent, and the next window, have their own count."""

    async def scene(system: ActorSystem) -> None:
        for agent in ("a", "a", "b", "a"):
            await system.ask(agent, {"report": {"kind": "nudge", "reason": "x"}})
        await asyncio.sleep(60)
        await system.ask("a", {"report": {"kind": "nudge", "reason": "later"}})

    judge = EvalPlan(name="judge", class_="Judge", max_corrections_per_window=2)
    records = play(REPORTER, ActorPlan(name="b", type="Reporter"), judge, scene=scene)

    assert [one.agent for one in of(records, CorrectionSent)] == ["a", "a", "b", "a"]
    dropped = CorrectionDropped(
        evaluator="judge", agent="a", kind="nudge", reason="x", problem="more than 2 within 60 s"
    )
    assert of(records, CorrectionDropped) == [dropped]


def test_a_halt_is_never_dropped() -> None:
    """Not beyond the limit, and not while the supervisor of the agent is being restarted."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("b", {"report": {"kind": "nudge", "agent": "a"}})
        await system.send("a", {"crash": 1})
        await system.ask("b", {"report": {"kind": "halt", "agent": "a"}})
        await asyncio.sleep(30)
        assert {one.name: one.state for one in system.describe()}["a"] == "stopped"

    judge = EvalPlan(name="judge", class_="Judge", max_corrections_per_window=0)
    inner = SupervisorPlan(name="inner", children=(REPORTER,), max_restarts=0)
    children = (inner, ActorPlan(name="b", type="Reporter"), judge)
    records: list[Record] = []
    clock = VirtualClock(1000.0)

    async def main() -> None:
        root = SupervisorPlan(name="root", children=children, backoff_base=10.0)
        system = ActorSystem(SystemPlan(root=root), SystemPorts(clock=clock, sink=records.append, classes=CLASSES))
        await system.start()
        await scene(system)
        await system.stop()

    clock.run(main())

    assert [one.kind for one in of(records, CorrectionSent)] == ["halt"]
    assert [one.kind for one in of(records, CorrectionDropped)] == ["nudge"]


def test_the_limit_holds_across_restarts_of_the_eval_agent() -> None:
    """An eval agent that crashes in a loop cannot send more."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": {"kind": "nudge"}})
        await system.ask("a", {"report": "crash"})
        await system.ask("a", {"report": {"kind": "nudge"}})
        await asyncio.sleep(1)

    judge = EvalPlan(name="judge", class_="Judge", max_corrections_per_window=1)
    records = play(REPORTER, judge, scene=scene)

    assert len(of(records, CorrectionSent)) == len(of(records, CorrectionDropped)) == 1
    assert [(one.recipient, one.reason) for one in of(records, LetterDead)] == [("judge", "crashed")]


def test_an_unknown_agent_cannot_be_corrected() -> None:
    """The correction is recorded, and why it was dropped."""

    async def scene(system: ActorSystem) -> None:
        for kind in ("nudge", "halt"):
            await system.ask("a", {"report": {"kind": kind, "agent": "aa"}})
        await asyncio.sleep(1)

    dropped = of(play(REPORTER, JUDGE, scene=scene), CorrectionDropped)

    assert [(one.kind, one.problem.partition(";")[0]) for one in dropped] == [
        ("nudge", "there is no agent 'aa'"),
        ("halt", "there is no agent 'aa'"),
    ]


def test_an_eval_agent_that_has_stopped_holds_up_nothing() -> None:
    """Its events become dead letters; those who report go on."""

    async def scene(system: ActorSystem) -> None:
        await system.tree.stop_agent("judge")
        assert await system.ask("a", {"report": 1})

    records = play(REPORTER, JUDGE, scene=scene)

    assert [(one.recipient, one.sender, one.reason) for one in of(records, LetterDead)] == [("judge", "a", "stopped")]


def test_an_eval_agent_answers_other_messages_too() -> None:
    """Events do not go through `handle`."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": 1})
        assert (await system.ask("judge")).payload == [1]

    play(REPORTER, JUDGE, scene=scene)


def test_agents_cannot_forge_events_or_corrections() -> None:
    """Their types are reserved."""

    async def scene(system: ActorSystem) -> None:
        for type in ("_eval", "_correction"):
            with pytest.raises(ValueError, match="reserved"):
                await system.send("judge", {}, type)

    play(REPORTER, JUDGE, scene=scene)


def test_an_event_that_is_no_json_is_an_error_where_it_is_reported() -> None:
    """The agent that reported it crashes, not the system; a journal has no half surrogate pairs in keys."""

    async def scene(system: ActorSystem) -> None:
        for payload in (object(), {"\ud800": 1}):
            with pytest.raises(Exception, match="the payload of event 'said' cannot be written as JSON"):
                await system.ask("a", {"report": payload})
        with pytest.raises(Exception, match="the type of an event must be a text, not 5"):
            await system.ask("a", {"type": 5})

    play(REPORTER, JUDGE, scene=scene)


@pytest.mark.parametrize("field", ["reason", "agent"])
def test_a_correction_without_texts_crashes_the_eval_agent(field: str) -> None:
    """Not the system, whose journal could not keep it."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": {"kind": "nudge", field: 5}})
        await asyncio.sleep(1)

    [letter] = of(play(REPORTER, JUDGE, scene=scene), LetterDead)

    assert f"the {field} of a correction must be a text, not 5" in letter.detail


def test_a_wrong_answer_of_on_eval_event_crashes_the_eval_agent() -> None:
    """Naming what it returned; a correction without await is taken, too."""

    async def scene(system: ActorSystem) -> None:
        await system.ask("a", {"report": 7})
        await asyncio.sleep(1)

    [letter] = of(play(REPORTER, EvalPlan(name="judge", class_="Plain"), scene=scene), LetterDead)

    assert "on_eval_event of 'judge' returned int: return a Correction or None" in letter.detail


def test_eval_agents_are_declared_not_spawned() -> None:
    """All processes must know them."""

    async def scene(system: ActorSystem) -> None:
        with pytest.raises(Exception, match="cannot spawn 'x': an eval agent is declared in the tree"):
            await system.ask("a", {"spawn": "x"})

    play(REPORTER, DynamicPlan(name="pool"), scene=scene)


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        (ActorPlan(name="m", type="Judge"), "'m': Judge is an eval agent: write type: eval_agent, class: Judge"),
        (EvalPlan(name="m", class_="Reporter"), "eval agent 'm': Reporter is not an EvalAgent"),
    ],
)
def test_a_class_of_the_wrong_kind_is_refused(plan: Any, error: str) -> None:
    """Before anything starts."""
    with pytest.raises(CannotStart, match=error):
        ActorSystem(SystemPlan(root=SupervisorPlan(name="root", children=(plan,))), SystemPorts(classes=CLASSES))


def test_python_and_yaml_observe_alike(tmp_path: Path) -> None:
    """A tree in Python with an instance, and the same in a file with `class:`."""
    file = tmp_path / "topology.yaml"
    file.write_text(
        f"supervision:\n  name: root\n  children:\n    - agent: {{ name: a, type: {HERE}.Reporter }}\n"
        f"    - {{ name: judge, type: eval_agent, class: {HERE}.Judge, max_corrections_per_window: 1 }}\n",
        encoding="utf-8",
    )
    tree = Supervisor("root", children=[Reporter("a"), Judge("judge", max_corrections_per_window=1)])

    async def main(runtime: Runtime) -> list[Any]:
        async with runtime:
            for _ in range(2):
                await runtime.ask("a", {"report": {"kind": "nudge", "reason": "brief"}})
            return list((await runtime.ask("a", "last")).payload)

    said = [VirtualClock().run(main(runtime)) for runtime in (Runtime(tree), Runtime.from_config(file))]

    assert said[0] == said[1]
    assert [one.get("kind") for one in said[0] if isinstance(one, dict) and "kind" in one] == ["nudge"]


class Wire(Transport):
    """Carries messages to one other node."""

    def __init__(self) -> None:
        super().__init__()
        self.other: ActorNode

    def deliver(self, message: Message) -> "asyncio.Future[None] | None":
        return self.other.receive(message)


def test_events_and_corrections_cross_nodes() -> None:
    """The observed agent lives in a worker, the eval agent in the supervisor's process."""
    seen: list[Any] = []
    clock = VirtualClock(1000.0)

    def add(node: ActorNode, agent: AgentProcess) -> AgentChild:
        return AgentChild(ChildSpec(name=agent.name, factory=lambda: agent), node)

    async def main() -> None:
        wires = Wire(), Wire()
        worker, here = (ActorNode(clock=clock, transport=wire, evaluators=("judge",)) for wire in wires)
        wires[0].other, wires[1].other = here, worker
        children = add(worker, Reporter("a")), add(here, Judge("judge"))
        for node, child in zip((worker, here), children, strict=True):
            await node.start()
            await child.start(1)
        await worker.ask("a", {"report": {"kind": "nudge", "reason": "brief"}})
        await asyncio.sleep(1)
        seen.extend((await worker.ask("a", "last")).payload)
        for child in children:
            await child.stop(SHUTDOWN)

    clock.run(main())

    assert {"agent": "a", "kind": "nudge", "reason": "brief", "payload": None} in seen


def test_the_window_slides() -> None:
    """A correction counts for the length of the window, not for a calendar minute; dropped ones do not count."""
    limit = CorrectionLimit(2, 10.0)

    admitted = [now for now in (0.0, 6.0, 9.9, 10.0, 11.0, 16.0) if limit.admits("a", now)]

    assert admitted == [0.0, 6.0, 10.0, 16.0]


def test_a_child_that_answers_with_turns_is_corrected_by_its_task() -> None:
    """The reason is added to the task of its next turn, once."""
    given: list[Any] = []

    async def call(agent: str, asked: Any, *_: Any) -> TurnFinished:
        given.append(asked)
        return TurnFinished(turn="writer#1", attempt=1, text="done")

    async def main() -> None:
        children = (TurnActorPlan(name="writer", runs="model"), REPORTER, JUDGE)
        plan = SystemPlan(root=SupervisorPlan(name="root", children=children))
        system = ActorSystem(plan, SystemPorts(classes=CLASSES, turn_actor=lambda plan: TurnActor(plan, call)))
        await system.start()
        await system.ask("a", {"report": {"kind": "nudge", "agent": "writer", "reason": "be brief"}})
        await asyncio.sleep(1)
        for task in ("one", {"prompt": "two"}):
            await system.ask("writer", task)
        await system.stop()

    VirtualClock().run(main())

    assert given == [{"prompt": "one\n\nnudge: be brief"}, {"prompt": "two"}]


def test_a_team_of_a_system_gets_what_it_is_sent_or_nothing() -> None:
    """The journal has the message as JSON, as which a function without a type would get a date as a text."""
    team = coterie.plan(coterie.flow("inner", [coterie.agent(untyped)]))
    given: list[Any] = []

    async def call(agent: str, asked: Any, *_: Any) -> TurnFinished:
        given.append(asked)
        return TurnFinished(turn="desk#1", attempt=1, text="done")

    async def main() -> None:
        agents = {"desk": AgentPlan(name="desk", child=team)}
        root = SupervisorPlan(name="root", children=(TurnActorPlan(name="desk", runs="flow"),))
        ports = SystemPorts(classes=CLASSES, turn_actor=lambda plan: TurnActor(plan, call, agents))
        system = ActorSystem(SystemPlan(root=root), ports)
        await system.start()
        refused = await system.ask("desk", {"value": datetime.date(2026, 1, 1)})
        assert "desk: the input 'value' for untyped() is date, which its readers" in refused.payload["reason"]
        await system.ask("desk", {"value": "2026-01-01"})
        await system.stop()

    VirtualClock().run(main())
    assert given == [{"value": "2026-01-01"}]


def test_events_and_corrections_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span without length for each, with what it is about, and no secret."""
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret")
    spans: list[TraceSpan] = []

    class Kept:
        def export(self, given: Sequence[TraceSpan]) -> None:
            spans.extend(given)

    async def main() -> None:
        root = SupervisorPlan(name="root", children=(REPORTER, EvalPlan(name="judge", class_="Judge")))
        system = ActorSystem(SystemPlan(root=root), SystemPorts(classes=CLASSES, plugins=Plugins(exporters=[Kept()])))
        await system.start()
        for agent in ("", "nobody"):
            report = {"kind": "nudge", "reason": "brief", "agent": agent, "payload": "sk-very-secret"}
            await system.ask("a", {"report": report})
        await asyncio.sleep(1)
        await system.stop()

    VirtualClock().run(main())

    assert "very-secret" not in repr(spans)
    [first, *_] = [span for span in spans if span.name == "eval said"]
    assert (first.attributes["gen_ai.agent.name"], first.attributes["coterie.eval.type"]) == ("a", "said")
    assert json.loads(first.attributes["coterie.eval.payload"])["reason"] == "brief"
    corrected = {
        (span.name, span.attributes["coterie.correction.kind"], span.error) for span in spans if "correct " in span.name
    }
    assert ("correct a", "nudge", "") in corrected
    assert ("correct nobody", "nudge", "there is no agent 'nobody'") in corrected
