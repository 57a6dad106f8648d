"""Run many crash schedules of one team in several processes, and combine their statistics.

The results depend on the seeds alone, not on the number or speed of the processes. The first broken promise, in the
order of the seeds, ends the series.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from msgspec import Struct

from coterie.team.planning import as_plan
from coterie.team.planning.plan import Plan, from_json, to_json
from coterie.team.topology.model import Topology
from coterie.testing.simulation import Load, Survived, simulate
from coterie.testing.world import SimulationFailed

CHUNK = 25
"""Schedules per task of a process."""


_COUNTS = ("crashes", "in_a_row", "interruptions", "starts", "receipts")
"""The counts of a schedule that a series adds up."""


class Broken(Struct, frozen=True, kw_only=True):
    """A broken promise.

    Attributes:
        what: The promise and its violation.
        journals: Every record of the schedule as JSON, each with its run: one per line.
    """

    seed: int
    what: str
    journals: tuple[str, ...]


class Series(Struct, kw_only=True):
    """The statistics of the schedules that kept every promise.

    Attributes:
        schedules: The number of schedules that ran to their end and kept every promise.
        crashed: The number of schedules in which the owner was killed at least once.
        crashes: How often it was killed.
        in_a_row: How many of these crashes killed an owner that had taken over from a killed one.
        interruptions: How often an owner was interrupted.
        outcomes: The number of schedules per outcome.
        starts: The number of started attempts; the intent of each was durable before its start.
        receipts: The number of turns with a durable result; none of them was started again.
        turns: The most turns in one run, and *turns_seed* the first schedule that had them.
        seconds: The longest virtual time of one run, and *seconds_seed* the first schedule that took it.
        agents: The largest load of each agent that the flow can reach, each number from its worst schedule; the agents
            of a child run are called `node/agent`.
        broken: The first broken promise, if any.
    """

    schedules: int = 0
    crashed: int = 0
    crashes: int = 0
    in_a_row: int = 0
    interruptions: int = 0
    outcomes: dict[str, int] = {}
    starts: int = 0
    receipts: int = 0
    turns: int = 0
    turns_seed: int | None = None
    seconds: float = 0.0
    seconds_seed: int | None = None
    agents: dict[str, Load] = {}
    broken: Broken | None = None

    def take(self, seed: int, survived: Survived) -> None:
        """Count the schedule of *seed*."""
        self._add(
            Series(
                schedules=1,
                crashed=int(survived.crashes > 0),
                outcomes={survived.outcome: 1},
                turns=survived.turns,
                turns_seed=seed,
                seconds=survived.seconds,
                seconds_seed=seed,
                agents=dict(survived.agents),
                **{name: getattr(survived, name) for name in _COUNTS},
            )
        )

    def _add(self, later: "Series") -> None:
        """Count the schedules of *later*, whose seeds come after those counted so far."""
        for name in ("schedules", "crashed", *_COUNTS):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for outcome, n in later.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + n
        if self.turns_seed is None or later.turns > self.turns:
            self.turns, self.turns_seed = later.turns, later.turns_seed
        if self.seconds_seed is None or later.seconds > self.seconds:
            self.seconds, self.seconds_seed = later.seconds, later.seconds_seed
        for agent, load in later.agents.items():
            self.agents[agent] = self.agents.get(agent, Load()).larger(load)
        self.broken = self.broken or later.broken


def simulate_many(
    plan: Plan | Topology,
    schedules: int,
    *,
    first: int = 0,
    jobs: int | None = None,
    chaos: float = 1.0,
    told: Callable[[Series], object] = lambda so_far: None,
) -> Series:
    """Run the crash schedules of the seeds from *first* on, and return their statistics.

    Args:
        schedules: The number of schedules.
        jobs: The number of processes; by default that of the processors available to this one.
        chaos: The frequency of failures and crashes: 1 is normal and 0 is never.
        told: Called from time to time with the statistics so far, an object that changes later. An exception ends the
            series.
    """
    plan = as_plan(plan)
    so_far = Series(agents={agent: Load() for agent in _asked(plan, "")})
    for part in _parts(plan, first, schedules, jobs or processors(), chaos):
        so_far._add(part)
        told(so_far)
        if so_far.broken is not None:
            break
    return so_far


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _asked(plan: Plan, path: str) -> Iterator[str]:
    """The agents that the flow of *plan* can reach, and those of the plans inside it."""
    for name in plan.flow.mentions if plan.flow is not None else ():
        child = plan.agents[name].child if name in plan.agents else None
        if child is None:
            yield path + name
        else:
            yield from _asked(child, f"{path}{name}/")


def _parts(plan: Plan, first: int, schedules: int, jobs: int, chaos: float) -> Iterator[Series]:
    """The series in parts, in the order of their seeds."""
    ranges = [(seed, min(CHUNK, first + schedules - seed)) for seed in range(first, first + schedules, CHUNK)]
    if jobs == 1 or len(ranges) < 2:
        yield from (_part(plan, seed, n, chaos) for seed, n in ranges)
        return
    pool = ProcessPoolExecutor(min(jobs, len(ranges)), get_context("spawn"), _prepare, (to_json(plan), chaos))
    try:
        ahead: deque[Future[Series]] = deque()
        waiting = iter(ranges)
        while True:
            while len(ahead) < 2 * jobs and (one := next(waiting, None)) is not None:
                with _deaf():  # it may start a process
                    ahead.append(pool.submit(_part_here, *one))
            if not ahead:
                return
            yield ahead.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Make processes that are started in this block ignore Ctrl-C, which is for the process that waits for them.

    They inherit the signal mask. In this process the signal is only delayed until the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _part(plan: Plan, first: int, schedules: int, chaos: float) -> Series:
    """The series of a few seeds, up to the first broken promise."""
    found = Series()
    for seed in range(first, first + schedules):
        try:
            survived = simulate(plan, seed, chaos=chaos)
        except SimulationFailed as failed:
            found.broken = Broken(seed=seed, what=failed.what, journals=tuple(failed.lines))
            break
        found.take(seed, survived)
    return found


# -- in a process of the pool -----------------------------------------------------------------------------------------

_given: tuple[Plan, float]


def _prepare(plan: bytes, chaos: float) -> None:
    """Initialise this process."""
    global _given
    _given = from_json(plan), chaos


def _part_here(first: int, schedules: int) -> Series:
    plan, chaos = _given
    return _part(plan, first, schedules, chaos)
