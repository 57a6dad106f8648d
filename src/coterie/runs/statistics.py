"""Statistics of the runs of this machine: how they ended, what they cost, how long they took."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from statistics import median

from msgspec import Struct

from coterie.clock import SystemClock
from coterie.errors import CoterieError
from coterie.journal.owned import OwnedTime
from coterie.journal.records import AttemptFailed, IterationStarted, RunStarted, TurnCancelled, TurnFinished
from coterie.runs import index
from coterie.runs.index import Entry
from coterie.runs.repository import run_in
from coterie.views.usage import UsageView

UNREADABLE = "unreadable"


class RunStats(Struct, frozen=True, kw_only=True):
    """One run in a list of runs.

    Attributes:
        state: Its state, or `unreadable`; *reason* says why it failed.
        folder: The folder with its files.
        cwd: The directory that its agents work in.
        turns: Turns of agents, those of child runs included.
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
    """Several runs in numbers.

    Attributes:
        median: Seconds that half of them took at most.
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


def run_stats(entry: Entry) -> RunStats:
    """The run of *entry* in numbers; one whose journal cannot be read has none."""
    runs, run = run_in(Path(entry.folder))
    usage, time, iterations, prompt, cwd = UsageView(), OwnedTime(), 0, "", ""
    children: set[str] = set()  # turns that were child runs: what ran in those counts instead
    try:
        for record in runs.read(run):
            usage.apply(record)
            time.apply(record)
            iterations += isinstance(record, IterationStarted)
            if isinstance(record, RunStarted):
                prompt, cwd = str(record.input.get("prompt", "")), record.cwd
            if isinstance(record, TurnFinished | AttemptFailed | TurnCancelled) and record.usage.turns:
                children.add(record.turn)
    except (OSError, CoterieError):
        return RunStats(
            run=entry.run, topology=entry.topology, started=entry.started, state=UNREADABLE, folder=entry.folder
        )
    total, status = usage.total, runs.store.status(run)
    return RunStats(
        run=entry.run,
        topology=entry.topology,
        started=entry.started,
        state=status.state,
        folder=entry.folder,
        reason=status.reason,
        prompt=prompt,
        cwd=cwd,
        turns=total.turns + total.nested - len(children),
        iterations=iterations,
        cost=total.cost,
        seconds=time.until(SystemClock().now()) if status.state == "running" else time.seconds,
    )


def newest(state_dir: Path, limit: int, *, everywhere: bool = False) -> Iterator[RunStats]:
    """The newest *limit* runs of the directory of *state_dir*; *everywhere*: then those of others.

    The journals of runs beyond *limit* are not opened.
    """
    return map(run_stats, islice(index.newest(state_dir, everywhere=everywhere), limit))


def statistics(entries: Iterable[Entry]) -> Statistics:
    """The runs of *entries* in numbers; outcomes and teams that have most runs come first."""
    every = [run_stats(entry) for entry in entries]
    return Statistics(
        total=_sum(every),
        outcomes=_by({one.run: one.state.partition(":")[0] for one in every}, every),
        teams=_by({one.run: one.topology for one in every}, every),
    )


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
