"""The core's own commands, the effects that its shell performs, and which record carries out which command."""

from typing import Any, assert_never

import msgspec
from msgspec import Struct

from coterie.agents.backends.base import NO_TAIL, Tail
from coterie.errors import ReplayMismatch
from coterie.execution.kernel.retries import RetryCount
from coterie.history.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reload, Reply, Stop, Wake
from coterie.history.journal import records as r
from coterie.team.planning.plan import from_record

AttemptInput = (
    Reply
    | Emit
    | r.AttemptFailed
    | r.AttemptInterrupted
    | r.AttemptLaunched
    | r.AttemptQuiet
    | r.AttemptSession
    | r.AttemptStep
    | r.AttentionAsked
    | r.GateChecked
    | r.GuidanceDelivered
    | r.TreeAttested
    | r.TreeSaved
)
"""An input from an attempt: either judged, or written as it is."""


class NextAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """The core's own command: start the next attempt of a turn, not before *due* (Unix seconds).

    *ask*: a person must first approve the attempt. *quota*: a provider's quota opens at *due*.
    """

    turn: str
    attempt: int
    due: float
    ask: bool = False
    quota: bool = False


class Start(Struct, frozen=True, kw_only=True, gc=False):
    """An effect: start this attempt. *resumed*: an earlier owner wrote its turn.started (of a child run or a human).

    *prompt* ends with *tail*.
    """

    ask: Ask
    attempt: int
    prompt: str
    resumed: bool = False
    tail: Tail = NO_TAIL


class Halt(Struct, frozen=True, kw_only=True):
    """An effect: end the running attempt of this turn, which was cancelled."""

    turn: str


class Wait(Struct, frozen=True, kw_only=True):
    """An effect: call `due(cause)` at the time *again* says."""

    cause: r.Cause
    again: NextAttempt


class Rest(Struct, frozen=True, kw_only=True):
    """An effect: call `woke(cause)` at the time *wake* says."""

    cause: r.Cause
    wake: Wake


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


Effect = Start | Halt | Wait | Rest | ReadPlan | Gather | Close


class HeldBack(Struct, kw_only=True, gc=False):
    """A reply or emit of an attempt that waits for its gates (in *due*), and the results of the gates that have run."""

    due: r.GatesDue
    checked: list[r.GateChecked] = []

    @property
    def said(self) -> Reply | Emit:
        """The reply or emit of the attempt."""
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
        """The next gate to run; None: the verdict is known."""
        left = self.due.gates[len(self.checked) :]
        return left[0] if left and self.failed is None else None


