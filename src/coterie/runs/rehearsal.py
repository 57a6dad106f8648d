"""Rehearse a topology: the real engine, core and shell with scripted stand-ins, in virtual time, without a trace.

The document that comes out says of every turn when it ran, what marked it, what it answered and which arrows fired.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.backends.base import OnEvent, Request, Session
from coterie.backends.scripted import ScriptedBackend
from coterie.backends.scripts import check_agents
from coterie.clock import VirtualClock
from coterie.ids import child_run_id
from coterie.journal import records as r
from coterie.journal.memory import MemoryStore
from coterie.journal.runs import RunReader
from coterie.kernel.fold import Fold
from coterie.kernel.kind import MakeKind
from coterie.kernel.owner import OwnerOptions, RunPorts
from coterie.kernel.shell import Shell
from coterie.kernel.turns import Turns
from coterie.kinds import kind_without_imports, rehearsed_kind
from coterie.planning import as_plan
from coterie.planning.plan import AgentPlan, Limits, Plan, without_gates
from coterie.runs.outcome import EXIT_COMPLETED, EXIT_FAILED, EXIT_LIMIT, outcome_of
from coterie.topology.model import Topology

RUN = "rehearsal"
EXITS = {"completed": EXIT_COMPLETED, "failed": EXIT_FAILED, "cancelled": EXIT_FAILED}
Script = Mapping[str, Sequence[Mapping[str, Any]]]


class _Stage(Turns):
    """The script plays all agents."""

    def __init__(self, script: Script | None) -> None:
        self._backend = ScriptedBackend(script)

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        return await self._backend.start(request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        return True

    async def close(self) -> None:
        await self._backend.close()


def rehearse(
    plan: Plan | Topology,
    given: str | Mapping[str, Any],
    script: Script | None = None,
    limits: Limits | None = None,
    *,
    imports: bool = True,
) -> Any:
    """Play *plan*, or that of a topology, and return the document of what happened, as plain JSON values.

    Without a *script*, every turn takes 1 virtual second and turn n of an agent answers the n-th value of each declared
    output, the last repeating; in a loop it emits, of what it may, the event from which the end is nearest. Turns run
    in parallel without limit unless *limits* says otherwise. No gates are run.

    Args:
        given: The prompt, or named values.
        imports: Whether patterns of a user's own are imported. Without it each is replaced: it asks its slots once
            each, in order.

    Raises:
        TopologyError: If there is no coordination.
        UsageError: If the script names an unknown agent.
    """
    plan, given = without_gates(as_plan(plan)), {"prompt": given} if isinstance(given, str) else dict(given)
    check_agents(script or (), plan)
    clock = VirtualClock()
    store = MemoryStore()
    limits = limits or Limits(max_parallel=None)
    make = rehearsed_kind if imports else kind_without_imports
    shell = Shell(
        RunPorts(store=store, turns=_Stage(script), make_kind=make, clock=clock),
        OwnerOptions(limits=limits or Limits()),
    )
    ended = outcome_of(clock.run(shell.start(RUN, plan, given)))
    ending = {"run": RUN, "outcome": ended.status, "exit": ended.exit}
    return {**ending, **make(plan).run_facts(ended.reason), **_document(RunReader(store), RUN, plan, make)}


def _document(runs: RunReader, run: str, plan: Plan, make: MakeKind) -> dict[str, Any]:
    """What happened in *run*, its child runs included: the journal, read through the engine that decided it."""
    kind = make(plan)
    fold = Fold(run, kind)
    turns: dict[str, dict[str, Any]] = {}
    for record in runs.read(run):
        fold.apply(record)
        match record:
            case r.TurnStarted(turn=name, attempt=1):
                turns[name] = _started(fold, record) | kind.start_facts(name)
            case r.EventEmitted(turn=name, event=event) if name in turns:
                turns[name]["emitted"].append(event)
            case r.EventInvalid(turn=name, event=event) if name in turns:
                turns[name]["rejected"].append(event)
            case r.TurnFinished(turn=name) | r.TurnFailed(turn=name) | r.TurnCancelled(turn=name) if name in turns:
                turns[name] |= {"finished": record.at, "outputs": getattr(record, "outputs", {})}
                if isinstance(record, r.TurnFailed):
                    turns[name]["failure"] = {"kind": record.kind, "reason": record.reason}
                turns[name] |= kind.end_facts(name)
    for name, turn in turns.items():
        agent = kind.agents.get(fold.turns[name].ask.agent)
        if agent is not None and agent.child is not None:
            below = child_run_id(run, name, fold.turns[name].attempt)
            if runs.has(below):  # else it was called off before it began
                turn["child"] = {**_ending(runs, below), **_document(runs, below, agent.child, make)}
    ran = {_author(fold, name) for name in turns} | {turn["agent"] for turn in turns.values()}
    return {"turns": list(turns.values()), "never_ran": [name for name in kind.mentions() if name not in ran]}


def _started(fold: Fold, record: r.TurnStarted) -> dict[str, Any]:
    return {
        "agent": record.agent,
        "n": int(record.turn.rpartition("#")[2]),
        "started": record.at,
        "finished": None,
        "marked_by": [_author(fold, name) for name in record.inputs],
        "outputs": {},
        "fired": [],
        "exhausted": [],
        "forced": None,
    }


def _author(fold: Fold, turn: str) -> str:
    """Whose turn it was: a fallback's counts as that of the agent it stood in for."""
    ask = fold.turns[turn].ask
    return ask.instead_of or ask.agent


def _ending(runs: RunReader, run: str) -> dict[str, Any]:
    *_, last = runs.read(run)
    status = last.outcome if isinstance(last, r.RunFinished) else "stopped"
    return {"run": run, "outcome": status, "exit": EXITS.get(status, EXIT_LIMIT)}
