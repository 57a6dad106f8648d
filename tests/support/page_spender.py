"""A run of many turns that cost money, made by the engine with a backend that answers at once."""

from collections.abc import Sequence
from pathlib import Path

from coterie.agents.backends.base import NO_ABILITIES, Abilities, Answer, AttemptRef, OnEvent, Request, Unknown
from coterie.base.clock import SystemClock
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.kinds import kind_of
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptLaunched, Usage
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import ArrowGroup

BIG = "many-turns"
"""The id of the run."""
TURNS = 600


class Spender:
    """Answers at once, for a tenth of a cent."""

    async def start(self, request: Request, on_event: OnEvent) -> CompletedSession:
        usage = Usage(cost=0.001, input_tokens=800, output_tokens=90, seconds=1.0)
        return CompletedSession(Answer(text="done", usage=usage))

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None: ...

    async def close(self) -> None: ...


async def spend(folder: Path, turns: int = TURNS) -> None:
    """Make the run in the state directory *folder*: two agents take turns, with a budget of a dollar."""
    names = ("writer", "reviewer")
    groups = (
        ArrowGroup(source="writer", targets=("reviewer",)),
        ArrowGroup(source="reviewer", targets=("writer",), max=turns // 2 - 1),
    )
    agents = {name: AgentPlan(name=name, backend="stub") for name in names}
    plan = Plan(name="spender", agents=agents, coordination=FlowPlan(mentions=names, groups=groups))
    ports = RunPorts(store=JsonlStore(folder), turns=Spender(), clock=SystemClock(), make_kind=kind_of)
    await Shell(ports, OwnerOptions(limits=Limits(max_cost=1.0))).start(BIG, plan, {"prompt": "go"})
