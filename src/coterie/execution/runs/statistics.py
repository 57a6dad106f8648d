"""Statistics of the runs of this machine: how they ended, what they cost, how long they took."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from statistics import median

from msgspec import Struct, structs

from coterie.base.clock import SystemClock
from coterie.errors import CoterieError
from coterie.execution.runs import index
from coterie.execution.runs.attention import open_in
from coterie.execution.runs.ended import EndedRuns, Numbers
from coterie.execution.runs.index import Entry
from coterie.execution.runs.messages import answered_turns
from coterie.execution.runs.repository import RunLocation, Runs, Where, location_at
from coterie.history.journal import records as r
from coterie.history.journal.owned import OwnedTime
from coterie.history.journal.runs import Journal
from coterie.history.views.usage import Totals, UsageView
from coterie.history.views.words import ANSWERED
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.patterns.inputs import task_of

UNREADABLE = "unreadable"


class RunStats(Struct, frozen=True, kw_only=True):
    """The numbers of one run.

    Attributes:
        state: Its state, or `unreadable`; *reason* says why it failed.
        folder: The folder with its files.
        cwd: The working directory of its agents; in a copy of their project, or a moved one, the present one.
        turns: The turns of agents, including those of child runs.
        seconds: How long it was owned.
    """

    run: str
    topology: str
    started: float
    state: str
    folder: str
    reason: str = ""
    prompt: str = ""
    cwd: str = ""
    turns: int = 0
    iterations: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class Sum(Struct, frozen=True, kw_only=True):
    """The numbers of several runs together.

    Attributes:
        median: The median duration in seconds.
    """

    runs: int
    turns: int
    iterations: int
    cost: float
    seconds: float
    median: float


class Statistics(Struct, frozen=True, kw_only=True):
    """All runs, and those of each outcome and each team."""

    total: Sum
    outcomes: Mapping[str, Sum]
    teams: Mapping[str, Sum]


def run_stats(location: RunLocation, entry: Entry) -> RunStats:
    """The numbers of the run *entry* in *location*; a run with an unreadable journal has none."""
    runs, run = location.open(entry)
    found = RunStats(
        run=entry.run, topology=entry.topology, started=entry.started, state=UNREADABLE, folder=entry.folder
    )
    usage, time, iterations, prompt, cwd = UsageView(), OwnedTime(), 0, "", ""
    children: set[str] = set()  # turns that were child runs: the turns inside them count instead
    try:
        for record in runs.read(run):
            usage.apply(record)
            time.apply(record)
            iterations += isinstance(record, r.IterationStarted)
            if isinstance(record, r.RunStarted):
                prompt, cwd = task_of((), record.input), runs.relocation((record,)).path(record.cwd)
            if isinstance(record, r.TurnFinished | r.AttemptFailed | r.TurnCancelled) and record.usage.turns:
                children.add(record.turn)
    except (OSError, CoterieError):
        return found
    total, status = usage.total, runs.store.status(run)
    return structs.replace(
        found,
        state=status.state,
        reason=status.reason or (ANSWERED if _is_answered(runs, run, status.state) else ""),
        prompt=prompt,
        cwd=cwd,
        turns=total.turns + total.nested - len(children),
        iterations=iterations,
        cost=total.cost,
        seconds=time.until(SystemClock().now()) if status.state == "running" else time.seconds,
    )


def _is_answered(runs: Runs, run: str, state: str) -> bool:
    """Whether a parked run waits for nothing but its next owner."""
    if state != f"stopped: {r.WAITING}" or not answered_turns(runs.inbox(run)):
        return False
    return not open_in(runs, run)


def newest(where: Where, limit: int, *, everywhere: bool = False) -> Iterator[RunStats]:
    """The newest *limit* runs at *where*; with *everywhere*, followed by those of other directories.

    The journals of runs beyond *limit* are not opened.
    """
    location = location_at(where)
    return map(partial(run_stats, location), islice(location.newest(everywhere=everywhere), limit))


def statistics(where: Where) -> Statistics:
    """The numbers of all runs at *where*; outcomes and teams with most runs come first."""
    location = location_at(where)
    with EndedRuns() as known:
        entries = index.oldest_first(location.newest(everywhere=True))
        every = [_numbers(location, entry, known) for entry in entries]
    return Statistics(
        total=_sum(every),
        outcomes=_by({one.run: one.state.partition(":")[0] for one in every}, every),
        teams=_by({one.run: one.topology for one in every}, every),
    )


def _numbers(location: RunLocation, entry: Entry, known: EndedRuns) -> RunStats:
    """The numbers of the run *entry*; if it has ended, its journal is read once."""
    state = known.status(entry.folder).state
    if (kept := known.numbers(entry.folder)) is None:
        found = run_stats(location, entry)
        if found.state != UNREADABLE:
            known.read(entry.folder, Numbers(found.turns, found.iterations, found.cost, found.seconds))
        return found
    return RunStats(
        run=entry.run,
        topology=entry.topology,
        started=entry.started,
        state=state,
        folder=entry.folder,
        turns=kept.turns,
        iterations=kept.iterations,
        cost=kept.cost,
        seconds=kept.seconds,
    )


def usage_by(journals: Iterable[Journal], by: str) -> dict[str, Totals]:
    """The usage of the turns in *journals* by `role` (the agent), `model`, `backend` or `run`.

    A turn that is a child run counts in that run.

    Raises:
        JournalUnreadable: If a plan cannot be read.
    """
    found: dict[str, Totals] = {}
    for journal in journals:
        view = UsageView(partial(_label, by, journal.run, journal.plan_now().agents))
        for record in journal.records:
            view.apply(record)
        for name, totals in view.agents.items():
            found.setdefault(name, Totals()).merge(totals)
    return found


def usage_of_all(where: Where, by: str) -> dict[str, Totals]:
    """The usage of all runs at *where*, by the same keys, without unreadable runs."""
    found: dict[str, Totals] = {}
    location = location_at(where)
    for runs, run in map(location.open, index.oldest_first(location.newest(everywhere=True))):
        with suppress(OSError, CoterieError):
            for name, totals in usage_by(runs.tree(run), by).items():
                found.setdefault(name, Totals()).merge(totals)
    return found


def _label(by: str, run: str, agents: Mapping[str, AgentPlan], turn: r.TurnStarted) -> str | None:
    agent = agents.get(turn.agent) or AgentPlan(name=turn.agent)
    match by:
        case _ if agent.child is not None:
            return None
        case "model":
            return agent.model or "(none)"
        case "backend":
            return agent.backend or "(none)"
        case "run":
            return run
    return turn.agent


def _by(names: Mapping[str, str], every: list[RunStats]) -> dict[str, Sum]:
    groups: dict[str, list[RunStats]] = {}
    for one in every:
        groups.setdefault(names[one.run], []).append(one)
    return {name: _sum(group) for name, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))}


def _sum(group: list[RunStats]) -> Sum:
    return Sum(
        runs=len(group),
        turns=sum(one.turns for one in group),
        iterations=sum(one.iterations for one in group),
        cost=sum(one.cost for one in group),
        seconds=sum(one.seconds for one in group),
        median=median(one.seconds for one in group) if group else 0.0,
    )
