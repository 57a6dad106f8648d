"""A stage for runs: agents that do as told, in virtual time, on a journal in memory."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.backends.base import Answer, AttemptRef, Failure, OnEvent, Request, Result, Unknown
from coterie.clock import VirtualClock
from coterie.journal.memory import MemoryStore
from coterie.journal.records import AttemptLaunched, Record
from coterie.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.runs.driver.ended import Ended
from coterie.runs.driver.shell import Shell
from coterie.runs.kinds import kind_of
from coterie.topology.model import ArrowGroup

Behaviour = Result | Callable[[Request], Result]


class Cast:
    """Plays every agent: the k-th attempt of an agent does the k-th thing of its list, the last repeats.

    Attributes:
        asked: Every request, in order.
        running: How many attempts run now, and *most* how many ran at once.
    """

    def __init__(self, parts: Mapping[str, Sequence[Behaviour]], seconds: float = 1.0) -> None:
        self._parts, self._seconds = parts, seconds
        self.asked: list[Request] = []
        self.reaped: list[str] = []
        self.running = self.most = 0

    async def start(self, request: Request, on_event: OnEvent) -> "Part":
        self.asked.append(request)
        k = sum(one.agent.name == request.agent.name for one in self.asked)
        todo = self._parts.get(request.agent.name, [Answer(text=f"{request.turn} done")])
        behaviour = todo[min(k, len(todo)) - 1]
        return Part(self, behaviour if isinstance(behaviour, Answer | Failure) else behaviour(request), self._seconds)

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        self.reaped.append(run)

    async def close(self) -> None:
        """Nothing to close."""


class Part:
    """One attempt: takes its time, then gives its result."""

    def __init__(self, cast: Cast, result: Result, seconds: float) -> None:
        self._cast, self._result, self._seconds = cast, result, seconds
        self._cut = asyncio.Event()

    async def result(self) -> Result:
        self._cast.running += 1
        self._cast.most = max(self._cast.most, self._cast.running)
        try:
            async with asyncio.timeout(self._seconds):
                await self._cut.wait()
            return Failure(kind="interrupted", reason="cut")
        except TimeoutError:
            return self._result
        finally:
            self._cast.running -= 1

    async def interrupt(self) -> None:
        self._cut.set()

    async def steer(self, text: str) -> bool:
        return False


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

    def start(self, limits: Limits | None = None, **given: Any) -> Ended:
        self.shell = self._shell(limits)
        return self.clock.run(self.shell.start("r", self.plan, {"prompt": "go", **given}))

    def resume(self, limits: Limits | None = None) -> Ended:
        self.shell = self._shell(limits)
        return self.clock.run(self.shell.resume("r", self.plan))

    def records(self, *kinds: type[Record], run: str = "r") -> list[Any]:
        return [record for record in self.store.read(run) if not kinds or isinstance(record, kinds)]

    def _shell(self, limits: Limits | None) -> Shell:
        return Shell(
            store=self.store,
            turns=self.cast,
            make_kind=self.options.get("make_kind", kind_of),
            clock=self.clock,
            limits=limits,
            park=self.options.get("park", False),
        )


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
