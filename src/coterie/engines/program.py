"""A program as an engine: code beside the run decides which agents to call, and its calls arrive as records.

The engine itself only turns a call into a turn. It also keeps what a restarted program needs: its calls, their outcomes
in order, and its messages. The restarted program repeats its steps without calling any agent twice, then goes on.

The driver of the program (`coterie.patterns.reference`) writes the records, including the last one, `run.finished`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from coterie.engines.commands import Ask, Cancel, Command, Emit, Reply
from coterie.engines.replies import judge_reply
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    CallAsked,
    CallDropped,
    EventInvalid,
    MessageSent,
    Record,
    ResultRecorded,
    StateChanged,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)

Outcome = TurnFinished | TurnFailed | TurnCancelled
"""The outcome of a call."""

DROPPED = "the program no longer waits for it"
"""The reason of a turn that was cancelled with its caller; a restarted program does not receive its outcome."""


class Program:
    """The engine of a program.

    Attributes:
        calls: The calls, by turn.
        outcomes: Their outcomes, by turn.
        history: The calls and their outcomes, in the order of the journal.
        messages: The messages between agents, in order.
        states: The state of each agent that changed its state.
        recorded: The results that the program recorded itself, by id.
    """

    name: ClassVar[str] = "program"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        self.calls: dict[str, CallAsked] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.history: list[CallAsked | Outcome] = []
        self.messages: list[MessageSent] = []
        self.states: dict[str, dict[str, Any]] = {}
        self.recorded: dict[str, ResultRecorded] = {}
        self._changed: dict[str, StateChanged] = {}
        """Changed states that do not count yet, because their turns have not ended."""

    def judge(self, said: Reply | Emit) -> Record:
        """Any reply counts; events are not allowed."""
        if isinstance(said, Reply):
            return judge_reply(said, ())
        reason = "a program accepts no events"
        return EventInvalid(turn=said.turn, event=said.event, attempt=said.attempt, reason=reason, message=said.message)

    def step(self, record: Record) -> Sequence[Command]:
        """Start or cancel the turn of a call; every other decision is the program's."""
        match record:
            case CallAsked():
                self.calls[record.turn] = record
                self.history.append(record)
                if record.state is not None:
                    self.states[record.agent] = record.state
                return [Ask(turn=record.turn, agent=record.agent, prompt=shown(record), whole=record.given)]
            case CallDropped():
                return [Cancel(turn=record.turn, reason=DROPPED)]
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self.outcomes[record.turn] = record
                self.history.append(record)
                changed = self._changed.pop(record.turn, None)
                if changed is not None and isinstance(record, TurnFinished):
                    self.states[changed.agent] = changed.state
            case StateChanged():
                self._changed[record.turn] = record
            case AttemptFailed() | AttemptInterrupted():
                self._changed.pop(record.turn, None)
            case MessageSent():
                self.messages.append(record)
            case ResultRecorded():
                self.recorded[record.id] = record
            case _:
                pass
        return ()


def shown(call: CallAsked) -> str:
    """The prompt of *call* for people: the texts of its messages, each under its role."""
    messages = call.request.get("messages")
    if not isinstance(messages, list):
        return ""
    parts = [_part(message) for message in messages if isinstance(message, dict)]
    return "\n\n".join(parts)


def _part(message: dict[str, Any]) -> str:
    content = message.get("content")
    return f"[{message.get('role', 'user')}]\n{content if isinstance(content, str) else repr(content)}"
