"""Gates: commands that the run itself runs before the answer of an agent counts."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from bundles import bundle
from loop_play import loop_plan, plan_of
from nests import nested
from stage import Cast, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, Emitted, Failure, Request, Result, Text, Usage
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import interruption
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.execution.runs.rehearsal import rehearse
from coterie.history.journal import records as r
from coterie.history.journal.memory import MemoryStore
from coterie.history.views.timeline import sentence
from coterie.team.planning.plan import AgentPlan, Limits, without_gates
from coterie.testing import promises, simulation
from coterie.testing.simulated import SimulatedTurns
from coterie.testing.world import World

TEST, LINT = ("make", "test"), ("make", "lint")


class Gated(Cast):
    """Agents that answer at once, and gates that take two seconds; *broken*: how often a gate fails first, by gate."""

    def __init__(self, broken: dict[tuple[str, ...], int] | None = None, **parts: Any) -> None:
        super().__init__(parts)
        self.broken = dict(broken or {})
        self.failure = Failure(kind="exit", reason="`make test` ended with status 2", text="1 failed", exit_code=2)
        self.gates: list[tuple[str, ...]] = []
        self.requests: list[Request] = []

    async def start(self, request: Request, on_event: Any) -> Any:
        if request.agent.kind != "gate":
            return await super().start(request, on_event)
        self.requests.append(request)
        [argv] = request.agent.steps
        self.gates.append(argv)
        self.broken[argv] = self.broken.get(argv, 0) - 1
        result: Result = self.failure if self.broken[argv] >= 0 else Answer(text="ok", usage=Usage(seconds=2.0))
        return await Cast({request.agent.name: [result]}, seconds=2.0).start(request, on_event)


def gated(*gates: Sequence[str], **fields: Any) -> AgentPlan:
    return AgentPlan(name="a", options={"gates": [list(gate) for gate in gates]}, **fields)


def kinds(records: Sequence[r.Record]) -> list[str]:
    return [str(type(one).__struct_config__.tag) for one in records]


def test_gates_run_after_an_answer_and_before_the_turn_is_finished() -> None:
    cast = Gated()
    stage = Stage(flow("a -> b", a=gated(TEST, LINT)), cast)
    assert stage.start().status == "completed"

    assert cast.gates == [TEST, LINT]
    checked = stage.records(r.GateChecked)
    assert [(one.argv, one.passed, one.status, one.seconds) for one in checked] == [
        (TEST, True, 0, 2.0),
        (LINT, True, 0, 2.0),
    ]
    [finished, _] = stage.records(r.TurnFinished)
    assert finished.seq == checked[-1].seq + 1
    assert finished.source == "agent"
    assert finished.text == "a#1 done"


def test_a_gate_runs_without_secrets_or_a_token_where_the_agent_works() -> None:
    cast = Gated()
    plan = flow("a -> b", a=gated(TEST, cwd="below", env={"X_TOKEN": "secret word"}, timeout=9.0))
    Stage(plan, cast).start()

    [request] = cast.requests
    assert (request.clean, request.token, request.root, request.folder) == (True, "", None, None)
    assert (request.agent.cwd, request.agent.env) == ("below", {})
    assert request.agent.timeout == 600.0
    assert (request.turn, request.attempt) == ("a#1", 1)  # so its processes carry the attempt's mark


def test_a_failing_gate_is_a_failed_attempt_and_the_next_one_is_given_its_output() -> None:
    """The first gate that fails is the last to run; an answer is repeated once without `retry`."""
    cast = Gated({TEST: 1})
    stage = Stage(flow("a -> b", a=gated(TEST, LINT)), cast)
    assert stage.start().status == "completed"

    assert cast.gates == [TEST, TEST, LINT]
    [failed] = stage.records(r.AttemptFailed)
    assert (failed.kind, failed.exit_code, failed.text) == ("invalid_output", 2, "1 failed")
    assert failed.reason == "the gate `make test` ended with status 2"
    again = cast.asked[1].prompt
    assert "# Your last attempt did not count" in again
    assert failed.reason in again
    assert "1 failed" in again


def test_an_agent_whose_gate_never_passes_fails() -> None:
    cast = Gated({TEST: 99}, a=[Answer(text="done, all tests pass", usage=Usage(cost=1.0))])
    stage = Stage(flow("a -> b", a=gated(TEST, retry=2)), cast)
    ended = stage.start()

    assert ended.status == "failed"
    assert [one.agent.name for one in cast.asked] == ["a", "a", "a"]
    assert ended.usage.cost == 3.0  # what an attempt cost that did not count is counted
    assert not stage.records(r.TurnFinished)


def test_a_team_has_gates_too() -> None:
    """What a child run answers waits for the gates of its node."""
    cast = Gated({TEST: 1})
    team = nested(1, options={"gates": [list(TEST)]})
    stage = Stage(flow("team -> b", team=team), cast)
    assert stage.start().status == "completed"

    assert cast.gates == [TEST, TEST]
    assert [one.kind for one in stage.records(r.AttemptFailed)] == ["invalid_output"]


@pytest.mark.parametrize("broken", [0, 1])
def test_a_kill_at_any_record_repeats_no_answer_that_was_recorded(broken: int) -> None:
    """Nor a gate: only what has no record is done again."""
    whole = Stage(flow("a -> b", a=gated(TEST, LINT)), Gated({TEST: broken}))
    whole.start()
    journal = whole.records()
    for n in range(2, len(journal)):
        known = journal[:n]
        cast = Gated({TEST: broken - sum(not one.passed for one in known if isinstance(one, r.GateChecked))})
        stage = Stage(whole.plan, cast)
        stage.store = _holding(known)
        assert stage.resume().status == "completed", n

        fold = Fold("r", kind_of(whole.plan))
        fold.fold(stage.records())  # raises where an engine decides otherwise
        answers = sum(isinstance(one, r.GatesDue) for one in known)
        assert sum(one.turn == "a#1" for one in cast.asked) == 1 + broken - answers, n
        gates = 2 + broken - sum(isinstance(one, r.GateChecked) for one in known)
        assert len(cast.gates) == gates, n


def test_ctrl_c_while_a_gate_runs_loses_no_answer() -> None:
    cast = Gated()
    stage = Stage(flow("a -> b", a=gated(TEST)), cast)
    stage.shell = shell = stage._shell(None)

    async def cut() -> None:
        task = asyncio.ensure_future(shell.start("r", stage.plan, {"prompt": "go"}))
        await asyncio.sleep(2.0)
        task.cancel()
        await asyncio.wait([task])

    stage.clock.run(cut())
    assert kinds(stage.records())[-2:] == ["gates.due", "run.stopped"]
    assert stage.resume().status == "completed"
    assert [one.turn for one in cast.asked] == ["a#1", "b#1"]
    assert cast.gates == [TEST, TEST]


def interrupted_at(stage: Stage, *times: float) -> RunExit:
    """The end of a run whose turn `a#1` an operator interrupts at these seconds; it has to come within a day."""
    stage.shell = shell = stage._shell(None)

    async def cut() -> RunExit:
        task = asyncio.ensure_future(shell.start("r", stage.plan, {"prompt": "go"}))
        for seconds in times:
            await asyncio.sleep(seconds - stage.clock.now())
            shell.post(lambda: take(shell, interruption("a#1"), stage.clock.now(), Sender("operator")))
        return await asyncio.wait_for(task, 86_400)

    return stage.clock.run(cut())


def test_an_operator_interrupts_a_gate() -> None:
    """The attempt counts as interrupted, with what it has cost, and the turn is repeated."""
    cast = Gated(a=[Answer(text="first", usage=Usage(cost=1.0)), Answer(text="second", usage=Usage(cost=0.5))])
    stage = Stage(flow("a -> b", a=gated(TEST)), cast)
    ended = interrupted_at(stage, 2.0)

    assert [(one.reason, one.usage.cost) for one in stage.records(r.AttemptInterrupted)] == [("interrupted", 1.0)]
    assert [one.turn for one in cast.asked] == ["a#1", "a#1", "b#1"]
    assert (ended.status, ended.usage.cost) == ("completed", 1.5)


def test_a_run_whose_gate_was_interrupted_stops_for_a_person() -> None:
    """Nothing of the interrupted gate is still waited for."""
    plan = flow("a -> boss", a=gated(TEST), boss=AgentPlan(name="boss", kind="human", backend="human"))
    ended = interrupted_at(Stage(plan, Person(), park=True), 2.0)

    assert (ended.status, ended.reason) == ("stopped", "waiting")


class Person(Gated):
    """Gates, and a person who never answers."""

    async def start(self, request: Request, on_event: Any) -> Any:
        if request.agent.kind == "human":
            return await Cast({"boss": [Answer()]}, seconds=1e9).start(request, on_event)
        return await super().start(request, on_event)


class LateGate:
    """A gate that ends two seconds after it was cut off."""

    def __init__(self, result: Result) -> None:
        self._result = result

    async def result(self) -> Result:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1e9)
        await asyncio.sleep(2.0)
        return self._result

    async def interrupt(self) -> None: ...


def test_what_an_attempt_says_while_the_gates_of_its_event_run_counts_after_their_verdict() -> None:
    """Its answer comes one second after the event, the verdict two; then the answer ends the turn, and the loop."""
    plan = plan_of(loop_plan(roles=(), handoff=(), completion="done"), options={"gates": [list(TEST)]})
    done = Streamed([(0.5, Emitted(event="done"))], Answer(text="all done"))
    stage = Stage(plan, Gated(**{"@loop": [done]}))
    assert stage.start().status == "completed"

    said = stage.records(r.GatesDue, r.GateChecked, r.EventEmitted, r.TurnFinished)
    assert kinds(said) == ["gates.due", "gate.checked", "event.emitted", "turn.finished"]
    assert said[-1].text == "all done"
    assert [one.at for one in said] == [0.5, 2.5, 2.5, 2.5]


def test_gates_of_a_loop_run_before_it_completes_and_not_at_its_other_events() -> None:
    """An event that only leads to the next role is recorded at once."""
    plan = plan_of(loop_plan(), options={"gates": [list(TEST)]})
    events = {"planner": "tasks.ready", "builder": "review.ready"}
    says = {name: [Streamed([(0.5, Emitted(event=event))], Answer())] for name, event in events.items()}
    stage = Stage(plan, Gated(**says))
    assert stage.start(Limits(max_turns=2)).reason == "max_turns"

    assert [one.event for one in stage.records(r.EventEmitted)] == [*events.values()]
    assert stage.records(r.GatesDue) == []


def test_an_interrupted_gate_ends_before_its_turn_is_asked_again() -> None:
    """Its process does not go on beside the next attempt."""
    ends: list[float] = []

    class Endless:
        async def result(self) -> Result:
            try:
                await asyncio.sleep(1e9)
            finally:
                ends.append(stage.clock.now())
            return Answer(text="")

        async def interrupt(self) -> None: ...

    class Once(Gated):
        async def start(self, request: Request, on_event: Any) -> Any:
            if request.agent.kind == "gate" and request.attempt == 1:
                return Endless()
            return await super().start(request, on_event)

    stage = Stage(flow("a -> b", a=gated(TEST)), Once())
    assert interrupted_at(stage, 2.0).status == "completed"
    assert ends == [2.0]


@bundle("kind", ["exit", "shortage"])
def test_the_result_of_a_gate_that_was_cut_off_counts_for_no_later_attempt(kind: str) -> None:
    """It comes while the gate of the second attempt runs, which an operator can still interrupt."""

    class Late(Gated):
        async def start(self, request: Request, on_event: Any) -> Any:
            if request.agent.kind == "gate" and request.attempt == 1:
                return LateGate(Failure(kind=kind, reason="late"))
            return await super().start(request, on_event)

    stage = Stage(flow("a -> b", a=gated(TEST)), Late())
    ended = interrupted_at(stage, 2.0, 4.5)

    assert ended.status == "completed"
    assert [(one.attempt, one.passed) for one in stage.records(r.GateChecked)] == [(3, True)]
    assert [(one.attempt, one.reason) for one in stage.records(r.AttemptInterrupted)] == [
        (1, "interrupted"),
        (2, "interrupted"),
    ]


def test_a_shortage_in_a_gate_stops_the_run_and_rejects_nothing() -> None:
    """No process can be started: the answer is kept, and the next owner runs the gate."""
    cast = Gated({TEST: 1})
    cast.failure = Failure(kind="shortage", reason="no processes are left")
    stage = Stage(flow("a -> b", a=gated(TEST)), cast)
    ended = stage.start()

    assert (ended.status, ended.reason) == ("stopped", "shortage: no processes are left")
    assert stage.resume().status == "completed"
    assert [one.passed for one in stage.records(r.GateChecked)] == [True]
    assert [one.turn for one in cast.asked] == ["a#1", "b#1"]


@bundle(("cost", "estimate"), [(1.0, {"price_in": 0.0, "price_out": 1e6, "max_tokens": 1}), (1.5, {})])
def test_what_an_answer_has_cost_is_committed_while_its_gates_run(cost: float, estimate: dict[str, Any]) -> None:
    """With a budget of a dollar nothing starts beside the gate, with an estimate of its cost or without one."""
    cast = Gated(a=[Answer(usage=Usage(cost=cost))], s=[Streamed([(1.0, Text(text="works"))], Answer())])
    agents = {"a": gated(TEST), "b": AgentPlan(name="b", options=estimate)}
    stage = Stage(flow("[a, s] -> z", "s -> b", **agents), cast)
    ended = stage.start(Limits(max_cost=1.0))

    assert ended.reason == "max_cost"
    assert [one.turn for one in cast.asked] == ["a#1", "s#1"]


def test_a_team_that_is_called_off_while_a_gate_runs_ends() -> None:
    """The failure beside it is the end of the run."""
    team = nested(2, flow("x -> y", x=AgentPlan(name="x", options={"gates": [list(TEST)]})))
    cast = Gated(bad=[Streamed([(1.0, Text(text="tries"))], Failure(kind="exit", reason="no"))])
    stage = Stage(flow("[team, bad] -> z", team=team), cast)
    ended = interrupted_at(stage)

    assert ended.status == "failed"
    assert cast.gates == [TEST]
    assert [one.outcome for one in stage.records(r.RunFinished, run="r/team#1.1/team#1.1")] == ["cancelled"]


def test_a_rehearsal_runs_no_gates() -> None:
    assert rehearse(flow("a -> b", a=gated(TEST)), "go")["outcome"] == "completed"


def _holding(records: Sequence[r.Record]) -> MemoryStore:
    """A store with a run that was killed after *records*."""
    store = MemoryStore()
    writer = store.claim("r")
    writer.append(records)
    asyncio.run(writer.close())
    return store


def test_what_a_gate_printed_is_below_the_lines_of_the_run() -> None:
    """The line of a gate says how it ended, and that of a rejected event has the output on lines of its own."""
    checked = r.GateChecked(turn="a#1", attempt=1, argv=TEST, status=2, reason="the gate failed", output="x\n1 failed")
    assert sentence(checked) == "the gate failed (0.0 s); its last line was “1 failed”"
    passed = r.GateChecked(turn="a#1", attempt=1, argv=TEST, passed=True, seconds=2.0)
    assert sentence(passed) == "the gate “make test” of a#1 passed (2.0 s)"
    invalid = r.EventInvalid(turn="a#1", event="done", reason="the gate failed:\nx")
    assert sentence(invalid).endswith("(the gate failed:\n  x)")


class PassingGate:
    """A gate of a simulated run, which passes in some seconds."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def result(self) -> Result:
        await asyncio.sleep(self._world.dice.choice([0.0, 0.5, 2.0]))
        return Answer(text="ok")

    async def interrupt(self) -> None:
        """It ends soon."""


@pytest.mark.parametrize("on_interrupt", ["retry", "adopt"])
def test_under_any_crash_schedule_gates_that_pass_change_nothing(
    on_interrupt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed and interrupted at any append, a run ends as one that had no gates, with each answer counted once."""
    start, uncrashed = SimulatedTurns.start, promises.uncrashed

    async def started(self: SimulatedTurns, request: Request, on_event: Any) -> Any:
        return PassingGate(self._world) if request.agent.kind == "gate" else await start(self, request, on_event)

    monkeypatch.setattr(SimulatedTurns, "start", started)
    monkeypatch.setattr(simulation, "without_gates", lambda plan: plan)
    monkeypatch.setattr(promises, "uncrashed", lambda run, plan, *rest: uncrashed(run, without_gates(plan), *rest))
    agent = gated(TEST, LINT, retry=3, on_interrupt=on_interrupt)
    team = nested(1, flow("x -> y", x=agent), options={"gates": [list(TEST)]})
    for seed in range(30):
        simulation.simulate(flow("a -> team", "a -> c", "[team,c] -> d", a=agent, c=agent, team=team), seed)
