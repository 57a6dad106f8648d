"""Loops whose roles are answered by teams, and agents that act by who and where they are."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.agents.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Emitted,
    Failure,
    OnEvent,
    Request,
    Result,
    Unknown,
)
from coterie.history.journal.records import AttemptLaunched, Usage
from coterie.team.formats import read_text
from coterie.team.planning import plan_or_raise
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.conditions import Condition, comparison

JURY = """
pattern: {type: crosscheck, name: jury, slots: {primary: a, checker_0: a, checker_1: a}}
agents: {a: {type: scripted, max_retries: 0}}
"""
COUNCIL = """
pattern:
  {type: debate, name: council, config: {max_rounds: 1, consensus_method: first_agree},
   slots: {proponent: a, opponent: a, mediator: a}}
agents: {a: {type: scripted, max_retries: 0}}
"""
HANDOFF = (
    ("loop.start", ("writer",)),
    ("draft.ready", ("jury",)),
    ("draft.rejected", ("writer",)),
    ("draft.passed", ("council",)),
)


def pattern(text: str) -> Plan:
    """The plan of a pattern file."""
    source = read_text(text, "team.pattern.yaml")
    assert source.topology is not None, source.diagnostics
    return plan_or_raise(source.topology)


def events(role: str, **when: str) -> tuple[tuple[str, Condition | None], ...]:
    """What *role* emits when; `__` stands for a dot."""
    return tuple((event.replace("__", "."), comparison(role, text)) for event, text in when.items())


def jury_plan(timeout: float | None = None, **fields: Any) -> Plan:
    """A writer, a cross-check that judges the draft, and a debate that lets it go."""
    roles = (
        RolePlan(id="writer", emits=("draft.ready",), prompt="Write."),
        RolePlan(
            id="jury",
            emits=("draft.passed", "draft.rejected"),
            prompt="Judge.",
            events=events("jury", draft__passed="final_approved == true", draft__rejected="final_approved == false"),
        ),
        RolePlan(
            id="council",
            emits=("task.complete",),
            events=events("council", task__complete="rounds >= 1"),
            prompt="Argue.",
        ),
    )
    loop = LoopPlan(**{"roles": roles, "handoff": HANDOFF, "max_iterations": 9} | fields)
    teams = {"jury": pattern(JURY), "council": pattern(COUNCIL)}
    agents = {"writer": AgentPlan(name="writer"), "@review": AgentPlan(name="@review")}
    agents |= {name: AgentPlan(name=name, kind="topology", child=team, timeout=timeout) for name, team in teams.items()}
    return Plan(name="court", agents=agents, coordination=loop)


class Court:
    """Everybody answers by who and where they are, and costs a cent.

    Attributes:
        rejects: The iterations in which the checkers reject.
        acts: What single agents do instead, by path: `jury/primary`.
        asked: Every request, in order.
    """

    def __init__(
        self, rejects: Sequence[int] = (2,), acts: Mapping[str, Result | Callable[[Request], Result]] | None = None
    ) -> None:
        self.rejects, self.acts = rejects, acts or {}
        self.asked: list[Request] = []

    async def start(self, request: Request, on_event: OnEvent) -> "_Part":
        self.asked.append(request)
        path = "/".join((*request.nodes, request.agent.name))
        act = self.acts.get(path) or self._usual(request)
        if request.agent.name == "writer" and path not in self.acts:
            on_event(Emitted(event="draft.ready", payload="- a draft"))
        return _Part(act if isinstance(act, Answer | Failure) else act(request))

    def _usual(self, request: Request) -> Result:
        text = f"{request.agent.name} in {request.run.rpartition('/')[2]}"
        if request.agent.name.startswith("checker"):
            iteration = int(request.run.rpartition("#")[2].partition(".")[0])
            text = json.dumps({"approved": iteration not in self.rejects})
        return Answer(text=text, usage=Usage(cost=0.01))

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
    """One attempt, of a second."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._cut = asyncio.Event()

    async def result(self) -> Result:
        try:
            async with asyncio.timeout(1.0):
                await self._cut.wait()
            return Failure(kind="interrupted", reason="cut")
        except TimeoutError:
            return self._result

    async def interrupt(self) -> None:
        self._cut.set()

    async def steer(self, text: str) -> bool:
        return False
