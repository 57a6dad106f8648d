"""A program as an engine: code beside the run decides which agents to call, and its calls arrive as records.

The engine itself only turns a call into a turn. It also keeps the state for a restarted program: its calls, their
outcomes, its messages and its results. The restarted program repeats its steps without calling any agent twice, then
goes on.

The driver of the program (`coterie.patterns.reference`) writes the records, including the last one, `run.finished`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from coterie.history.engines.commands import Ask, Cancel, Command, Emit, Reply
from coterie.history.engines.replies import judge_reply, no_events
from coterie.history.engines.versions import PATTERN
from coterie.history.journal import records as r

Outcome = r.TurnFinished | r.TurnFailed | r.TurnCancelled
"""The outcome of a call."""

DROPPED = "the program no longer waits for it"
"""The reason of a turn that was cancelled with its caller; a restarted program does not receive its outcome."""


class Program:
    """The engine of a program.

    Attributes:
        calls: The calls, by turn.
        outcomes: Their outcomes, by turn.
        messages: The messages between agents by sender, each with its number among all.
        states: The state of each agent that changed its state.
        recorded: The results that the program recorded itself, by id.
    """

    name: ClassVar[str] = "program"
    version: ClassVar[int] = PATTERN  # which a program may run

    def __init__(self) -> None:
        self.calls: dict[str, r.CallAsked] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.messages: dict[str, list[tuple[int, r.MessageSent]]] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.recorded: dict[str, r.ResultRecorded] = {}
        self._sent = 0
        self._changed: dict[str, r.StateChanged] = {}
        """Changed states that do not count yet, because their turns have not ended."""

    def judge(self, said: Reply | Emit) -> r.Record:
        """Any reply counts; events are not allowed."""
        if isinstance(said, Reply):
            return judge_reply(said, ())
        return no_events(said, "a program")

    def step(self, record: r.Record) -> Sequence[Command]:
        """Start or cancel the turn of a call; every other decision is the program's."""
        match record:
            case r.CallAsked():
                self.calls[record.turn] = record
                if record.state is not None:
                    self.states[record.agent] = record.state
                return [Ask(turn=record.turn, agent=record.agent, prompt=shown(record), whole=record.given)]
            case r.CallDropped():
                return [Cancel(turn=record.turn, reason=DROPPED)]
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self.outcomes[record.turn] = record
                changed = self._changed.pop(record.turn, None)
                if changed is not None and isinstance(record, r.TurnFinished):
                    self.states[changed.agent] = changed.state
            case r.StateChanged():
                self._changed[record.turn] = record
            case r.AttemptFailed() | r.AttemptInterrupted():
                self._changed.pop(record.turn, None)
            case r.MessageSent():
                self._sent += 1
                self.messages.setdefault(record.sender, []).append((self._sent, record))
            case r.ResultRecorded():
                self.recorded[record.id] = record
        return ()


def shown(call: r.CallAsked) -> str:
    """The prompt of *call* for people: the texts of its messages, each under its role."""
    messages = call.request.get("messages")
    parts = messages if isinstance(messages, list) else ()
    return "\n\n".join(_part(message) for message in parts if isinstance(message, dict))


def _part(message: dict[str, Any]) -> str:
    content = message.get("content")
    return f"[{message.get('role', 'user')}]\n{content if isinstance(content, str) else repr(content)}"
