"""A program as an engine: code that runs beside the run decides who is asked, and what it asks comes in as records.

The engine itself decides nothing but what follows at once: a call becomes a turn. It keeps what a program that begins
again must be told: what it asked, what came of it and in which order, and what it said. So the program goes through
what it did before without asking anybody twice, and only then goes on.

Whoever drives the program (`coterie.patterns.reference`) writes the records, and the last one, `run.finished`.
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
"""What came of a call."""

DROPPED = "the program no longer waits for it"
"""Why a turn is called off whose caller was cancelled: when the program begins again, nobody is told of its end."""


class Program:
    """The engine of a program.

    Attributes:
        calls: What was asked, by turn.
        outcomes: What came of it, by turn.
        history: The calls and their outcomes, in the order of the journal.
        messages: What the agents told each other, in order.
        states: What each agent remembers, as far as that was ever changed.
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
        """What replies changed that do not count yet: their turns have not ended."""

    def judge(self, said: Reply | Emit) -> Record:
        """Any reply counts; events are not allowed."""
        if isinstance(said, Reply):
            return judge_reply(said, ())
        reason = "a program takes no events"
        return EventInvalid(turn=said.turn, event=said.event, attempt=said.attempt, reason=reason, message=said.message)

    def step(self, record: Record) -> Sequence[Command]:
        """A call is asked, or called off; everything else is the program's business."""
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
    """What *call* asks, as people read it: the texts of its messages, each under its role."""
    messages = call.request.get("messages")
    if not isinstance(messages, list):
        return ""
    parts = [_part(message) for message in messages if isinstance(message, dict)]
    return "\n\n".join(parts)


def _part(message: dict[str, Any]) -> str:
    content = message.get("content")
    return f"[{message.get('role', 'user')}]\n{content if isinstance(content, str) else repr(content)}"
