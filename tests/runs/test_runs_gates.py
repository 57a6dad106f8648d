"""Gates: commands that the run itself runs before the answer of an agent counts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from nests import nested
from stage import Cast, Stage, flow

from coterie.backends.base import Answer, Failure, Request, Result, Usage
from coterie.journal import records as r
from coterie.journal.memory import MemoryStore
from coterie.planning.plan import AgentPlan, without_gates
from coterie.runs.driver.fold import Fold
from coterie.runs.kinds import kind_of
from coterie.runs.messages import interruption
from coterie.runs.messages.verdicts import Sender, take
from coterie.runs.rehearsal import rehearse
from coterie.testing import promises, simulation
from coterie.testing.simulated import SimulatedTurns
from coterie.testing.world import World
from coterie.views.timeline import sentence

TEST, LINT = ("make", "test"), ("make", "lint")


class Gated(Cast):
    """Agents that answer at once, and gates that take two seconds; *broken*: how often a gate fails first, by gate."""

    def __init__(self, broken: dict[tuple[str, ...], int] | None = None, **parts: Any) -> None:
        super().__init__(parts)
        self.broken = dict(broken or {})
        self.gates: list[tuple[str, ...]] = []
        self.requests: list[Request] = []

    async def start(self, request: Request, on_event: Any) -> Any:
        if request.agent.kind != "gate":
            return await super().start(request, on_event)
        self.requests.append(request)
        [argv] = request.agent.steps
        self.gates.append(argv)
        self.broken[argv] = self.broken.get(argv, 0) - 1
        failure = Failure(kind="exit", reason="`make test` ended with status 2", text="1 failed", exit_code=2)
        result: Result = failure if self.broken[argv] >= 0 else Answer(text="ok", usage=Usage(seconds=2.0))
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


def test_an_operator_interrupts_a_gate() -> None:
    """The attempt counts as interrupted, and the turn is repeated."""
    cast = Gated()
    stage = Stage(flow("a -> b", a=gated(TEST)), cast)
    stage.shell = shell = stage._shell(None)

    async def cut() -> None:
        task = asyncio.ensure_future(shell.start("r", stage.plan, {"prompt": "go"}))
        await asyncio.sleep(2.0)
        shell.post(lambda: take(shell, interruption("a#1"), stage.clock.now(), Sender("operator")))
        await task

    stage.clock.run(cut())
    assert [one.reason for one in stage.records(r.AttemptInterrupted)] == ["interrupted"]
    assert [one.turn for one in cast.asked] == ["a#1", "a#1", "b#1"]
    assert stage.records()[-1].outcome == "completed"


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
