"""Plays patterns on our own engine: scripted agents in virtual time, on a journal in memory."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pattern_cases import Call, Case, Played, script_of

from coterie.agents.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Failure,
    OnEvent,
    Request,
    Result,
    Unknown,
)
from coterie.agents.backends.scripted import path_of
from coterie.base.clock import VirtualClock
from coterie.base.diagnostics import Severity
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.engines.patterns.engine import team_of
from coterie.history.engines.patterns.registry import Calls, definition
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptLaunched, Record, Usage
from coterie.patterns.builtin.pipeline import PipelineSettings
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Limits, Plan, Wanted
from coterie.team.topology.patterns.kinds import KINDS, faults, read_config

Says = Callable[[str, Request], tuple[Result, float]]
"""What the agent at a path (`sub/slot`) says to a request, and how many seconds it takes."""


def text(said: str, **outputs: Any) -> Answer:
    """An answer."""
    return Answer(text=said, outputs=outputs or None)


def failed(reason: str = "provider down") -> Failure:
    """A failure that is tried again only as often as the agent's `retry` says."""
    return Failure(kind="failed", reason=reason)


def scripted(script: Mapping[str, Sequence[str | Result]], seconds: float = 1.0) -> Says:
    """Says at the k-th attempt at a path the k-th thing of its list, the last repeating; else `<slot> <n>`."""
    counts: dict[str, int] = {}

    def says(path: str, request: Request) -> tuple[Result, float]:
        k = counts[path] = counts.get(path, 0) + 1
        entries = script.get(path) or [f"{request.agent.name} {k}"]
        said = entries[min(k, len(entries)) - 1]
        return (text(said) if isinstance(said, str) else said), seconds

    return says


class Troupe:
    """Plays every agent of a tree of runs, and remembers when it was asked what.

    Attributes:
        asked: Every request, in the order of their beginning, with its path.
        calls: The same as calls, in the order of their end; `played` has them in the order of their beginning.
    """

    def __init__(self, says: Says, clock: VirtualClock) -> None:
        self._says, self._clock = says, clock
        self.asked: list[tuple[str, Request]] = []
        self.calls: list[tuple[int, Call]] = []

    async def start(self, request: Request, on_event: OnEvent) -> "_Part":
        path = path_of(request)
        self.asked.append((path, request))
        result, seconds = self._says(path, request)
        return _Part(self, len(self.asked), path, request, result, seconds)

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """Nothing was ever launched."""

    async def close(self) -> None:
        """Nothing to close."""


class _Part:
    """One attempt: takes its time, then gives its result."""

    def __init__(self, troupe: Troupe, n: int, path: str, request: Request, result: Result, seconds: float) -> None:
        self._troupe, self._n, self._path, self._request = troupe, n, path, request
        self._result, self._seconds = result, seconds
        self._began = troupe._clock.now()
        self._cut = asyncio.Event()

    async def result(self) -> Result:
        try:
            async with asyncio.timeout(self._seconds):
                await self._cut.wait()
            return Failure(kind="interrupted", reason="cut")
        except TimeoutError:
            return self._result
        finally:
            self._note()

    def _note(self) -> None:
        chat = (*self._request.history, ("user", self._request.prompt))
        slot = self._path.replace("/", ".")
        call = Call(slot=slot, began=self._began, ended=self._troupe._clock.now(), chat=chat)
        self._troupe.calls.append((self._n, call))

    async def interrupt(self) -> None:
        self._cut.set()

    async def steer(self, text: str) -> bool:
        return False


class Performance:
    """One run of a pattern, over.

    Attributes:
        ended: How it ended.
        asked: Every request, with its path, in the order of their beginning.
        calls: The same, as calls.
    """

    def __init__(self, plan: Plan, given: Mapping[str, Any], says: Says, limits: Limits | None = None) -> None:
        self.clock, self.store = VirtualClock(), MemoryStore()
        troupe = Troupe(says, self.clock)
        limits = limits or Limits(max_parallel=None)
        shell = Shell(
            RunPorts(store=self.store, turns=troupe, clock=self.clock, make_kind=kind_of),
            OwnerOptions(limits=limits or Limits()),
        )
        self.ended: RunExit = self.clock.run(shell.start("r", plan, dict(given)))
        self.asked = troupe.asked
        self.calls = tuple(call for _, call in sorted(troupe.calls, key=lambda one: one[0]))

    @property
    def output(self) -> dict[str, Any]:
        """What the pattern gave, as its `to_dict` says."""
        [output] = self.ended.result["outputs"].values()
        return output

    @property
    def text(self) -> str:
        """The text that the pattern gave."""
        return str(self.ended.result["text"])

    def prompts(self, path: str) -> list[str]:
        """What the agent at *path* was asked, in order."""
        return [request.prompt for where, request in self.asked if where == path]

    def counts(self) -> dict[str, int]:
        """How many attempts were started at each path."""
        paths = sorted(path for path, _ in self.asked)
        return {path: len(list(found)) for path, found in itertools.groupby(paths)}

    def turns(self) -> dict[str, int]:
        """How many turns were started at each path; further attempts of one are none."""
        found = {(path, request.run, request.turn) for path, request in self.asked}
        paths = sorted(path for path, _, _ in found)
        return {path: len(list(group)) for path, group in itertools.groupby(paths)}

    def records(self, *kinds: type[Record], run: str = "r") -> list[Any]:
        """The records of *run*, those of *kinds* if some are named."""
        return [record for record in self.store.read(run) if not kinds or isinstance(record, kinds)]


