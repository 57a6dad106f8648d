"""The journal that a run would have without crashes, given the same replies in the same order."""

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from coterie.execution.kernel.commands import ReadPlan, Turn, Wait
from coterie.execution.kernel.core import Core, CoreDuties
from coterie.execution.kernel.kind import MakeKind
from coterie.execution.kernel.retries import MAX_CRASHES
from coterie.history.engines.commands import Emit, Reply
from coterie.history.engines.loop import LoopEngine
from coterie.history.journal.records import (
    NO_USAGE,
    AttemptFailed,
    AttemptInterrupted,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    EventNoted,
    OperatorSaid,
    Record,
    RunOwned,
    RunStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.team.planning.plan import Limits, Plan


def uncrashed(run: str, plan: Plan, kinds: MakeKind, log: Sequence[Record]) -> list[Record]:
    """The journal of an uncrashed run, given the replies of *log* in the order of *log*."""
    oracle: list[Record] = []
    earlier: dict[str, Usage] = {}
    """The usage of the attempts that the uncrashed run does not have, by turn; it is added to its own attempt."""
    core = Core(run, kinds(plan), _Oracle(oracle, log, earlier))
    first = log[0]
    assert isinstance(first, RunStarted)
    owned = next((record for record in log if isinstance(record, RunOwned)), None)
    limits = Limits(max_parallel=owned.limits.max_parallel if owned is not None else None)
    core.begin(0.0, msgspec.structs.replace(first, seq=0), limits)
    has_sets = plan.flow is not None and bool(plan.flow.maps)  # each owner limits how many items run at once
    takes_owners = has_sets or isinstance(core.engine, LoopEngine)
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

    for record, following in zip_longest(log, log[1:]):
        if isinstance(record, AttemptInterrupted):
            earlier[record.turn] = earlier.get(record.turn, NO_USAGE) + record.usage
        match record:
            case ConfigChanged() | ConfigRejected() | ConfigKept() if reads:
                core.reloaded(0.0, reads.pop(0).cause, msgspec.structs.replace(record, seq=0, cause=None))
            case RunOwned() if record.epoch > 1 and takes_owners and core.finished is None:
                core.write(0.0, RunOwned(epoch=record.epoch, limits=record.limits))
            case TurnCancelled(cause=None):
                core.cancel(0.0, record.turn, record.reason)
            case OperatorSaid(what="interrupt") if core.finished is None:
                core.write(0.0, record)
            case AttemptInterrupted(turn=name, reason=why) if _was_interrupted(core, name):
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
        if not (has_sets and isinstance(following, RunOwned)):  # else what follows is up to the next owner
            pump()
    return oracle


class _Oracle(CoreDuties):
    """Keeps the records of the uncrashed run; the usage of a cancelled child run is taken from *log*."""

    def __init__(self, oracle: list[Record], log: Sequence[Record], earlier: dict[str, Usage]) -> None:
        super().__init__(oracle.append)
        self._called_off = {record.turn: record.usage for record in log if isinstance(record, TurnCancelled)}
        self._earlier = earlier

    def call_off(self, turn: Turn) -> Usage:
        name = turn.ask.turn
        return self._called_off.get(name, NO_USAGE) + self._earlier.pop(name, NO_USAGE)


def _was_interrupted(core: Core, name: str) -> bool:
    """Whether an operator interrupted the turn *name* of a loop, which is not retried then."""
    turn = core.engine.state.turns.get(name) if isinstance(core.engine, LoopEngine) else None
    return turn is not None and turn.interrupted and core.turns[name].status == "running"


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


def ended(log: Sequence[Record]) -> dict[str, tuple[object, ...]]:
    """How each turn of a journal ended; of turns that one crash cut off together, the first to fail cancels others."""
    ends = dict[str, tuple[object, ...]]()
    for record in log:
        match record:
            case TurnFinished():
                ends[record.turn] = ("finished", record.text, record.outputs)
            case TurnFailed(kind="interrupted") | TurnCancelled():
                ends[record.turn] = ("cut off",)
            case TurnFailed():
                ends[record.turn] = ("failed", record.kind, record.reason)
    return ends


def asked(log: Sequence[Record]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The turns of a journal in starting order: id, agent, inputs."""
    return [(r.turn, r.agent, r.inputs) for r in log if isinstance(r, TurnStarted) and r.attempt == 1]
