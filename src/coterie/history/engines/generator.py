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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar
from weakref import finalize

from coterie.base.ids import turn_id
from coterie.base.user_code import close, is_interrupt, line_and_place
from coterie.history.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reply, Wake
from coterie.history.engines.questions import (
    AgentFailed,
    AgentResult,
    Conversation,
    PatternFailed,
    Question,
    Sleep,
    Tell,
    Together,
)
from coterie.history.engines.replies import judge_reply, no_events
from coterie.history.journal import records as r
from coterie.team.planning.pattern import SlotPlan
from coterie.team.planning.plan import AgentPlan, Wanted

_Step = Callable[[], Question | Sleep | Together | Tell]


class PendingQuestion:
    """A question that the generator waits for, and its outcome.

    Attributes:
        n: The number of the question among those to its slot, from 1.
        asked: The agents called for it: the slot's own, then its fallbacks.
        turn: The turn of the last of these.
    """

    __slots__ = ("asked", "got", "n", "question", "slot", "turn")

    def __init__(self, question: Question | Sleep, n: int) -> None:
        self.question, self.n, self.slot = question, n, question.agent
        self.asked: list[str] = []
        self.turn = ""
        self.got: AgentResult = None


class GeneratorEngine:
    """Runs the generator of questions that *start* returns for the run's input.

    A returned value completes the run; an uncaught exception fails it.

    Args:
        agents: The agents by name, for their fallbacks.
        budgets: The limits on what an agent's turns may use; beyond them, questions to the agent fail.
    """

    name: ClassVar[str] = "generator"
    version: ClassVar[int] = 1
    noun: ClassVar[str] = "pattern"
    """A noun for its code, in messages."""

    def __init__(
        self,
        start: Callable[[dict[str, Any]], Conversation],
        agents: Mapping[str, AgentPlan] | None = None,
        budgets: Mapping[str, SlotPlan] | None = None,
    ) -> None:
        self._begin, self._agents, self._budgets = start, agents or {}, budgets or {}
        self._conversation: Conversation
        self._closes: finalize[..., GeneratorEngine] | None = None
        self._starts: dict[str, int] = {}
        self._wanted: dict[str, tuple[Wanted, ...]] = {}
        self._asked: Question | Sleep | Together | None = None
        self._places: list[PendingQuestion] = []
        self._at: dict[str, PendingQuestion] = {}
        """The questions whose turns run, by turn."""
        self._settled = 0
        """How many questions, counted from the first without a gap, have an outcome."""
        self._next = 0
        """The index of the first question of several that was not started yet."""
        self._time = 0.0
        """That of the last record."""
        self._spent: dict[str, r.Usage] = {}
        self._turns = 0
        """The number of started turns, without those of teams, which count their own."""
        self._slots: dict[str, str] = {}
        """The slot of each turn, even if a fallback took the turn."""

    def judge(self, said: Reply | Emit) -> r.Record:
        """Accept a reply that holds the outputs its question wants; reject events."""
        if isinstance(said, Reply):
            return judge_reply(said, self._wanted.get(said.turn, ()))
        return no_events(said, "a pattern")

    def step(self, record: r.Record) -> Sequence[Command]:
        """Send the generator its outcomes once all of them are known."""
        self._time = record.at
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
            case r.SleepEnded(sleep=name):
                return self._receive(name, record)
            case r.RunReopened():
                self._reopen(record)
                return ()
            case r.RunStarted():
                commands: list[Command] = []
                self._move(partial(self._start, record.input), commands)
                return commands
            case r.RunFinished():
                self.close()
                return ()
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

    def _receive(self, turn: str, got: r.TurnFinished | r.SleepEnded | AgentFailed) -> Sequence[Command]:
        place = self._at.pop(turn, None)
        if place is None:
            return ()
        place.got = got
        commands: list[Command] = []
        self._move(None, commands)
        return commands

    def _start(self, given: dict[str, Any]) -> Question | Sleep | Together | Tell:
        try:
            self._conversation = self._begin(given)
        except StopIteration as error:  # it is no answer
            raise RuntimeError("it raised StopIteration") from error
        self._closes = finalize(self, close, self._conversation)
        return self._conversation.send(None)

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
        """Advance the generator until it waits for a reply that has not arrived; None: it may have to wait already."""
        failed: set[str] = set()
        try:
            step = step or self._advance(commands)
            if step is not None:
                failed = {place.turn for place in self._places if isinstance(place.got, AgentFailed)}
            while step is not None:
                self._places, self._at, self._settled, self._next, self._asked = [], {}, 0, 0, None
                try:
                    asked = self._resume(step, commands)
                except StopIteration as end:
                    failed.clear()
                    commands.append(self.completed(end.value))
                    return
                if isinstance(asked, Tell):
                    commands.append(Note(record=asked.record))
                    step = partial(self._conversation.send, None)
                    continue
                self._places = [self._place(question) for question in _questions(asked)]
                self._asked = asked
                step = self._advance(commands)
        except BaseException as error:  # a user's pattern may raise anything: it fails its run, not the owner
            if is_interrupt(error):
                raise
            commands += self._drop(f"the {self.noun} failed")
            commands.append(_failed(error, self.noun, failed))
            self.close()

    def _resume(self, step: _Step, commands: list[Command]) -> Question | Sleep | Together | Tell:
        """Run the generator up to its next `yield`; *commands* gets what it wants done before that."""
        return step()

    def close(self) -> None:
        """Close the pattern's code: what it asks or raises from now on has no effect. Idempotent."""
        if self._closes is not None:
            self._closes()

    def _advance(self, commands: list[Command]) -> _Step | None:
        """Start what may start; once every reply is there, return the generator's next step."""
        asked, places = self._asked, self._places
        until, most = (asked.until, asked.most) if isinstance(asked, Together) else (None, None)
        while True:
            if isinstance(asked, Together) and asked.first and any(place.got is not None for place in places):
                commands += self._drop("another answer came first")
                return partial(self._conversation.send, [place.got for place in places])
            while self._settled < len(places) and places[self._settled].got is not None:
                self._settled += 1
                if until is not None and (step := self._until(until)) is not None:
                    commands += self._drop("enough replies")
                    return step
            if self._settled == len(places):
                if isinstance(asked, Together):
                    return partial(self._conversation.send, [place.got for place in places])
                return partial(_give, self._conversation, places[0].got)
            if self._next == len(places) or (most is not None and len(self._at) >= most):
                return None
            place = places[self._next]
            self._next += 1
            if isinstance(place.question, Sleep):
                commands += self._sleep(place, place.question.seconds)
                continue
            place.got = self._overspent(place.slot, place.n)
            if place.got is None:
                commands.append(self._ask(place, place.slot))

    def _drop(self, reason: str) -> Iterator[Command]:
        """Cancel the open questions."""
        for turn, place in self._at.items():
            slept = Note(record=r.SleepEnded(sleep=turn, early=True))
            yield slept if isinstance(place.question, Sleep) else Cancel(turn=turn, reason=reason)

    def _sleep(self, place: PendingQuestion, seconds: float) -> Sequence[Command]:
        """Begin a sleep; its name is that of no turn."""
        place.turn = f"sleep {place.n}"
        self._at[place.turn] = place
        until = self._time + seconds
        return Note(record=r.SleepStarted(sleep=place.turn, until=until)), Wake(sleep=place.turn, until=until)

    def _until(self, until: Callable[[Sequence[AgentResult]], bool]) -> _Step | None:
        """The next step if *until* accepts the replies so far."""
        came: list[AgentResult] = [None] * len(self._places)
        came[: self._settled] = map(attrgetter("got"), self._places[: self._settled])
        try:
            return partial(self._conversation.send, came) if until(came) else None
        except BaseException as error:  # raised at the generator's `yield`
            if is_interrupt(error):
                raise
            return partial(_give, self._conversation, error)

    def _place(self, question: Question | Sleep) -> PendingQuestion:
        """Number *question* within its slot; a fallback's turn has the same number."""
        slot = question.agent
        if self._agents and slot not in self._agents and not isinstance(question, Sleep):
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
        assert isinstance(question, Question)
        asked = question.digest()
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
            asked=asked,
        )

    def _reopen(self, record: r.RunReopened) -> None:
        """Wait again for the replies to the last questions, as far as they are retried."""
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


def _failed(error: BaseException, noun: str, failed: Collection[str] = ()) -> Finish:
    """The command that ends the run when the generator raises *error*, with the kind of failure for the caller.

    Args:
        noun: A noun for the code of the generator.
        failed: The failed turns among those that the generator waited for last.
    """
    at_fault = tuple(sorted(filter(None, failed)))
    if not isinstance(error, AgentFailed | PatternFailed):
        return Finish(outcome="failed", reason=f"the {noun} raised {line_and_place(error)}", at_fault=at_fault)
    result = {"kind": error.kind} if error.kind else None
    return Finish(outcome="failed", reason=str(error), result=result, at_fault=at_fault)


def _questions(asked: object) -> tuple[Question | Sleep, ...]:
    if isinstance(asked, Together):
        return asked.questions
    if not isinstance(asked, Question | Sleep):
        raise TypeError(f"a pattern must yield a Question, Together or Tell, not {type(asked).__name__}")
    return (asked,)


def _give(conversation: Conversation, got: r.Record | BaseException | None) -> Question | Sleep | Together | Tell:
    return conversation.throw(got) if isinstance(got, BaseException) else conversation.send(got)
