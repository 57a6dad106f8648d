"""Timers for retries and time-outs, and the time limit of turns."""

import asyncio
from collections.abc import Iterable
from functools import partial

from coterie.base.clock import LOOK, Clock
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.event_queue import Event, EventQueue
from coterie.history.journal.records import RunSuspended

NOTICED = 0.1
"""The shortest suspension that is recorded, in seconds."""


class Timers:
    """Puts events into the queue when they are due.

    Attributes:
        retries: How many retries wait.
        opening: When the quotas open that other retries wait for; the run need not stay owned for these.
        sleeps: Those of them at which a sleep ends.
    """

    def __init__(self, clock: Clock, queue: EventQueue) -> None:
        self._clock, self._queue = clock, queue
        self._recorded = clock.slept() or 0.0
        self.retries = 0
        self.opening: list[float] = []
        self.sleeps: set[float] = set()

    def at(self, live: DrivenRun, due: float, event: Event) -> None:
        """Queue *event* at *due*, by the time of the journal of *live*, which never goes back."""
        left = due - max(self._clock.now(), live.core.at)
        if left > LOOK and self._clock.slept() is not None:
            asyncio.get_running_loop().call_later(LOOK, self.at, live, due, event)
        else:
            self._queue.put_later(left, event)

    def suspended(self) -> float:
        """Seconds for which the machine was suspended and that no record has."""
        return (self._clock.slept() or 0.0) - self._recorded

    def record_suspension(self, runs: Iterable[DrivenRun]) -> None:
        """Record in *runs* that the machine was suspended, if it was."""
        if (seconds := self.suspended()) >= NOTICED:
            self._recorded += seconds
            for live in runs:
                if live.core.is_live:
                    live.core.write(self._clock.now(), RunSuspended(seconds=seconds))

    def opens(self, live: DrivenRun, due: float, event: Event) -> None:
        """Queue *event*, the retry after a quota opens at *due*; this does not keep the run from stopping."""
        self.opening.append(due)
        self.at(live, due, partial(self._opened, due, event))

    def _opened(self, due: float, event: Event) -> None:
        self.opening.remove(due)
        event()

    def retry(self, live: DrivenRun, due: float, event: Event) -> None:
        """Queue *event*, a retry, at *due*, or earlier if the time limit of an enclosing loop is reached first."""
        if (left := self.seconds_left(live)) is not None:
            due = min(due, self._clock.now() + left)
        self.retries += 1
        self.at(live, due, partial(self._rung, event))

    def _rung(self, event: Event) -> None:
        self.retries -= 1
        event()

    def seconds_left(self, live: DrivenRun) -> float | None:
        """Seconds that a turn of *live* may take from now, as limited by the enclosing loops; None: no limit."""
        if not live.limits_time:
            return None
        now, found = self._clock.now() - self.suspended(), list[float]()
        above: DrivenRun | None = live
        while above is not None:
            if (left := above.kind.project.seconds_left(now)) is not None:
                found.append(left)
            above = above.parent[0] if above.parent is not None else None
        return min(found, default=None)
