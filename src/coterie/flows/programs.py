"""Programs: plans said in code, durable at every question.

    @program(agents=[planner, writer, critic], max_turns=40)
    async def report(topic: str) -> Report:
        plan = await planner(topic)
        sections = await together([writer(one) for one in plan.topics], at_once=3)
        verdict = await critic(sections)
        note(verdict.reason)
        return Report(sections)

A program is a team: `coterie.run(report, "tea")`, `coterie run FILE.py:report "tea"`. A resumed run makes its steps
again from the beginning, with the recorded answers, so it must ask the same questions for the same answers.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from random import Random
from typing import Any, Literal, TypeVar, overload

from coterie.errors import UsageError
from coterie.flows.agents import Filling, FlowStep, shorten
from coterie.flows.build import checked
from coterie.history.engines.patterns.program import AgentCall, Awaited, Nap, stage
from coterie.history.engines.patterns.registry import add_program
from coterie.history.engines.questions import AgentFailed, AgentResult, Together
from coterie.history.journal.records import SleepEnded, TurnFinished
from coterie.team.topology.model import Gate
from coterie.team.topology.patterns.model import Pattern, Slot
from coterie.team.topology.typed.functions import folder_of, module_of, signature_of
from coterie.team.topology.typed.program import TypedProgram

T = TypeVar("T")


def program(
    *, agents: Sequence[Filling[Any] | FlowStep], max_turns: int, name: str = "", description: str = ""
) -> Callable[[Callable[..., Coroutine[Any, Any, T]]], TypedProgram[T]]:
    """Make a team of an `async def` that asks *agents*.

    Args:
        agents: What it may ask: what `agent`, `human` and `action` returned, each with a name.
        max_turns: The most turns of a run, those of teams included; beyond them a question raises `AgentFailed`.
        name: Its name; by default that of the function.

    Raises:
        TopologyError: If an agent is invalid.
        UsageError: If an argument is invalid, or another process could not find the function.
    """
    if not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1:
        raise UsageError(f"max_turns is the most turns of a run, a whole number from 1, not {shorten(max_turns)}")
    for one in _listed(agents):
        if not isinstance(one, Filling | FlowStep) or isinstance(one.definition, Gate):
            raise UsageError(f"a program asks what agent(…), human(…) or action(…) returned, not {shorten(one)}")
        if not one.flow_name:
            raise UsageError(f'an agent of a program has a name: agent("writer", …), not {shorten(one)}')

    def make(function: Callable[..., Coroutine[Any, Any, T]]) -> TypedProgram[T]:
        path = _path(function)
        nodes = [
            node
            for one in agents
            for node in (one.definition.nodes() if isinstance(one, Filling) else (one.definition,))
        ]
        slots = [
            Slot(
                name=one.flow_name,
                node=one.flow_name,
                calls=getattr(own, "calls", None),
                cost=getattr(own, "cost", None),
            )
            for one in agents
            for own in [one.definition]
        ]
        signature = signature_of(function)
        made = TypedProgram(
            name=name or function.__name__,
            nodes=tuple(nodes),
            pattern=Pattern(type=path, slots=tuple(slots), max_turns=max_turns),
            meta={"description": description} if description else {},
            folder=folder_of(function),
            result=signature.result,
            function=function,
            signature=signature,
        )
        checked(made, 1)
        add_program(path, made)
        return made

    return make


def _listed(agents: object) -> Sequence[Any]:
    if not isinstance(agents, list | tuple):
        raise UsageError(f"the agents of a program are a list, agents=[writer, critic], not {shorten(agents)}")
    return agents


def _path(function: Callable[..., Any]) -> str:
    """The path by which a resumed run finds *function*: `module:name`; a file that is run itself is its module.

    Of a program that is typed in, without a file, a run cannot be resumed by another process.
    """
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"a program is an `async def`, @program(agents=[…], max_turns=…), not {shorten(function)}")
    name = function.__qualname__
    if "." in name:
        raise UsageError(f"{function.__name__} is a program, which another process must find: move it to the top level")
    return f"{module_of(function)}:{name}"


class _Several:
    """Several questions, asked when they are awaited; those that have answers are not asked again."""

    def __init__(self, what: str, calls: Iterable[Any], at_once: int | None, *, first: bool = False) -> None:
        stage(what)
        self.calls = list(calls)
        for one in self.calls:
            if isinstance(one, AgentCall | Nap):
                continue
            hint = "call an agent"
            if inspect.iscoroutine(one):
                one.close()
                hint = "await that by itself, or make a program of it, which is an agent"
            raise UsageError(f"{what} takes questions, writer(topic), not {shorten(one)}: {hint}")
        self._at_once, self._first = at_once, first

    def ask(self, until: Callable[[list[Any]], bool] | None = None) -> Generator[Any, Any, None]:
        """Ask those without an answer. *until* gets the answers so far, without gaps; True cancels the rest."""
        here, fresh = stage("await"), list({id(one): one for one in self.calls if one.outcome is None}.values())
        for one in self.calls:
            here.unawaited.pop(id(one), None)

        def enough(outcomes: Sequence[AgentResult]) -> bool:
            known = dict(zip(map(id, fresh), outcomes, strict=True))
            found = [known.get(id(one), one.outcome) for one in self.calls]
            ended = found.index(None) if None in found else len(found)
            return until is not None and bool(
                until([_value(*one) for one in zip(found[:ended], self.calls, strict=False)])
            )

        given = yield Together(*fresh, most=self._at_once, first=self._first, until=enough if until else None)
        for one, outcome in zip(fresh, given, strict=True):
            one.outcome = outcome


class _All(_Several):
    def __init__(self, calls: Iterable[Any], at_once: int | None, until: Any, failures: bool) -> None:
        super().__init__("together(…)", calls, at_once)
        self._until, self._failures = until, failures

    def __await__(self) -> Generator[Any, Any, list[Any]]:
        yield from self.ask(self._until)
        failed = [one.outcome for one in self.calls if isinstance(one.outcome, AgentFailed)]
        if failed and not self._failures:
            raise failed[0]
        return [_value(one.outcome, one) for one in self.calls]


class _First(_Several):
    def __init__(self, calls: Iterable[Any]) -> None:
        super().__init__("first(…)", calls, None, first=True)
        if not self.calls:
            raise UsageError("first(…) takes one question or more, and was given none")

    def __await__(self) -> Generator[Any, Any, Any]:
        if all(one.outcome is None for one in self.calls):
            yield from self.ask()
        return next(one for one in self.calls if one.outcome is not None).value()


def _value(outcome: AgentResult, call: Any) -> Any:
    return call.read(outcome) if isinstance(outcome, TurnFinished | SleepEnded) else outcome


@overload
def together(
    questions: Iterable[Awaited[T]],
    *,
    at_once: int | None = None,
    until: None = None,
    failures: Literal[False] = False,
) -> Awaitable[list[T]]: ...
@overload
def together(
    questions: Iterable[Awaited[T]],
    *,
    at_once: int | None = None,
    until: Callable[[list[T]], bool],
    failures: Literal[False] = False,
) -> Awaitable[list[T | None]]: ...
@overload
def together(
    questions: Iterable[Awaited[T]],
    *,
    at_once: int | None = None,
    until: Callable[[list[T | AgentFailed]], bool] | None = None,
    failures: Literal[True],
) -> Awaitable[list[T | AgentFailed | None]]: ...
def together(
    questions: Iterable[Any], *, at_once: int | None = None, until: Any = None, failures: bool = False
) -> Awaitable[list[Any]]:
    """Ask several questions at once; awaiting it gives the answers, in the order of the questions.

    Once all have ended, the first failure in that order is raised.

    Args:
        at_once: How many may be open at a time; by default all.
        until: Called with the answers so far, without gaps, in the order asked. True cancels the other questions, whose
            answers are None.
        failures: Whether failures are values, `AgentFailed`, instead of being raised.
    """
    if at_once is not None and (not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1):
        raise UsageError(f"at_once is how many questions are open at a time, a whole number from 1, not {at_once!r}")
    return _All(questions, at_once, until, failures)


def first(questions: Iterable[Awaited[T]]) -> Awaitable[T]:
    """Ask several questions at once; awaiting it gives the answer that ends first, and cancels the others.

    That is the earliest end in the journal, a failure included, which is raised: the one place where speed decides.
    """
    return _First(questions)


def note(text: str) -> None:
    """Write *text* into the journal of the run, for people."""
    if not isinstance(text, str):
        raise TypeError(f"note() takes a text, not {shorten(text)}")
    stage("note(…)").notes.append(text)


def now() -> float:
    """The time of the record that resumed the program, in Unix seconds: the same when it is resumed."""
    return stage("now()").at


def random() -> Random:
    """Random numbers, the same when the program is resumed: `random().choice(topics)`."""
    return stage("random()").random


def sleep(seconds: float) -> Nap:
    """Wait for so many seconds; a run that only sleeps, for a minute or more, is parked until then.

    Among the questions of `first`, it is a time limit.
    """
    stage("sleep(…)")
    if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
        raise UsageError(f"sleep() takes a number of seconds, not {shorten(seconds)}")
    return Nap(seconds)
