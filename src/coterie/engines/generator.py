"""Run a plain generator as an engine: it yields questions, receives replies, and returns the result.

    def review(given):
        draft = yield Question("writer", given["prompt"])
        notes = yield Together(Question("critic", draft.text), Question("lawyer", draft.text))
        final = yield Question("writer", "\\n".join(note.text for note in notes if not isinstance(note, AgentFailed)))
        return final.text

So the code reads like the collaboration. The generator must be deterministic: the same input and replies lead to the
same questions. It does no I/O, reads no clock and draws no random numbers.

Replies are passed on in the order of the questions, not of their arrival: speed decides nothing.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from coterie.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reply
from coterie.engines.replies import judge_reply, no_events
from coterie.errors import CoterieError
from coterie.ids import turn_id
from coterie.journal import records as r
from coterie.planning.pattern import SlotPlan
from coterie.planning.plan import AgentPlan, Wanted

_MESSAGES = ("request", "response", "feedback", "escalation", "broadcast", "system")
_History = tuple[tuple[Literal["system", "user", "assistant"], str], ...]
_T = TypeVar("_T")


class AgentFailed(CoterieError):
    """A turn that a generator waits for failed after its last attempt; raised at its `yield`, and may be caught there.

    *turn* is empty when no turn was started, because the agent's budget was spent.
    """

    def __init__(self, turn: str, kind: str, reason: str) -> None:
        self.turn, self.kind, self.reason = turn, kind, reason
        super().__init__(f"{turn} failed ({kind}): {reason}" if turn else reason)


class PatternFailed(CoterieError):
    """Raised in a generator to fail the run with this reason.

    Args:
        kind: The common kind of the failures that caused this one. By default the kind of the `AgentFailed` that this
            exception is raised from.
    """

    def __init__(self, reason: str, kind: str = "") -> None:
        self._kind = kind
        super().__init__(reason)

    @property
    def kind(self) -> str:
        """The kind of failure that the caller gets; empty if there is no single kind."""
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
        self.given = as_read_back(given) if given is not None else None


AgentResult = r.TurnFinished | AgentFailed | None
"""The outcome of one of several questions; None if it was cancelled or not started because *until* returned True."""


class Together:
    """Ask several questions at once. Yielding it returns their outcomes, in the order asked; failures are values there.

    Args:
        until: Called with the outcomes so far, without gaps, in the order asked (None for the rest). True cancels the
            other questions, whatever their outcome.
        most: How many questions may be open at a time; None is without limit.

    Raises:
        TypeError, ValueError: If an argument is not a question, or *most* is below 1.
    """

    __slots__ = ("most", "questions", "until")

    def __init__(
        self,
        *questions: Question,
        until: Callable[[Sequence[AgentResult]], bool] | None = None,
        most: int | None = None,
    ) -> None:
        for question in questions:
            _expect(question, Question, "each argument of Together")
        if most is not None and most < 1:
            raise ValueError(f"most={most}: at least one question must be open at a time")
        self.questions, self.until, self.most = questions, until, most


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


Conversation = Generator[Question | Together | Tell, Any, Any]
_Step = Callable[[Conversation], Question | Together | Tell]


class PendingQuestion:
    """A question that the generator waits for, and its outcome.

    Attributes:
        n: The number of the question among those to its slot, from 1.
        asked: The agents called for it: the slot's own, then its fallbacks.
        turn: The turn of the last of these.
    """

    __slots__ = ("asked", "got", "n", "question", "slot", "turn")

    def __init__(self, question: Question, n: int) -> None:
        self.question, self.n, self.slot = question, n, question.agent
        self.asked: list[str] = []
        self.turn = ""
        self.got: AgentResult = None


class GeneratorEngine:
    """Runs the generator of questions that *start* returns for the run's input.

    A returned value completes the run; any exception that the generator does not catch fails it.

    Args:
        agents: The agents by name, for their fallbacks.
        budgets: The most that the turns of an agent may use; beyond it, questions to the agent fail.
    """

    name: ClassVar[str] = "generator"
    version: ClassVar[int] = 1

    def __init__(
        self,
        start: Callable[[dict[str, Any]], Conversation],
        agents: Mapping[str, AgentPlan] | None = None,
        budgets: Mapping[str, SlotPlan] | None = None,
    ) -> None:
        self._begin, self._agents, self._budgets = start, agents or {}, budgets or {}
        self._conversation: Conversation | None = None
        self._starts: dict[str, int] = {}
        self._wanted: dict[str, tuple[Wanted, ...]] = {}
        self._asked: Question | Together | None = None
        self._places: list[PendingQuestion] = []
        self._at: dict[str, PendingQuestion] = {}
        """The questions whose turns run, by turn."""
        self._settled = 0
        """How many questions, counted from the first without a gap, have an outcome."""
        self._next = 0
        """The index of the first question of several that was not started yet."""
        self._spent: dict[str, r.Usage] = {}
        self._turns = 0
        """How many turns were started, without those of teams, which count their own."""
        self._slots: dict[str, str] = {}
        """The slot of each turn, also where a fallback took the turn."""

    def judge(self, said: Reply | Emit) -> r.Record:
        """Accept a reply that holds the outputs its question wants; reject events."""
        if isinstance(said, Reply):
            return judge_reply(said, self._wanted.get(said.turn, ()))
        return no_events(said, "a pattern")

    def step(self, record: r.Record) -> Sequence[Command]:
        """Send the generator its outcomes once all of them are known."""
        match record:
            case r.TurnFinished(turn=turn):
                self._spend(turn, record.usage)
                return self._receive(turn, record)
            case r.AttemptFailed(turn=turn) | r.AttemptInterrupted(turn=turn):
                self._spend(turn, record.usage)
                return ()
            case r.TurnFailed(turn=turn):
                return self._fail(turn, AgentFailed(turn, record.kind, record.reason))
            case r.TurnCancelled(turn=turn):
                self._spend(turn, record.usage)
                return self._receive(turn, AgentFailed(turn, "cancelled", record.reason or "called off"))
            case r.RunReopened():
                self._reopen(record)
                return ()
            case r.RunStarted():
                try:
                    self._conversation = self._begin(record.input)
                except Exception as error:
                    return [_failed(error)]
                commands: list[Command] = []
                self._move(next, commands)
                return commands
            case _:
                return ()

    @property
    def spent(self) -> r.Usage:
        """The usage of the turns that ended, teams included."""
        total = r.Usage(turns=self._turns)
        for usage in self._spent.values():
            total += usage
        return total

    def completed(self, value: Any) -> Finish:
        """The command that ends the run when the generator returns *value*."""
        return Finish(outcome="completed", result=value)

    def _receive(self, turn: str, got: r.TurnFinished | AgentFailed) -> Sequence[Command]:
        place = self._at.pop(turn, None)
        if place is None:
            return ()
        place.got = got
        commands: list[Command] = []
        self._move(self._advance(commands), commands)
        return commands

    def _fail(self, turn: str, failure: AgentFailed) -> Sequence[Command]:
        """Start the fallback of the agent that failed *turn*; without one, the question has failed.

        A fallback may have a fallback. No agent gets one question twice.
        """
        place = self._at.get(turn)
        if place is None:
            return ()
        agent = self._agents.get(place.asked[-1])
        if agent is None or agent.on_fail != "fallback" or not agent.fallback or agent.fallback in place.asked:
            return self._receive(turn, failure)
        if (spent := self._overspent(place.slot)) is not None:
            return self._receive(turn, spent)
        del self._at[turn]
        return [self._ask(place, agent.fallback)]

    def _move(self, step: _Step | None, commands: list[Command]) -> None:
        """Advance the generator until it waits for a reply that has not arrived."""
        assert self._conversation is not None
        if step is None:
            return
        failed = {place.turn for place in self._places if isinstance(place.got, AgentFailed)}
        while step is not None:
            self._places, self._at, self._settled, self._next, self._asked = [], {}, 0, 0, None
            try:
                asked = step(self._conversation)
                if isinstance(asked, Tell):
                    commands.append(Note(record=asked.record))
                    step = next
                    continue
                self._places = [self._place(question) for question in _questions(asked)]
            except StopIteration as end:
                commands.append(self._end(end.value))
                return
            except Exception as error:  # a user's pattern may raise anything: it fails its run, not the owner
                commands.append(_failed(error, failed))
                return
            self._asked = asked
            step = self._advance(commands)

    def _advance(self, commands: list[Command]) -> _Step | None:
        """Start what may start; once every reply is there, return the generator's next step."""
        asked, places = self._asked, self._places
        until, most = (asked.until, asked.most) if isinstance(asked, Together) else (None, None)
        while True:
            while self._settled < len(places) and places[self._settled].got is not None:
                self._settled += 1
                if until is not None and (step := self._until(until)) is not None:
                    commands += [Cancel(turn=turn, reason="enough replies") for turn in self._at]
                    return step
            if self._settled == len(places):
                if isinstance(asked, Together):
                    return partial(_send, value=[place.got for place in places])
                return partial(_give, got=places[0].got)
            if self._next == len(places) or (most is not None and len(self._at) >= most):
                return None
            place = places[self._next]
            self._next += 1
            place.got = self._overspent(place.slot, place.n)
            if place.got is None:
                commands.append(self._ask(place, place.slot))

    def _until(self, until: Callable[[Sequence[AgentResult]], bool]) -> _Step | None:
        """The next step if *until* accepts the replies so far."""
        came: list[AgentResult] = [None] * len(self._places)
        came[: self._settled] = map(attrgetter("got"), self._places[: self._settled])
        try:
            return partial(_send, value=came) if until(came) else None
        except Exception as error:  # raised at the generator's `yield`
            return partial(_give, got=error)

    def _end(self, value: Any) -> Finish:
        try:
            return self.completed(value)
        except Exception as error:  # a user's pattern may return anything
            return _failed(error)

    def _place(self, question: Question) -> PendingQuestion:
        """Number *question* within its slot; a fallback's turn has the same number."""
        slot = question.agent
        if self._agents and slot not in self._agents:
            raise PatternFailed(f"the pattern asked the unknown slot {slot!r}; its slots are {', '.join(self._agents)}")
        self._starts[slot] = self._starts.get(slot, 0) + 1
        return PendingQuestion(question, self._starts[slot])

    def _overspent(self, slot: str, n: int = 0) -> AgentFailed | None:
        """The budget failure that replaces the *n*-th question to *slot* or its fallback; None within the budget.

        Messages of patterns may quote its reason, and a replay compares them: the wording is fixed.
        """
        budget = self._budgets.get(slot)
        if budget is None:
            return None
        spent = self._spent.get(slot, r.NO_USAGE).cost
        if budget.calls is not None and n > budget.calls:
            return AgentFailed("", "budget", f"{slot} has had all the turns it may have: {budget.calls}")
        if budget.cost is not None and spent >= budget.cost:
            return AgentFailed("", "budget", f"{slot} may cost ${budget.cost:g}, and has cost ${spent:.4f}")
        return None

    def _ask(self, place: PendingQuestion, agent: str) -> Ask:
        """Ask *agent*, the slot's own or a fallback, the question of *place*."""
        question, plan = place.question, self._agents.get(agent)
        turn = turn_id(place.slot if agent == place.slot else f"{place.slot}.{agent}", place.n)
        place.asked.append(agent)
        place.turn = turn
        self._turns += plan is None or plan.child is None
        self._at[turn] = place
        self._slots[turn] = place.slot
        if question.wanted:
            self._wanted[turn] = question.wanted
        return Ask(
            turn=turn,
            agent=agent,
            prompt=question.prompt,
            history=question.history,
            wanted=question.fields or question.wanted,
            whole=question.given,
            instead_of=place.slot if agent != place.slot else "",
        )

    def _reopen(self, record: r.RunReopened) -> None:
        """Wait again for the replies to those of the last questions that are retried."""
        for place in self._places:
            if place.turn in record.asked:
                place.got, self._at[place.turn] = None, place
        gots = [place.got is not None for place in self._places]
        self._settled = gots.index(False) if False in gots else len(gots)
        for turn, usage in record.reported.items():
            self._spend(turn, r.NO_USAGE - usage)

    def _spend(self, turn: str, usage: r.Usage) -> None:
        slot = self._slots.get(turn)
        if slot is not None and usage is not r.NO_USAGE:
            self._spent[slot] = self._spent.get(slot, r.NO_USAGE) + usage


