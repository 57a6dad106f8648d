"""A stage for runs: agents that do as told, in virtual time, on a journal in memory."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from coterie.agents.backends.base import (
    Abilities,
    Answer,
    AttemptRef,
    Event,
    Failure,
    OnEvent,
    Request,
    Result,
    Unknown,
    Used,
)
from coterie.base.clock import VirtualClock
from coterie.execution.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import NO_USAGE, AttemptLaunched, Record
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import ArrowGroup


class Streamed(Struct, frozen=True):
    """What an attempt does while it runs, each event after so many seconds, and its result behind the last."""

    events: Sequence[tuple[float, Event]]
    result: Result


Behaviour = Result | Streamed | Callable[[Request], Result | Streamed]


class Cast:
    """Plays every agent: the k-th attempt of an agent does the k-th thing of its list, the last repeats.

    Attributes:
        asked: Every request, in order.
        running: How many attempts run now, and *most* how many ran at once.
    """

    def __init__(
        self, parts: Mapping[str, Sequence[Behaviour]], seconds: float = 1.0, *, resumes: bool = False
    ) -> None:
        self._parts, self._seconds, self._resumes = parts, seconds, resumes
        self.asked: list[Request] = []
        self.reaped: list[str] = []
        self.running = self.most = 0

    async def start(self, request: Request, on_event: OnEvent) -> "Part":
        self.asked.append(request)
        k = sum(one.agent.name == request.agent.name for one in self.asked)
        todo = self._parts.get(request.agent.name, [Answer(text=f"{request.turn} done")])
        behaviour = todo[min(k, len(todo)) - 1]
        done = behaviour if isinstance(behaviour, Answer | Failure | Streamed) else behaviour(request)
        return Part(self, done, self._seconds, on_event)

    def activity(self, launched: Sequence[AttemptLaunched]) -> tuple[float, frozenset[int]] | None:
        return None

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return Abilities(resume=self._resumes, cost=True)

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        self.reaped.append(run)

    async def close(self) -> None:
        """Nothing to close."""


class Part:
    """One attempt: takes its time, then gives its result."""

    def __init__(
        self, cast: Cast, done: Result | Streamed, seconds: float, on_event: OnEvent = lambda event: None
    ) -> None:
        self._cast, self._seconds, self._on_event = cast, seconds, on_event
        self._events, self._result = (done.events, done.result) if isinstance(done, Streamed) else ((), done)
        self._used = NO_USAGE
        self._cut = asyncio.Event()

    async def result(self) -> Result:
        self._cast.running += 1
        self._cast.most = max(self._cast.most, self._cast.running)
        try:
            for seconds, event in self._events:
                if await self._is_cut(seconds):
                    return Failure(kind="interrupted", reason="cut", usage=self._used)
                if isinstance(event, Used):
                    self._used = event.usage
                self._on_event(event)
            if await self._is_cut(self._seconds):
                return Failure(kind="interrupted", reason="cut", usage=self._used)
            return self._result
        finally:
            self._cast.running -= 1

    async def _is_cut(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._cut.wait()
        return self._cut.is_set()

    async def interrupt(self) -> None:
        self._cut.set()

    async def steer(self, text: str) -> bool:
        return False


_OF_OWNERS = [{*one.__struct_fields__} for one in (OwnerOptions, Observers)]


class Stage:
    """A store, a clock and a cast that outlive owners, so that a run can be resumed.

    stage = Stage(flow("a -> b"), Cast({"a": [Failure(kind="exit", reason="no")]}))
    ended = stage.start()
    ended = stage.resume(Limits(max_turns=5))
    """

    def __init__(self, plan: Plan, cast: Cast | None = None, **options: Any) -> None:
        self.plan, self.cast, self.options = plan, cast or Cast({}), options
        self.store, self.clock = MemoryStore(), VirtualClock()
        self.shell: Shell

    def start(self, limits: Limits | None = None, **given: Any) -> RunExit:
        self.shell = self._shell(limits)
        return self.clock.run(self.shell.start("r", self.plan, {"prompt": "go", **given}))

    def resume(self, limits: Limits | None = None) -> RunExit:
        self.shell = self._shell(limits)
        return self.clock.run(self.shell.resume("r", self.plan))

    def records(self, *kinds: type[Record], run: str = "r") -> list[Any]:
        return [record for record in self.store.read(run) if not kinds or isinstance(record, kinds)]

    def _shell(self, limits: Limits | None) -> Shell:
        given = {"make_kind": kind_of, "limits": limits or Limits()} | self.options
        own: list[Any] = [{name: given.pop(name) for name in list(given) if name in names} for names in _OF_OWNERS]
        ports = RunPorts(store=self.store, turns=self.cast, clock=self.clock, **given)
        return Shell(ports, OwnerOptions(**own[0]), Observers(**own[1]))


def flow(*statements: str, **agents: AgentPlan) -> Plan:
    """A flow from statements like `a -> b` and `a -> [b, c]`, without attributes; *agents* replaces some."""
    groups = []
    for statement in statements:
        nodes = [node.strip() for node in statement.split("->")]
        for left, right in itertools.pairwise(nodes):
            for source in left.strip("[]").split(","):
                targets = tuple(name.strip() for name in right.strip("[]").split(","))
                groups.append(ArrowGroup(source=source.strip(), targets=targets))
    mentions = tuple(dict.fromkeys(name for group in groups for name in (group.source, *group.targets)))
    made = {name: AgentPlan(name=name) for name in mentions} | agents
    return Plan(name="test", agents=made, coordination=FlowPlan(mentions=mentions, groups=tuple(groups)))