class Refused(Exception):
    """A pattern that cannot be: the words of all that is wrong with it."""


def pattern(
    type: str,
    slots: Iterable[str] | Mapping[str, AgentPlan | Plan],
    *,
    capabilities: Mapping[str, Sequence[str]] | None = None,
    **config: Any,
) -> Plan:
    """The plan of a pattern, every field of its configuration filled in; a slot may be a team of its own.

    Raises:
        Refused: If its slots or its configuration are wrong.
    """
    filled = dict(slots) if isinstance(slots, Mapping) else {name: AgentPlan(name=name) for name in slots}
    kind = KINDS[type]
    wrong = [fault.message for fault in faults(kind, config, tuple(filled)) if fault.severity is Severity.ERROR]
    if wrong:
        raise Refused("; ".join(wrong))
    said, _ = read_config(kind.config, config)
    agents = {
        name: AgentPlan(name=name, kind="topology", child=one) if isinstance(one, Plan) else one
        for name, one in filled.items()
    }
    able = capabilities or {}
    return Plan(
        name=type,
        agents=_tried_again(said, agents),
        coordination=PatternPlan(
            type=type,
            config={name: getattr(said, name) for name in said.__struct_fields__},
            slots=tuple(SlotPlan(name=name, capabilities=tuple(able.get(name, ()))) for name in filled),
        ),
    )


def _tried_again(config: Any, agents: dict[str, AgentPlan]) -> dict[str, AgentPlan]:
    """A stage of a pipeline is tried as often as the pipeline says."""
    if not isinstance(config, PipelineSettings) or not config.retry_failed_stages:
        return agents
    from msgspec.structs import replace

    tries = 1 + config.max_stage_retries
    return {name: replace(agent, retry=tries - 1, attempts=tries, repairs=1) for name, agent in agents.items()}


def perform(plan: Plan, given: Mapping[str, Any], script: Mapping[str, Sequence[str | Result]]) -> Performance:
    """Run *plan* with scripted agents."""
    return Performance(plan, given, scripted(script))


def cost(plan: Plan, **numbers: Any) -> Calls:
    """How many turns each slot of *plan* has by its formula, told the *numbers* that only a run knows."""
    assert isinstance(plan.coordination, PatternPlan)
    count = definition(plan.coordination.type).calls
    assert count is not None
    return count(team_of(plan.coordination, plan.agents), **numbers)


def play_case(case: Case) -> Played:
    """Play *case* on our engine, from its configuration to its end."""
    try:
        plan = _plan_of(case, {one["name"]: one for one in case.get("sub_topologies", ())}, case["agent_defaults"])
    except Refused as refused:
        return Played(status="raised", error=str(refused))
    done = Performance(plan, case["input"], _says(script_of(case)))
    if done.ended.status != "completed":
        return Played(status="raised", error=done.ended.reason, calls=done.calls)
    return Played(status="completed", calls=done.calls, output=done.output)


def _plan_of(case: Case, stored: Mapping[str, Case], defaults: Mapping[str, Any]) -> Plan:
    slots: dict[str, AgentPlan | Plan] = {}
    capabilities = {}
    for name, agent in case["agents"].items():
        config = {**defaults, **agent.get("config", {})}
        able = config.get("capabilities", [])
        slots[name] = AgentPlan(name=name, retry=config["max_retries"], outputs=_wanted(able))
        capabilities[name] = [one["name"] for one in able]
    for name in case["config"].get("sub_topologies", ()):
        if name in stored:
            slots[name] = _plan_of(stored[name], stored, defaults)
    return pattern(case["topology"], slots, capabilities=capabilities, **case["config"])


def _wanted(capabilities: Sequence[Mapping[str, Any]]) -> tuple[Wanted, ...]:
    """The outputs that an agent with the capability `structured_output` must give."""
    schemas = [one["config"]["output_schema"] for one in capabilities if one["name"] == "structured_output"]
    return tuple(Wanted(name=name) for schema in schemas for name in schema.get("required", ()))


def _says(script: Mapping[str, Sequence[Mapping[str, Any]]]) -> Says:
    """What the replies of a case say."""
    counts: dict[str, int] = {}

    def says(path: str, request: Request) -> tuple[Result, float]:
        slot = path.replace("/", ".")
        replies = script[slot]
        k = counts[slot] = counts.get(slot, 0) + 1
        reply = replies[min(k, len(replies)) - 1]
        seconds = float(reply.get("slow", 1))
        if "error" in reply:
            return failed(reply["error"]), seconds
        said = {"_confidence": reply["confidence"]} if "confidence" in reply else {}
        usage = Usage(input_tokens=10, output_tokens=5, seconds=seconds)
        return Answer(text=reply["content"], outputs=said or None, usage=usage), seconds

    return says