class Turn(Struct, kw_only=True, gc=False):
    """A turn of this run.

    Attributes:
        ask: The command that started it; after its end without the prompt, if the engine wrote that.
        status: `running`, `between` two attempts, or `ended`.
        slot: Whether it counts against `max_parallel`.
        asked: When its current attempt was meant to start; *slept*: seconds for which the machine had been suspended.
        epoch: The epoch of the owner that started its current attempt.
        began: The seq of the record with which its current attempt began.
        used: The parts of its current prompt that are in no other record.
        session: The agent's session in its latest attempt, if the next attempt may continue it.
        reserved: US dollars of the budget that are reserved for its current attempt.
        resumes: The agent's session from an earlier attempt that the current one continues.
        given: Outputs that its current attempt gave before its answer.
        steps: How many requests of its attempts models have answered; *spared*: those before it was last reopened.
        stepped: What those of its current attempt have used.
        continues: Whether its next attempt may continue the conversation of the latest one.
        was_cut: Whether its latest attempt was interrupted.
        launched: The processes its attempts had.
        result: Its answer, once finished; in a loop without the text.
        failure: The last failure, for the prompt of the next attempt; after the turn's end without the printed output.
        reopened: The record that last reopened the child run of its current attempt.
        order: Its position among the turns that this owner has started; 0: it has not.
        waiting: The cause of its pending command while it is not running: its start, its next attempt, or the note of
            its failure; *cancelling*: that of the engine's last command to cancel it.
        held: The cause of its next attempt, if a person must approve that first.
        gated: Its reply or emit that waits for gates.
        parked: The permission request for which it was parked, with the operator's answer, if there is one; that
            applies when the next attempt makes the same request.
    """

    ask: Ask
    attempt: int = 0
    status: str = "running"
    slot: bool = True
    asked: float = 0.0
    slept: float = 0.0
    epoch: int = 0
    began: int = 0
    retry_count: RetryCount = msgspec.field(default_factory=RetryCount)
    used: dict[str, str | None] = {}
    session: str = ""
    resumes: str = ""
    given: dict[str, Any] = {}
    steps: int = 0
    spared: int = 0
    stepped: r.Usage = r.NO_USAGE
    continues: bool = False
    was_cut: bool = False
    reserved: float = 0.0
    launched: list[r.AttemptLaunched] = []
    result: r.TurnFinished | None = None
    failure: r.AttemptFailed | None = None
    cancelled: bool = False
    reopened: r.RunReopened | None = None
    order: int = 0
    waiting: r.Cause | None = None
    cancelling: r.Cause | None = None
    held: r.Cause | None = None
    gated: HeldBack | None = None
    parked: tuple[r.AttentionAsked, r.OperatorSaid | None] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether its next attempt very likely continues a conversation."""
        return self.continues and self.steps > 0

    def let_go(self) -> None:
        """Forget what it answered, which no prompt shows any more."""
        if self.result is not None:
            self.result = msgspec.structs.replace(self.result, text="", outputs={})


class Part(Struct, frozen=True, gc=False):
    """A part of a prompt; a blank line separates it from the next.

    Attributes:
        origin: Where it comes from: `thread` (earlier exchanges), `prompt` and `role` (of the agent), `task`, `input`,
            `result` of the turn *name*, `file` *name*, `outputs` (how to answer), `history` and `engine` (written by a
            pattern or a program), `guidance`, `attempt` (how an earlier one ended), or a section of a loop's prompt.
    """

    text: str
    origin: str
    name: str = ""


MERGE = ("coterie", "worktree", "merge")
"""The last gate of an agent whose turns have separate work trees: merge its work."""


def not_wanted(run: str, record: r.Record, command: Command | NextAttempt | None) -> ReplayMismatch:
    """The error that *record* of *run* is not what *command*, which its cause names, wanted written."""
    found, wanted = f"{describe(record)} (cause {record.cause})", "nothing" if command is None else describe(command)
    why = ""
    if isinstance(record, r.TurnStarted) and isinstance(command, Ask) and record.asked not in ("", command.asked):
        why = "the code asks another question than the recorded one: its text, a value or a wanted output differs"
    return ReplayMismatch(run, record.seq, found, wanted, why=why)


def carries_out(record: r.Record, command: Command | NextAttempt) -> bool:
    """Whether *record* is what *command* wanted written."""
    match command:
        case Ask(item=item):
            return (
                isinstance(record, r.TurnStarted)
                and record.asked in ("", command.asked)
                and (record.turn, record.agent, record.inputs, record.attempt)
                == (command.turn, command.agent, command.inputs, 1)
                and (record.set, record.item) == (("", None) if item is None else (item.set, (item.k, item.of)))
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
        case Wake():
            return isinstance(record, r.SleepEnded) and record.sleep == command.sleep
        case Finish():
            return isinstance(record, r.RunFinished) and record.outcome == command.outcome


def void_sleep(todo: dict[r.Cause, Command | NextAttempt], sleep: str) -> None:
    """Remove from *todo* the command that would end *sleep*."""
    for cause in [cause for cause, command in todo.items() if isinstance(command, Wake) and command.sleep == sleep]:
        del todo[cause]


def phrase(command: Command | NextAttempt) -> str:
    """Describe for people what *command* would have done."""
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
        case Wake():
            return f"end {command.sleep}"
        case Finish():
            return f"end the run: {command.outcome}"
        case _:
            assert_never(command)


def describe(what: r.Record | Command | NextAttempt) -> str:
    """Describe *what* in a few words, for a mismatch."""
    if isinstance(what, Note):
        return describe(what.record)
    name = type(what).__struct_config__.tag if isinstance(what, r.Record) else type(what).__name__
    text = f"{name} {getattr(what, 'turn', '')}".strip()
    asked = gist(what.prompt or "") if isinstance(what, Ask) and what.asked else getattr(what, "question", "")
    return f"{text}, which asks {asked!r}" if asked else text


def gist(question: str) -> str:
    """The beginning and the end of *question*, and how much is between."""
    most, end = 80, 50
    between = len(question) - most - end
    return f"{question[:most]} … {between} characters … {question[-end:]}" if between > end else question


def changed_plan(run: str, record: r.ConfigChanged) -> str:
    """Return the plan in *record* of *run*.

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
    """Why the message of *record* was refused, for its sender; empty if it was accepted."""
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
