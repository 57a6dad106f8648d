"""The journal that a run would have without crashes, given the same replies in the same order."""

from collections.abc import Sequence

import msgspec

from coterie.engines.commands import Emit, Reply
from coterie.engines.loop import LoopEngine
from coterie.journal.records import (
    NO_USAGE,
    AttemptFailed,
    AttemptInterrupted,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    EventNoted,
    Record,
    RunOwned,
    RunStarted,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.kernel.commands import ReadPlan, Turn, Wait
from coterie.kernel.core import Appending, Core
from coterie.kernel.kind import MakeKind
from coterie.kernel.retries import MAX_CRASHES
from coterie.planning.plan import Limits, Plan


def uncrashed(run: str, plan: Plan, kinds: MakeKind, log: Sequence[Record]) -> list[Record]:
    """The journal of an uncrashed run, given the replies of *log* in the order of *log*."""
    oracle: list[Record] = []
    earlier: dict[str, Usage] = {}
    """What the attempts used that the uncrashed run does not have, by turn: its own attempt used it as well."""
    core = Core(run, kinds(plan), _Oracle(oracle, log, earlier))
    first = log[0]
    assert isinstance(first, RunStarted)
    core.begin(0.0, msgspec.structs.replace(first, seq=0), Limits(max_parallel=None))
    reads: list[ReadPlan] = []
    crashes: dict[str, int] = {}

    def cut(name: str, reason: str) -> None:
        core.cut_off(0.0, name, reason, earlier.pop(name, NO_USAGE))

    def pump() -> None:
        while effects := core.pump(0.0, lambda core, ask, again: True):
            reads.extend(effect for effect in effects if isinstance(effect, ReadPlan))
            for effect in effects:
                if isinstance(effect, Wait):
                    core.due(effect.cause)

    pump()
    for record in log:
        if isinstance(record, AttemptInterrupted):
            earlier[record.turn] = earlier.get(record.turn, NO_USAGE) + record.usage
        match record:
            case ConfigChanged() | ConfigRejected() | ConfigKept() if reads:
                core.reloaded(0.0, reads.pop(0).cause, msgspec.structs.replace(record, seq=0, cause=None))
            case RunOwned() if record.epoch > 1 and isinstance(core.engine, LoopEngine) and core.finished is None:
                core.write(0.0, RunOwned(epoch=record.epoch, limits=record.limits))
            case TurnCancelled(cause=None):
                core.cancel(0.0, record.turn, record.reason)
            case AttemptInterrupted(turn=name, reason=why) if _is_enough(core, name, why):
                cut(name, why)
            case AttemptInterrupted(turn=name, reason="crash"):
                crashes[name] = crashes.get(name, 0) + 1
                due = crashes[name] == MAX_CRASHES and core.turns[name].status == "running"
                for _ in range(MAX_CRASHES if due else 0):
                    cut(name, "crash")
                    pump()
            case AttemptInterrupted(turn=name):
                crashes[name] = 0
            case TurnFinished() | AttemptFailed() | EventEmitted() | EventInvalid() | EventNoted():
                if isinstance(record, AttemptFailed):
                    crashes[record.turn] = 0
                turn = core.turns.get(record.turn)
                if turn is not None:
                    said = _said(record, turn.attempt)
                    if isinstance(said, Reply | AttemptFailed):
                        said = msgspec.structs.replace(said, usage=said.usage + earlier.pop(record.turn, NO_USAGE))
                    core.accept(0.0, said)
        pump()
    return oracle


class _Oracle(Appending):
    """Keeps the records of the uncrashed run; a child run that is called off has used what *log* says."""

    def __init__(self, oracle: list[Record], log: Sequence[Record], earlier: dict[str, Usage]) -> None:
        super().__init__(oracle.append)
        self._called_off = {record.turn: record.usage for record in log if isinstance(record, TurnCancelled)}
        self._earlier = earlier

    def call_off(self, turn: Turn) -> Usage:
        name = turn.ask.turn
        return self._called_off.get(name, NO_USAGE) + self._earlier.pop(name, NO_USAGE)


def _is_enough(core: Core, name: str, reason: str) -> bool:
    """Whether an interrupted turn of a loop had already emitted enough, so that it is not repeated."""
    turn = core.engine.state.turns.get(name) if isinstance(core.engine, LoopEngine) else None
    running = name in core.turns and core.turns[name].status == "running"
    return turn is not None and running and (turn.completes or (reason == "interrupted" and bool(turn.events)))


def _said(record: Record, attempt: int) -> Reply | AttemptFailed | Emit:
    match record:
        case TurnFinished():
            return Reply(
                turn=record.turn, attempt=attempt, text=record.text, outputs=record.outputs, usage=record.usage
            )
        case AttemptFailed():
            return msgspec.structs.replace(record, seq=0, at=0.0, cause=None, attempt=attempt, wait=0.0)
        case EventEmitted() | EventNoted():
            return Emit(turn=record.turn, attempt=attempt, event=record.event, payload=record.payload)
        case EventInvalid():
            return Emit(turn=record.turn, attempt=attempt, event=record.event)
    raise TypeError(record)


def asked(log: Sequence[Record]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The turns of a journal in starting order: id, agent, inputs."""
    return [(r.turn, r.agent, r.inputs) for r in log if isinstance(r, TurnStarted) and r.attempt == 1]
