"""Runs whose agents report what they cost, and whose owners are killed after any record."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from stage import Cast, Stage, Streamed

from coterie.agents.backends.base import Answer, AttemptRef, Emitted, Event, Request, Used
from coterie.execution.kernel.attempt_files import AttemptFiles, AttemptPlace
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.turns import TurnEvent
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal.memory import MemoryStore, MemoryWriter
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    Record,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.team.planning.plan import Limits, Plan

Attempt = tuple[str, str, int]
"""Its run, its turn, its number."""


class OrderedStore(MemoryStore):
    """A store that keeps the order of the records of all runs."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, Record]] = []

    def claim(self, run: str) -> MemoryWriter:
        writer = super().claim(run)
        append = writer.append

        def appended(records: Sequence[Record]) -> int:
            self.log += [(run, record) for record in records]
            return append(records)

        writer.append = appended  # type: ignore[method-assign]
        return writer


class ReportedUsage(AttemptFiles):
    """What attempts have reported, each time with the length of the log."""

    def __init__(self, store: OrderedStore) -> None:
        self.store = store
        self.reports: list[tuple[int, Attempt, Usage]] = []
        self.attempts: dict[Path, Attempt] = {}

    def place(self, ref: AttemptRef, transcript: Callable[[str, str], str]) -> AttemptPlace:
        self.attempts[folder := Path(ref.marker)] = (ref.run, ref.turn, ref.attempt)
        return AttemptPlace(folder=folder)

    def stream(self, folder: Path, event: TurnEvent) -> None:
        if isinstance(event, Used):
            self.reports.append((len(self.store.log), self.attempts[folder], event.usage))

    def used(self, ref: AttemptRef) -> list[Usage]:
        return [one for _, key, one in self.reports if key == (ref.run, ref.turn, ref.attempt)]


class Costs:
    """What the attempts of an agent do: report dollars after seconds each, and *last* dollars more with the answer."""

    def __init__(self, steps: Sequence[tuple[float, float]], last: float = 0.0) -> None:
        self.steps, self.last = steps, last
        self.most = max([last, *(dollars for _, dollars in steps)])

    def acts(self, *before: Event) -> Streamed:
        events: list[tuple[float, Event]] = [(0.0, event) for event in before]
        total = 0.0
        for seconds, dollars in self.steps:
            total += dollars
            events.append((seconds, Used(usage=Usage(cost=total))))
        return Streamed(events, Answer(usage=Usage(cost=total + self.last)))


class Spending:
    """A run of *plan* whose agents cost what *costs* says, and nothing if it does not name them.

    Args:
        emits: What a turn of the root run emits, by turn.
        interrupted: The seconds after which an operator interrupts all that runs.
        stopped: The seconds after which Ctrl-C stops the run, which is resumed; 0: never.
    """

    def __init__(
        self,
        plan: Plan,
        costs: Mapping[str, Costs],
        emits: Mapping[str, Emitted] | None = None,
        interrupted: Sequence[float] = (),
        stopped: float = 0.0,
    ) -> None:
        self.plan, self.costs, self.emits = plan, costs, emits or {}
        self.interrupted, self.stopped = interrupted, stopped
        self.store = OrderedStore()
        self.files = ReportedUsage(self.store)
        self.stage = Stage(plan, Cast({name: [self._acts] for name in costs}, seconds=0.5), files=self.files)
        self.stage.store = self.store

    def _acts(self, request: Request) -> Streamed:
        emit = self.emits.get(request.turn) if "/" not in request.run else None
        return self.costs[request.agent.name].acts(*([emit] if emit is not None else []))

    def run(self, limits: Limits) -> RunExit:
        """Start the run, or resume it if there is a journal of it."""
        is_new = not self.store.has("r")

        async def owner() -> RunExit:
            loop, shell = asyncio.get_running_loop(), self.stage._shell(limits)
            given = {"prompt": "go"}
            driven = shell.start("r", self.plan, given) if is_new else shell.resume("r", self.plan)
            task = loop.create_task(driven)
            for n, seconds in enumerate(self.interrupted):
                said = RunMessage(id=f"{len(self.store.log)}-{n}", kind="interrupt")
                interrupt = partial(take, shell, said, self.stage.clock.now(), Sender("operator"))
                loop.call_later(seconds, shell.post, interrupt)
            if is_new and self.stopped:
                loop.call_later(self.stopped, task.cancel)
            return await task

        try:
            return self.stage.clock.run(owner())
        except asyncio.CancelledError:
            return self.run(limits)

    def killed_after(self, length: int) -> "Spending":
        """The same, as if the owner had been killed after the first *length* records of all runs."""
        left, log = Spending(self.plan, self.costs, self.emits, self.interrupted), self.store.log[:length]

        async def write() -> None:
            root = left.store.claim("r")
            for run in dict.fromkeys(run for run, _ in log):
                writer = root if run == "r" else left.store.claim(run)
                writer.append([record for one, record in log if one == run])
            await root.close()

        left.stage.clock.run(write())
        left.store.log[:] = log
        left.files.reports = [one for one in self.files.reports if one[0] <= length]
        return left

    # -- what it has cost ---------------------------------------------------------------------------------------------

    def spent(self) -> float:
        """What all attempts have cost, as far as they reported it, whatever the journals say."""
        return sum(self._cost(one) for one in self._started())

    def passed(self) -> float:
        """The most by which attempts that ran at once may have passed the budget: the largest report of each."""
        over = {one: self._most(begun.agent) for one, begun in self._started().items() if self._passed(one)}
        running, most = dict[tuple[str, str], float](), 0.0
        for run, record in self.store.log:
            if isinstance(record, TurnStarted):
                running[run, record.turn] = over.get((run, record.turn, record.attempt), 0.0)
            elif isinstance(record, TurnFinished | AttemptFailed | AttemptInterrupted | TurnCancelled):
                running.pop((run, record.turn), None)
            most = max(most, sum(running.values()))
        return most

    def _most(self, agent: str) -> float:
        return self.costs[agent].most if agent in self.costs else 0.0

    def _passed(self, one: Attempt) -> bool:
        return self._cost(one) > self._started()[one].reserved

    def _started(self) -> dict[Attempt, TurnStarted]:
        """The attempts that were started, without child runs."""
        children = {run.rpartition(".")[0] for run, _ in self.store.log}
        return {
            (run, one.turn, one.attempt): one
            for run, one in self.store.log
            if isinstance(one, TurnStarted) and f"{run}/{one.turn}" not in children
        }

    def _cost(self, attempt: Attempt) -> float:
        for run, one in self.store.log:
            if isinstance(one, TurnFinished) and (run, one.turn, one.attempt) == attempt:
                return one.usage.cost
        run, turn, n = attempt
        return max((one.cost for one in self.files.used(AttemptRef(run=run, turn=turn, attempt=n))), default=0.0)
