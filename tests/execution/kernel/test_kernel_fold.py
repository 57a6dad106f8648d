"""Records that no run could have written are refused when they are folded, each with what was found and wanted."""

import asyncio

import asking
import pytest
from asking import Heard
from msgspec.structs import replace
from played import played
from protocol_engines import Loop, LoopPlan
from stage import Stage, flow

from coterie.agents.backends.base import Failure
from coterie.agents.backends.scripted import ScriptedBackend
from coterie.errors import ReplayMismatch, TopologyError
from coterie.execution.kernel.core import Core, CoreDuties
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import Kind
from coterie.execution.kinds import kind_of
from coterie.execution.runs.local_turns import LocalTurns
from coterie.history.engines.commands import Ask, Cancel, Command
from coterie.history.journal.records import (
    AttemptFailed,
    ConfigKept,
    MessageRefused,
    OperatorSaid,
    Record,
    RunFinished,
    RunStarted,
    TurnFinished,
)
from coterie.team.planning.plan import Limits, Plan

PLAN = flow("a -> b")


def history() -> list[Record]:
    """The records of a run of PLAN, to its end."""
    stage = Stage(PLAN)
    stage.start(prompt="go")
    return list(stage.records())


def folded(records: list[Record]) -> Fold:
    fold = Fold("r", kind_of(PLAN))
    for record in records:
        fold.apply(record)
    return fold


def refused(records: list[Record], record: Record) -> str:
    """Why *record* is refused behind *records*."""
    fold = folded(records)
    with pytest.raises(ReplayMismatch) as caught:
        fold.apply(replace(record, seq=fold.seq + 1) if not record.seq else record)
    return str(caught.value)


def test_a_record_is_folded_in_its_place_only() -> None:
    """None is left out, and none comes twice."""
    known = history()

    assert "seq 3" in refused(known[:2], known[3])
    assert "seq 3" in refused(known[:2], known[1])


def test_the_end_of_a_turn_needs_that_turn_and_its_beginning() -> None:
    """A turn that nothing started, and one that has ended."""
    known = history()
    ended = next(k for k, record in enumerate(known) if isinstance(record, TurnFinished))

    assert "no turn 'ghost#1' so far" in refused(known[:ended], TurnFinished(turn="ghost#1", attempt=1))
    late = AttemptFailed(turn="a#1", attempt=1, kind="exit", reason="no")
    assert "nothing of a#1, which is ended" in refused(known[: ended + 1], late)


def test_nothing_is_left_to_do_in_a_run_that_ended_while_its_plan_was_read() -> None:
    """A child run may be cancelled meanwhile; the plan that was read is not recorded behind its end."""
    written: list[Record] = []
    kind = played(lambda plan: (Loop(LoopPlan(emits={}, handoff={}, completion="done", most=2)), {}))
    core = Core("r/a#1.1", kind(Plan(name="loop")), CoreDuties(written.append))
    core.begin(0.0, RunStarted(run="r/a#1.1", engine="loop"), Limits())
    (reading,) = core.todo

    core.write(1.0, RunFinished(outcome="cancelled", reason="its parent cancelled the turn"))
    core.reloaded(2.0, reading, ConfigKept())

    assert core.todo == {}
    assert isinstance(written[-1], RunFinished)


class _Cancelling:
    """Asks a question, and cancels it as soon as an operator says something."""

    name, version = "flow", 3

    def judge(self, said: object) -> Record:
        raise NotImplementedError

    def step(self, record: Record) -> list[Command]:
        match record:
            case RunStarted():
                return [Ask(turn="a#1", agent="a", prompt="go")]
            case OperatorSaid():
                return [Cancel(turn="a#1", reason="no more")]
        return []


def test_a_turn_that_ends_before_it_is_cancelled_is_not_cancelled() -> None:
    """What was to cancel it is void with its end, and nothing is written about it any more."""
    written: list[Record] = []
    kind = played(lambda plan: (_Cancelling(), {}))
    core = Core("r", kind(Plan(name="cancelled")), CoreDuties(written.append))
    core.begin(0.0, RunStarted(run="r", engine="flow"), Limits())
    core.pump(0.0, lambda core, ask, again: True)
    core.write(1.0, OperatorSaid(message="m", what="guide", text="stop"))
    assert [type(command) for command in core.todo.values()] == [Cancel]

    core.write(2.0, TurnFinished(turn="a#1", attempt=1, text="done"))
    assert core.todo == {}
    assert core.pump(3.0, lambda core, ask, again: True) == []
    assert isinstance(written[-1], TurnFinished)


def test_a_plan_in_which_nothing_decides_is_refused() -> None:
    """It has neither arrows nor roles, slots or actors."""
    with pytest.raises(TopologyError, match="topology 'empty' has no flow, so no agent can run"):
        Kind(Plan(name="empty")).make_engine()


def test_an_attempt_whose_backend_is_not_there_fails_and_names_those_that_are() -> None:
    """At once, and never as a crash."""

    async def main() -> object:
        turns = LocalTurns({"command": ScriptedBackend({})})
        session = await turns.start(asking.request(asking.agent("ada", backend="pi")), Heard())
        return await session.result()

    failed = asyncio.run(main())
    assert isinstance(failed, Failure)
    assert (failed.kind, "'pi'; configured backends: command" in failed.reason) == ("not_found", True)


def test_of_the_messages_of_agents_only_the_latest_are_remembered() -> None:
    """An operator's never counts twice, however long ago it was sent."""
    fold = folded(history()[:3])
    said = OperatorSaid(message="first", what="guide", text="x", source="operator")
    fold.apply(replace(said, seq=fold.seq + 1))
    for number in range(10_500):
        refused = MessageRefused(message=f"m{number}", reason="no", source="agent")
        for _ in range(1 + (number == 10_499)):  # one of them is recorded twice
            fold.apply(replace(refused, seq=fold.seq + 1))

    assert list(fold.messages) == ["first", *(f"m{number}" for number in range(500, 10_500))]
