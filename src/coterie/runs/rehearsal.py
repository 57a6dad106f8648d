"""Rehearse a topology: the real engine, core and shell with scripted stand-ins, in virtual time, without a trace.

The document that comes out says of every turn when it ran, what marked it, what it answered and which arrows fired.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.backends.base import AttemptRef, OnEvent, Request, Session, Unknown
from coterie.backends.scripted import ScriptedBackend
from coterie.clock import VirtualClock
from coterie.ids import child_run_id
from coterie.journal.memory import MemoryStore
from coterie.journal.records import (
    AttemptLaunched,
    EventEmitted,
    EventInvalid,
    RunFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.journal.runs import RunReader
from coterie.planning.plan import AgentPlan, Limits, Plan
from coterie.runs.driver.driven_run import MakeKind
from coterie.runs.driver.fold import Fold
from coterie.runs.driver.shell import Shell
from coterie.runs.kinds import kind_of, kind_without_imports
from coterie.runs.outcome import EXIT_COMPLETED, EXIT_FAILED, EXIT_LIMIT, outcome_of

RUN = "rehearsal"
EXITS = {"completed": EXIT_COMPLETED, "failed": EXIT_FAILED, "cancelled": EXIT_FAILED}
Script = Mapping[str, Sequence[Mapping[str, Any]]]


class _Stage:
    """The script plays all agents."""

    def __init__(self, script: Script | None) -> None:
        self._backend = ScriptedBackend(script)

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        return await self._backend.start(request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        return True

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """Nothing was ever launched."""

    async def close(self) -> None:
        await self._backend.close()


def rehearse(
    plan: Plan,
    given: dict[str, Any],
    script: Script | None = None,
    limits: Limits | None = None,
    *,
    imports: bool = True,
) -> Any:
    """Play *plan*, asked *given*, and return the document of what happened, as plain JSON values.

    Without a *script*, every turn takes 1 virtual second and turn n of an agent answers the n-th value of each declared
    output, the last repeating; in a loop it emits, of what it may, the event from which the end is nearest. Turns run
    in parallel without limit unless *limits* says otherwise.

    Args:
        imports: Whether patterns of a user's own are imported. Without it each is replaced: it asks its slots once
            each, in order.

    Raises:
        TopologyError: If there is no coordination.
    """
    clock = VirtualClock()
    store = MemoryStore()
    limits = limits or Limits(max_parallel=None)
    make = kind_of if imports else kind_without_imports
    shell = Shell(store=store, turns=_Stage(script), make_kind=make, clock=clock, limits=limits)
    ended = outcome_of(clock.run(shell.start(RUN, plan, given)), limits)
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
            case TurnStarted(turn=name, attempt=1):
                turns[name] = _started(fold, record) | kind.start_facts(name)
            case EventEmitted(turn=name, event=event) if name in turns:
                turns[name]["emitted"].append(event)
            case EventInvalid(turn=name, event=event) if name in turns:
                turns[name]["rejected"].append(event)
            case TurnFinished(turn=name) | TurnFailed(turn=name) | TurnCancelled(turn=name) if name in turns:
                turns[name] |= {"finished": record.at, "outputs": getattr(record, "outputs", {})}
                if isinstance(record, TurnFailed):
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


def _started(fold: Fold, record: TurnStarted) -> dict[str, Any]:
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
    status = last.outcome if isinstance(last, RunFinished) else "stopped"
    return {"run": run, "outcome": status, "exit": EXITS.get(status, EXIT_LIMIT)}
