"""What a core adds to an engine's commands, what its shell is to do, and which record carries out which command."""

from typing import assert_never

import msgspec
from msgspec import Struct

from coterie.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reload, Reply, Stop
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    Cause,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    GuidanceDelivered,
    Record,
    RunFinished,
    RunStopped,
    TreeSaved,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from coterie.runs.driver.retries import Tally

Said = Reply | Emit | AttemptFailed | AttemptInterrupted | AttemptLaunched | GuidanceDelivered | TreeSaved
"""What an attempt may say: something that is judged, or what is written as it is."""


class Again(Struct, frozen=True, kw_only=True, gc=False):
    """The core's own command: the next attempt of a turn, not before *due* (Unix seconds).

    With *ask* a human decides first whether there is to be one.
    """

    turn: str
    attempt: int
    due: float
    ask: bool = False


class Start(Struct, frozen=True, kw_only=True, gc=False):
    """An effect: start this attempt. *resumed*: its turn.started is from an earlier owner (a child run, a human)."""

    ask: Ask
    attempt: int
    prompt: str
    resumed: bool = False


class Halt(Struct, frozen=True, kw_only=True):
    """An effect: end the attempt that runs for this turn, which was cancelled."""

    turn: str


class Wait(Struct, frozen=True, kw_only=True):
    """An effect: call `due(cause)` at the time *again* says."""

    cause: Cause
    again: Again


class ReadPlan(Struct, frozen=True, kw_only=True):
    """An effect: read the plan again and answer with `reloaded`."""

    cause: Cause


class Gather(Struct, frozen=True, kw_only=True):
    """An effect: read the parts *names* of a prompt that the journal does not hold, and answer with `gathered`.

    Nothing was written, so it need not wait for the disk. Without a *cause* the attempt has begun already, under an
    owner that did not record what its prompt used.
    """

    turn: str
    attempt: int
    names: tuple[str, ...]
    cause: Cause | None = None


class Close(Struct, frozen=True, kw_only=True):
    """An effect: do what remains before the end of the run, then write it with `finish`."""


Effect = Start | Halt | Wait | ReadPlan | Gather | Close


class Turn(Struct, kw_only=True, gc=False):
    """A turn of this run.

    Attributes:
        ask: The command that started it; once it has ended, without the prompt if the engine wrote that.
        status: `running`, `between` two attempts, or `ended`.
        slot: Whether it counts against `max_parallel`.
        asked: When its current attempt was meant to start; *since* is how long the run had been owned by then.
        epoch: The epoch of the owner that started its current attempt.
        used: The parts of its current prompt that no other record holds.
        launched: The processes its attempts had.
        result: What it answered, once finished; in a loop without what it said.
        failure: The last failure that the next attempt's prompt shows; once it has ended without what was printed.
    """

    ask: Ask
    attempt: int = 0
    status: str = "running"
    slot: bool = True
    asked: float = 0.0
    since: float = 0.0
    epoch: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    used: dict[str, str | None] = {}
    launched: list[AttemptLaunched] = []
    result: TurnFinished | None = None
    failure: AttemptFailed | None = None
    cancelled: bool = False


def carries_out(record: Record, command: Command | Again) -> bool:
    """Whether *record* is what *command* wanted written."""
    match command:
        case Ask():
            return isinstance(record, TurnStarted) and (record.turn, record.agent, record.inputs, record.attempt) == (
                command.turn,
                command.agent,
                command.inputs,
                1,
            )
        case Again():
            return isinstance(record, TurnStarted) and (record.turn, record.attempt) == (command.turn, command.attempt)
        case Cancel():
            return isinstance(record, TurnCancelled) and record.turn == command.turn
        case Note():
            wanted = command.record
            return type(record) is type(wanted) and record == msgspec.structs.replace(
                wanted, seq=record.seq, at=record.at, cause=record.cause, source=record.source
            )
        case Reload():
            return isinstance(record, ConfigChanged | ConfigRejected | ConfigKept)
        case Stop():
            return isinstance(record, RunStopped)
        case Finish():
            return isinstance(record, RunFinished) and record.outcome == command.outcome


def phrase(command: Command | Again) -> str:
    """What *command* would have done, for people."""
    match command:
        case Ask():
            return f"start {command.turn}"
        case Again():
            return f"start attempt {command.attempt} of {command.turn}" + (
                ", if a human approves" if command.ask else ""
            )
        case Cancel():
            return f"cancel {command.turn}"
        case Note():
            return f"write {describe(command.record)}"
        case Reload():
            return "read the plan again"
        case Stop():
            return f"stop: {command.reason}"
        case Finish():
            return f"end the run: {command.outcome}"
        case _:
            assert_never(command)


def describe(what: Record | Command | Again) -> str:
    """*what* in a few words, for a mismatch."""
    if isinstance(what, Note):
        return describe(what.record)
    name = type(what).__struct_config__.tag if isinstance(what, Record) else type(what).__name__
    turn = getattr(what, "turn", "")
    return f"{name} {turn}".strip()
