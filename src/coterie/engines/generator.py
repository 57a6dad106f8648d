"""A plain generator as an engine: it yields what to ask, is sent the replies, and returns the result.

    def review(given):
        draft = yield Question("writer", given["prompt"])
        notes = yield Together(Question("critic", draft.text), Question("lawyer", draft.text))
        final = yield Question("writer", "\\n".join(note.text for note in notes if not isinstance(note, AgentFailed)))
        return final.text

So a collaboration reads like the collaboration. The generator must be deterministic: given the same input and replies
it asks the same questions. It does no I/O, looks at no clock and draws no random numbers.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar

from coterie.engines.commands import Ask, Cancel, Command, Emit, Finish, Reply
from coterie.engines.replies import judge_reply
from coterie.errors import CoterieError
from coterie.ids import turn_id
from coterie.journal.records import (
    EventInvalid,
    Record,
    RunStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)
from coterie.planning.plan import Wanted


class AgentFailed(CoterieError):
    """A turn that a generator waits for failed for good; raised at its `yield`, and may be caught there."""

    def __init__(self, turn: str, kind: str, reason: str) -> None:
        self.turn, self.kind, self.reason = turn, kind, reason
        super().__init__(f"{turn} failed ({kind}): {reason}")


class Question:
    """Ask *agent* this *prompt*, wanting these outputs; yielding it gives a `TurnFinished` or raises `AgentFailed`."""

    __slots__ = ("agent", "prompt", "wanted")

    def __init__(self, agent: str, prompt: str, wanted: Sequence[Wanted] = ()) -> None:
        self.agent, self.prompt, self.wanted = agent, prompt, tuple(wanted)


Got = TurnFinished | AgentFailed | None
"""What came of one of several questions; None: called off because *until* had enough."""


class Together:
    """Ask several at once. Yielding it gives what came of each, in the order asked; failures are values there.

    Args:
        until: Looks at what has come so far, in the order asked; True calls the rest off.
    """

    __slots__ = ("questions", "until")

    def __init__(self, *questions: Question, until: Callable[[Sequence[Got]], bool] | None = None) -> None:
        self.questions, self.until = questions, until


Conversation = Generator[Question | Together, Any, Any]


class GeneratorEngine:
    """Runs what *start* returns, a generator of questions, for the run's input.

    A returned value completes the run with it; an `AgentFailed` that the generator lets through fails the run.
    """

    name: ClassVar[str] = "generator"
    version: ClassVar[int] = 1

    def __init__(self, start: Callable[[dict[str, Any]], Conversation]) -> None:
        self._begin = start
        self._conversation: Conversation | None = None
        self._starts: dict[str, int] = {}
        self._wanted: dict[str, tuple[Wanted, ...]] = {}
        self._asked: Question | Together = Together()
        self._turns: list[str] = []
        self._got: dict[str, Got] = {}

    def judge(self, said: Reply | Emit) -> Record:
        """A reply counts when it holds the outputs that its question wants; events are not allowed."""
        if isinstance(said, Reply):
            return judge_reply(said, self._wanted.get(said.turn, ()))
        reason = "a generator takes no events"
        return EventInvalid(turn=said.turn, event=said.event, attempt=said.attempt, reason=reason, message=said.message)

    def step(self, record: Record) -> Sequence[Command]:
        """Send the generator what it waits for, once it is all there."""
        match record:
            case RunStarted():
                self._conversation = self._begin(record.input)
                return self._move(lambda conversation: next(conversation))
            case TurnFinished(turn=turn):
                return self._receive(turn, record)
            case TurnFailed(turn=turn):
                return self._receive(turn, AgentFailed(turn, record.kind, record.reason))
            case TurnCancelled(turn=turn):
                return self._receive(turn, AgentFailed(turn, "cancelled", record.reason or "called off"))
            case _:
                return []

    def _receive(self, turn: str, got: Got) -> Sequence[Command]:
        if turn not in self._turns or turn in self._got:
            return []
        self._got[turn] = got
        asked = self._asked
        if isinstance(asked, Question):
            if isinstance(got, AgentFailed):
                return self._move(lambda conversation: conversation.throw(got))
            return self._move(lambda conversation: conversation.send(got))
        missing = [name for name in self._turns if name not in self._got]
        replies = [self._got.get(name) for name in self._turns]
        if not missing:
            return self._move(lambda conversation: conversation.send(replies))
        if asked.until is not None and asked.until(replies):
            off: list[Command] = [Cancel(turn=name, reason="enough replies") for name in missing]
            return [*off, *self._move(lambda conversation: conversation.send(replies))]
        return []

    def _move(self, step: Callable[[Conversation], Question | Together]) -> Sequence[Command]:
        assert self._conversation is not None
        try:
            self._asked = asked = step(self._conversation)
        except StopIteration as end:
            return self._over(Finish(outcome="completed", result=end.value))
        except AgentFailed as failure:
            return self._over(Finish(outcome="failed", reason=str(failure)))
        questions = (asked,) if isinstance(asked, Question) else asked.questions
        self._turns, self._got = [], {}
        if not questions:
            return self._move(lambda conversation: conversation.send([]))
        commands: list[Command] = []
        for question in questions:
            n = self._starts[question.agent] = self._starts.get(question.agent, 0) + 1
            turn = turn_id(question.agent, n)
            self._turns.append(turn)
            self._wanted[turn] = question.wanted
            commands.append(Ask(turn=turn, agent=question.agent, prompt=question.prompt))
        return commands

    def _over(self, finish: Finish) -> Sequence[Command]:
        self._turns = []
        return [finish]
