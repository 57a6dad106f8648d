"""Run an `async def` as an engine: what it awaits are the questions of a generator.

A coroutine is driven by `send`, as a generator is, so no task and no event loop run it. While it makes a step, the loop
of the process is hidden from it: what needs one fails there.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from random import Random
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from coterie.errors import ReplayMismatch, UsageError, error_line
from coterie.history.engines.commands import Command, Emit, Finish, Note, Reply
from coterie.history.engines.patterns.engine import PatternEngine
from coterie.history.engines.patterns.hidden_loop import ONLY, hidden_loop
from coterie.history.engines.patterns.registry import PatternDefinition
from coterie.history.engines.questions import AgentFailed, AgentResult, Conversation, Question, Sleep, Tell, Together
from coterie.history.engines.versions import EngineRules, rules_of
from coterie.history.journal import records as r
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Wanted
from coterie.team.topology.typed.program import TypedProgram
from coterie.team.topology.typed.values import RESULT, as_outputs, fields_of, lost

T_co = TypeVar("T_co", covariant=True)


class StepContext:
    """What a program may use while it makes a step.

    Attributes:
        agents: Its agents by name.
        at: The time of the record that resumed it, in Unix seconds.
        notes: What it noted in this step.
        unawaited: The questions that it has made and not awaited yet.
        rules: Those of the version that began its run.
    """

    def __init__(self, name: str, agents: Mapping[str, AgentPlan]) -> None:
        self.name, self.agents = name, agents
        self.at, self.seed = 0.0, ""
        self.notes: list[str] = []
        self.unawaited: dict[int, AgentCall[Any]] = {}
        self.rules = EngineRules()

    @cached_property
    def random(self) -> Random:
        """Random numbers from the seed in the journal."""
        return Random(self.seed)


_STAGE: ContextVar[StepContext] = ContextVar("coterie_program")


def stage(what: str) -> StepContext:
    """The stage of the program that makes a step now.

    Raises:
        UsageError: If none does, so that *what* has no meaning.
    """
    try:
        return _STAGE.get()
    except LookupError:
        raise UsageError(
            f"{what} works in a program only: write an `async def` that is decorated with @coterie.program, and run "
            "that with coterie.run"
        ) from None


class Awaited(Generic[T_co]):
    """What a program may await alone, and among several."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T_co]:
        raise NotImplementedError


class AgentCall(Question, Awaited[T_co]):
    """A question to an agent; awaiting it gives the answer. Awaited again, it gives the same answer.

    Args:
        read: Makes the value of an answer; it raises an error if it cannot.
    """

    __slots__ = ("outcome", "read")

    def __init__(
        self,
        agent: str,
        prompt: str,
        wanted: Sequence[Wanted],
        given: Mapping[str, Any] | None,
        read: Callable[[r.TurnFinished], T_co],
    ) -> None:
        here = stage(f"{agent}(…)")
        if agent not in here.agents:
            raise UsageError(
                f"{here.name} asks {agent!r}, which is not among its agents: @program(agents=[…, {agent}])"
            )
        super().__init__(agent, prompt, wanted, given=given)
        self.read, self.outcome = read, cast(AgentResult, None)
        here.unawaited[id(self)] = self

    def __await__(self) -> Generator[Any, Any, T_co]:
        if self.outcome is None:
            stage("await").unawaited.pop(id(self), None)
            try:
                self.outcome = yield self
            except AgentFailed as failure:
                self.outcome = failure
        return self.value()

    def value(self) -> T_co:
        """A new value of the answer.

        Raises:
            AgentFailed: If there is none.
        """
        if isinstance(self.outcome, r.TurnFinished):
            return self.read(self.outcome)
        if isinstance(self.outcome, AgentFailed):
            raise self.outcome
        raise AgentFailed("", "cancelled", f"{self.agent} was not asked")

    def misread(self, record: r.TurnFinished) -> str:
        """Why *record* is no answer of the type of the agent; empty if it is one."""
        try:
            self.read(record)
        except Exception as error:  # a type of the user's may raise anything: the reply is invalid
            return f"the answer does not have its type: {error_line(error)}"
        return ""


class Nap(Sleep, Awaited[None]):
    """A sleep; awaiting it waits, once."""

    __slots__ = ("outcome",)

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.outcome = cast(AgentResult, None)

    def __await__(self) -> Generator[Any, Any, None]:
        if self.outcome is None:
            self.outcome = yield self

    def value(self) -> None:
        """Nothing."""

    def read(self, record: r.Record) -> None:
        """Nothing."""