def _failed(error: Exception, failed: Collection[str] = ()) -> Finish:
    """The command that ends the run when the generator raises *error*, with the kind of failure for the caller.

    Args:
        failed: The turns that had failed of those that it waited for last.
    """
    at_fault = tuple(sorted(filter(None, failed)))
    if not isinstance(error, AgentFailed | PatternFailed):
        return Finish(outcome="failed", reason=f"the pattern raised {type(error).__name__}: {error}", at_fault=at_fault)
    result = {"kind": error.kind} if error.kind else None
    return Finish(outcome="failed", reason=str(error), result=result, at_fault=at_fault)


def _questions(asked: object) -> tuple[Question, ...]:
    if isinstance(asked, Together):
        return asked.questions
    if not isinstance(asked, Question):
        raise TypeError(f"a pattern must yield a Question, Together or Tell, not {type(asked).__name__}")
    return (asked,)


def _send(conversation: Conversation, value: Any) -> Question | Together | Tell:
    return conversation.send(value)


def _give(conversation: Conversation, got: r.TurnFinished | Exception | None) -> Question | Together | Tell:
    return conversation.throw(got) if isinstance(got, Exception) else conversation.send(got)


def _expect(value: Any, type: type[_T], what: str) -> _T:
    if not isinstance(value, type):
        raise TypeError(f"{what} must be of type {type.__name__}, not {value.__class__.__name__}")
    return value


def as_read_back(value: Mapping[str, Any]) -> dict[str, Any]:
    """*value* as it will be read back from the journal."""
    return msgspec.json.decode(msgspec.json.encode(dict(value)), type=dict[str, Any])
