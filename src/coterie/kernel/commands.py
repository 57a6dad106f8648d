"""What a core adds to an engine's commands, what its shell is to do, and which record carries out which command."""

from typing import NamedTuple, assert_never

import msgspec
from msgspec import Struct

from coterie.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reload, Reply, Stop
from coterie.errors import ReplayMismatch
from coterie.journal import records as r
from coterie.kernel.retries import RetryCount
from coterie.planning.plan import from_record

AttemptInput = (
    Reply
    | Emit
    | r.AttemptFailed
    | r.AttemptInterrupted
    | r.AttemptLaunched
    | r.AttemptQuiet
    | r.AttemptSession
    | r.AttentionAsked
    | r.GateChecked
    | r.GuidanceDelivered
    | r.TreeAttested
    | r.TreeSaved
)
"""What an attempt may say: something that is judged, or what is written as it is."""


class NextAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """The core's own command: the next attempt of a turn, not before *due* (Unix seconds).

    With *ask* a human decides first whether there is to be one; *quota*: at *due* a provider's quota opens.
    """

    turn: str
    attempt: int
    due: float
    ask: bool = False
    quota: bool = False


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

    cause: r.Cause
    again: NextAttempt


class ReadPlan(Struct, frozen=True, kw_only=True):
    """An effect: read the plan again and answer with `reloaded`."""

    cause: r.Cause


class Gather(Struct, frozen=True, kw_only=True):
    """An effect: read the parts *names* of a prompt that the journal does not hold, and answer with `gathered`.

    Nothing was written, so it need not wait for the disk. Without a *cause* the attempt has begun already, under an
    owner that did not record what its prompt used.
    """

    turn: str
    attempt: int
    names: tuple[str, ...]
    cause: r.Cause | None = None


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
        began: The seq of the record with which its current attempt began.
        used: The parts of its current prompt that no other record holds.
        session: The agent's session of its latest attempt, if the next one may go on in it.
        reserved: US dollars of the budget that are reserved for its current attempt when that starts.
        resumes: The agent's session, begun by an earlier attempt, in which the current one goes on.
        launched: The processes its attempts had.
        result: What it answered, once finished; in a loop without what it said.
        failure: The last failure that the next attempt's prompt shows; once it has ended without what was printed.
        reopened: The record by which the child run that its current attempt is was last reopened.
    """

    ask: Ask
    attempt: int = 0
    status: str = "running"
    slot: bool = True
    asked: float = 0.0
    since: float = 0.0
    epoch: int = 0
    began: int = 0
    retry_count: RetryCount = msgspec.field(default_factory=RetryCount)
    used: dict[str, str | None] = {}
    session: str = ""
    resumes: str = ""
    reserved: float = 0.0
    launched: list[r.AttemptLaunched] = []
    result: r.TurnFinished | None = None
    failure: r.AttemptFailed | None = None
    cancelled: bool = False
    reopened: r.RunReopened | None = None


class Part(NamedTuple):
    """A part of a prompt; a blank line separates it from the next.

    Attributes:
        origin: Where it comes from: `prompt` and `role` (of the agent), `task`, `input`, `result` of the turn *name*,
            `file` *name*, `outputs` (how to answer), `history` and `engine` (written by a pattern or a program),
            `guidance`, `attempt` (what became of an earlier one), or a section of a loop's prompt.
    """

    text: str
    origin: str
    name: str = ""


class HeldBack(Struct, kw_only=True, gc=False):
    """What an attempt said that waits for its gates, as *due* has it, and the results of those that were run."""

    due: r.GatesDue
    checked: list[r.GateChecked] = []

    @property
    def said(self) -> Reply | Emit:
        """What the attempt said."""
        due = self.due
        if due.event:
            return Emit(
                turn=due.turn, attempt=due.attempt, event=due.event, payload=due.payload, message=due.brought_by
            )
        return Reply(
            turn=due.turn,
            attempt=due.attempt,
            text=due.text,
            outputs=due.outputs,
            usage=due.usage,
            message=due.brought_by,
        )

    @property
    def failed(self) -> r.GateChecked | None:
        """The gate that did not pass."""
        return next((one for one in self.checked if not one.passed), None)

    @property
    def next(self) -> tuple[str, ...] | None:
        """The gate to run next; None: the verdict is known."""
        left = self.due.gates[len(self.checked) :]
        return left[0] if left and self.failed is None else None


def carries_out(record: r.Record, command: Command | NextAttempt) -> bool:
    """Whether *record* is what *command* wanted written."""
    match command:
        case Ask():
            return isinstance(record, r.TurnStarted) and (record.turn, record.agent, record.inputs, record.attempt) == (
                command.turn,
                command.agent,
                command.inputs,
                1,
            )
        case NextAttempt():
            return isinstance(record, r.TurnStarted) and (record.turn, record.attempt) == (
                command.turn,
                command.attempt,
            )
        case Cancel():
            return isinstance(record, r.TurnCancelled) and record.turn == command.turn
        case Note():
            wanted = command.record
            return type(record) is type(wanted) and record == msgspec.structs.replace(
                wanted, seq=record.seq, at=record.at, cause=record.cause, source=record.source
            )
        case Reload():
            return isinstance(record, r.ConfigChanged | r.ConfigRejected | r.ConfigKept)
        case Stop():
            return isinstance(record, r.RunStopped)
        case Finish():
            return isinstance(record, r.RunFinished) and record.outcome == command.outcome


def phrase(command: Command | NextAttempt) -> str:
    """What *command* would have done, for people."""
    match command:
        case Ask():
            return f"start {command.turn}"
        case NextAttempt():
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


def describe(what: r.Record | Command | NextAttempt) -> str:
    """*what* in a few words, for a mismatch."""
    if isinstance(what, Note):
        return describe(what.record)
    name = type(what).__struct_config__.tag if isinstance(what, r.Record) else type(what).__name__
    turn = getattr(what, "turn", "")
    return f"{name} {turn}".strip()


def changed_plan(run: str, record: r.ConfigChanged) -> str:
    """The plan in *record* of *run*.

    Raises:
        ReplayMismatch: If it is not the one that was recorded.
    """
    try:
        if record.plan_hash:
            from_record(record.plan, record.plan_hash)
    except ValueError as error:
        hint = f"{error}; restore the journal from a backup"
        raise ReplayMismatch(run, record.seq, "config.changed with another plan", "the recorded plan", hint) from error
    return record.plan


def refusal(record: r.Record) -> str:
    """Why the message of *record* was refused, in words for its sender; empty if it was not."""
    match record:
        case r.MessageRefused(reason=reason):
            return reason
        case r.EventInvalid():
            why = record.reason or f"{record.event!r} is not allowed now"
            lines = [f"rejected: {why}"]
            if record.recent:
                lines.append(f"recent event: {record.recent}")
                lines.append(f"suggested roles: {', '.join(record.suggested) or '(none)'}")
                lines.append(f"allowed events: {', '.join(record.allowed) or '(none)'}")
            return "\n".join(lines)
        case _:
            return ""
