"""What a generator asks: questions to agents, sleeps, several at once, and messages."""

from collections.abc import Callable, Generator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypeVar

import msgspec

from coterie.errors import CoterieError
from coterie.history.journal import records as r
from coterie.team.planning.plan import Wanted

_MESSAGES = ("request", "response", "feedback", "escalation", "broadcast", "system")
_History = tuple[tuple[Literal["system", "user", "assistant"], str], ...]
_T = TypeVar("_T")


class AgentFailed(CoterieError):
    """Raised at the `yield` of a generator, which may catch it, when a turn failed after its last attempt.

    *turn* is empty if no turn was started, because the agent's budget was spent.
    """

    def __init__(self, turn: str, kind: str, reason: str) -> None:
        self.turn, self.kind, self.reason = turn, kind, reason
        super().__init__(f"{turn} failed ({kind}): {reason}" if turn else reason)


class PatternFailed(CoterieError):
    """Raised by a generator to fail the run with this reason.

    Args:
        kind: The common kind of the failures that caused this one. By default the kind of the `AgentFailed` that this
            exception is raised from.
    """

    def __init__(self, reason: str, kind: str = "") -> None:
        self._kind = kind
        super().__init__(reason)

    @property
    def kind(self) -> str:
        """The kind of failure for the caller; empty if there is no single kind."""
        return self._kind or (self.__cause__.kind if isinstance(self.__cause__, AgentFailed) else "")


class Question:
    """Ask *agent* this *prompt*; yielding it returns a `TurnFinished` or raises `AgentFailed`.

    Args:
        wanted: The outputs that the reply must hold, or the turn fails.
        fields: The JSON that the prompt asks for; the generator checks whether it came.
        history: The chat before the prompt: pairs of a role, `user` or `assistant`, and a text.
        given: The whole input, where a team answers; by default its prompt.

    Raises:
        TypeError, ValueError: If an argument has another type, or *given* is not JSON.
    """

    __slots__ = ("agent", "fields", "given", "history", "prompt", "wanted")

    def __init__(
        self,
        agent: str,
        prompt: str,
        wanted: Sequence[Wanted] = (),
        *,
        fields: Sequence[Wanted] = (),
        history: Sequence[tuple[str, str]] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.agent, self.prompt = _expect(agent, str, "the agent of a question"), _expect(prompt, str, "its prompt")
        if not prompt.isascii():
            prompt.encode()  # half a surrogate pair could not be written down
        self.wanted, self.fields = tuple(wanted), tuple(fields)
        self.history = msgspec.convert(history, _History) if history else ()
        for _, text in self.history:
            text.encode()
        self.given = as_read_back(given) if given is not None else None

    def digest(self) -> str:
        """SHA-256 of the whole question, in hex; journals hold it, so what it covers stays as it is."""
        whole = (self.agent, self.prompt, self.wanted, self.fields, self.history, self.given)
        return sha256(msgspec.json.encode(whole, order="deterministic")).hexdigest()


AgentResult = r.TurnFinished | r.SleepEnded | AgentFailed | None
"""The outcome of one of several questions; None if it was cancelled or not started because *until* returned True."""


class Sleep:
    """Wait for so many *seconds*, as a question that time answers; yielding it returns the record of its end."""

    __slots__ = ("agent", "seconds")

    def __init__(self, seconds: float) -> None:
        self.agent, self.seconds = "", seconds


class Together:
    """Ask several questions at once. Yielding it returns their outcomes, in the order asked; failures are values there.

    Args:
        until: Called with the outcomes so far, without gaps, in the order asked (None for the rest). True cancels the
            other questions, whatever their outcome.
        most: How many questions may be open at a time; None is without limit.
        first: The first outcome in the journal, of any question, cancels the others: the one place where speed decides.

    Raises:
        TypeError, ValueError: If an argument is not a question, or *most* is below 1.
    """

    __slots__ = ("first", "most", "questions", "until")

    def __init__(
        self,
        *questions: Question | Sleep,
        until: Callable[[Sequence[AgentResult]], bool] | None = None,
        most: int | None = None,
        first: bool = False,
    ) -> None:
        for question in questions:
            if not isinstance(question, Sleep):
                _expect(question, Question, "each argument of Together")
        if most is not None and most < 1:
            raise ValueError(f"most={most}: at least one question must be open at a time")
        self.questions, self.until, self.most, self.first = questions, until, most, first


class Tell:
    """Record a message from *sender* to *recipient* (None: to all); yielding it returns None at once.

    Args:
        type: `request`, `response`, `feedback`, `escalation`, `broadcast` or `system`.
        content: The message, as plain JSON values.
        round: The round of the collaboration, from 0.

    Raises:
        TypeError, ValueError: If an argument has another type, or *content* is not JSON.
    """

    __slots__ = ("record",)

    def __init__(
        self, sender: str, recipient: str | None, type: str, content: Mapping[str, Any], round: int = 0
    ) -> None:
        if type not in _MESSAGES:
            raise ValueError(f"unknown message type {type!r}; known are {', '.join(_MESSAGES)}")
        self.record = r.MessageSent(
            sender=_expect(sender, str, "the sender"),
            recipient=_expect(recipient or "", str, "the recipient"),
            type=type,
            content=as_read_back(content),
            round=_expect(round, int, "the round"),
        )


Conversation = Generator[Question | Sleep | Together | Tell, Any, Any]


def _expect(value: Any, type: type[_T], what: str) -> _T:
    if not isinstance(value, type):
        raise TypeError(f"{what} must be of type {type.__name__}, not {value.__class__.__name__}")
    return value


def as_read_back(value: Mapping[str, Any]) -> dict[str, Any]:
    """*value* as it will be read back from the journal."""
    return msgspec.json.decode(msgspec.json.encode(dict(value)), type=dict[str, Any])
