"""Rehearse a topology: the real engine, core and shell with scripted agents, in virtual time, without writing files.

The resulting document has, for every turn, when it ran, what marked it, its answer, and which arrows fired.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.agents.backends.base import OnEvent, Request, Session
from coterie.agents.backends.scripted import ScriptedBackend
from coterie.agents.backends.scripts import check_agents
from coterie.base.clock import VirtualClock
from coterie.base.ids import child_run_id, number_of
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import MakeKind
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import Turns
from coterie.execution.kinds import check_read, kind_without_imports, rehearsed_kind
from coterie.execution.runs.outcome import EXIT_COMPLETED, EXIT_FAILED, EXIT_LIMIT, outcome_of
from coterie.history.journal import records as r
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.runs import RunReader
from coterie.team.planning import as_plan
from coterie.team.planning.plan import AgentPlan, Limits, Plan, without_gates
from coterie.team.topology.model import Topology

RUN = "rehearsal"
EXITS = {"completed": EXIT_COMPLETED, "failed": EXIT_FAILED, "cancelled": EXIT_FAILED}
Script = Mapping[str, Sequence[Mapping[str, Any]]]


class _Stage(Turns):
    """Turns in which the script plays all agents."""

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
    """Play *plan*, or that of a topology, and return a document of the events, as plain JSON values.

    Without a *script*, every turn takes 1 virtual second, and turn n of an agent answers the n-th value of each
    declared output, repeating the last; in a loop it emits the allowed event from which the end is nearest. Turns run
    in parallel without limit unless *limits* says otherwise. No gates are run.

    Args:
        given: The prompt, or named values.
        imports: Whether user-defined patterns are imported; otherwise each is replaced by one that asks its slots once
            each, in order.

    Raises:
        TopologyError: If there is no coordination.
        UsageError: If the script names an unknown agent, or nothing reads a value.
    """
    plan, given = without_gates(as_plan(plan)), {"prompt": given} if isinstance(given, str) else dict(given)
    check_agents(script or (), plan)
    check_read(plan, given)
    clock = VirtualClock()
    store = MemoryStore()
    limits = limits or Limits(max_parallel=None)
    make = rehearsed_kind if imports else kind_without_imports
    shell = Shell(
        RunPorts(store=store, turns=_Stage(script), make_kind=make, clock=clock),
        OwnerOptions(limits=limits or Limits()),
    )
    ended = outcome_of(clock.run(shell.start(RUN, plan, given)))
    status = EXIT_COMPLETED if ended.status == "completed" else ended.exit  # stand-ins give only declared outputs
    ending = {"run": RUN, "outcome": ended.status, "exit": status}
    return {**ending, **make(plan).project.run_facts(ended.reason), **_document(RunReader(store), RUN, plan, make)}


def _document(runs: RunReader, run: str, plan: Plan, make: MakeKind) -> dict[str, Any]:
    """The document about *run* and its child runs: the journals, read with their engines."""
    kind = make(plan)
    fold = Fold(run, kind)
    turns: dict[str, dict[str, Any]] = {}
    sets: dict[str, dict[str, Any]] = {}
    for record in runs.read(run):
        fold.apply(record)
        match record:
            case r.TurnStarted(turn=name, attempt=1):
                turns[name] = _started(fold, name, record.agent, record) | kind.project.start_facts(name)
                if record.item is not None:
                    turns[name]["item"] = list(record.item)
            case r.SetStarted(set=name):
                sets[name] = _started(fold, name, record.node, record) | {"items": record.items}
            case r.SetEnded(set=name):
                outputs = fold.latest[sets[name]["agent"]].outputs
                sets[name] |= {"finished": record.at, "outputs": outputs} | kind.end_facts(name)
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
            if runs.has(below):  # else it was cancelled before it began
                turn["child"] = {**_ending(runs, below), **_document(runs, below, agent.child, make)}
    ran = {fold.work(name).ask.role for name in turns} | {turn["agent"] for turn in turns.values()}
    ran |= {one["agent"] for one in sets.values()}
    document = {"turns": list(turns.values()), "never_ran": [name for name in kind.mentions() if name not in ran]}
    return document | ({"sets": list(sets.values())} if sets else {})


def _started(fold: Fold, name: str, agent: str, record: r.TurnStarted | r.SetStarted) -> dict[str, Any]:
    return {
        "agent": agent,
        "n": number_of(name),
        "started": record.at,
        "finished": None,
        "marked_by": [fold.work(name).ask.role for name in record.inputs],
        "outputs": {},
        "fired": [],
        "exhausted": [],
        "forced": None,
    }


def _ending(runs: RunReader, run: str) -> dict[str, Any]:
    *_, last = runs.read(run)
    status = last.outcome if isinstance(last, r.RunFinished) else "stopped"
    return {"run": run, "outcome": status, "exit": EXITS.get(status, EXIT_LIMIT)}