class ProgramEngine(PatternEngine):
    """The engine of a program."""

    name: ClassVar[str] = "generator"
    version: ClassVar[int] = 2
    noun: ClassVar[str] = "program"

    def __init__(self, plan: PatternPlan, agents: Mapping[str, AgentPlan]) -> None:
        super().__init__(plan, agents)
        self._most, self._run = plan.max_turns, ""
        self._stage = StepContext(self.definition.kind.name, {slot.name: agents[slot.name] for slot in plan.slots})

    @property
    def unawaited(self) -> Sequence[str]:
        """The agents that it called without awaiting the question."""
        return [call.agent for call in self._stage.unawaited.values()]

    def judge(self, said: Reply | Emit) -> r.Record:
        """Accept a reply that has the type of its agent."""
        judged = super().judge(said)
        place = self._at.get(said.turn)
        if place is None or not isinstance(judged, r.TurnFinished) or not isinstance(place.question, AgentCall):
            return judged
        if why := place.question.misread(judged):
            return r.AttemptFailed(
                turn=judged.turn,
                attempt=judged.attempt,
                kind="invalid_output",
                reason=why,
                usage=judged.usage,
                text=judged.text,
            )
        return judged

    def step(self, record: r.Record) -> Sequence[Command]:
        """Step like any generator; an answer whose recorded value no longer has its type ends the replay."""
        self._stage.at = record.at
        if isinstance(record, r.RunStarted):
            self._run, self._stage.seed = record.run, record.seed
            self._stage.rules = rules_of(self.name, record.engine_version)
        if isinstance(record, r.TurnFinished) and (place := self._at.get(record.turn)) is not None:
            call = place.question
            if isinstance(call, AgentCall) and (why := call.misread(record)):
                raise ReplayMismatch(self._run, record.seq, f"an answer of {call.agent}", "another type", why=why)
        return super().step(record)

    def completed(self, value: Any) -> Finish:
        """The result: its text, and its values as outputs."""
        type_ = program_of(self.definition).signature.result
        whole = fields_of(type_) is None
        outputs = as_outputs(value, whole=whole)
        is_free = type_ is Any and self._stage.rules.passes_untyped
        if not is_free and (at := lost(value, type_, whole=whole)):
            raise TypeError(f"{self.definition.kind.name} returned {at}")
        text = value if isinstance(value, str) else msgspec.json.encode(outputs.get(RESULT, outputs)).decode()
        return Finish(outcome="completed", result={"text": text, "outputs": {self.definition.kind.name: outputs}})

    def _play(self, given: dict[str, Any]) -> Conversation:
        program = program_of(self.definition)
        if self._above is None:
            return super()._play(given)
        arguments = program.arguments(self._asked_of_it(given), self._above.answers, self._above.input)
        return cast(Conversation, program.begin(arguments))

    def _overspent(self, slot: str, n: int = 0) -> AgentFailed | None:
        most = self._most
        if most is not None and self.spent.turns + len(self._at) >= most and self._started >= most:
            return AgentFailed("", "budget", f"{self._stage.name} has had all the turns it may have: {self._most}")
        return super()._overspent(slot, n)

    @property
    def _started(self) -> int:
        """The number of its turns so far, those of teams that have ended included."""
        asked = (place.asked[-1] for place in self._at.values() if place.asked)
        running = sum(1 for name in asked if self._agents[name].child is not None)
        return self.spent.turns + running

    def _resume(
        self, step: Callable[[], Question | Sleep | Together | Tell], commands: list[Command]
    ) -> Question | Sleep | Together | Tell:
        token, name = _STAGE.set(self._stage), self._stage.name
        try:
            with hidden_loop(name):
                awaited: object = step()
            if isinstance(awaited, Question | Sleep | Together):
                return awaited
            raise UsageError(f"{name} awaited something that is not of coterie; {ONLY}")  # it cannot catch this
        finally:
            _STAGE.reset(token)
            commands += [Note(record=r.ProgramNoted(text=text)) for text in self._stage.notes]
            self._stage.notes.clear()


def program_of(definition: PatternDefinition) -> TypedProgram[Any]:
    """The program that *definition* is of."""
    assert definition.program is not None
    return definition.program
