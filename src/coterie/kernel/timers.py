"""When it is time: for retries, for what took too long, and how long a turn may take at all."""

from functools import partial

from coterie.clock import Clock
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.event_queue import Event, EventQueue


class Timers:
    """Puts events into the queue at their time.

    Attributes:
        retries: How many retries wait for their time.
        opening: When the quotas open that other retries wait for, for which the run need not be kept.
    """

    def __init__(self, clock: Clock, queue: EventQueue) -> None:
        self._clock, self._queue = clock, queue
        self.retries = 0
        self.opening: list[float] = []

    def at(self, live: DrivenRun, due: float, event: Event) -> None:
        """Queue *event* at *due*, in the time of the journal of *live*, which never goes back."""
        self._queue.put_later(due - max(self._clock.now(), live.core.at), event)

    def opens(self, live: DrivenRun, due: float, event: Event) -> None:
        """Queue *event*, a retry once a quota opens at *due*, if the run still goes on then."""
        self.opening.append(due)
        self.at(live, due, partial(self._opened, due, event))

    def _opened(self, due: float, event: Event) -> None:
        self.opening.remove(due)
        event()

    def retry(self, live: DrivenRun, due: float, event: Event) -> None:
        """Queue *event*, a retry, at *due*, or when the loops it is part of have no time left."""
        if (left := self.seconds_left(live)) is not None:
            due = min(due, self._clock.now() + left)
        self.retries += 1
        self.at(live, due, partial(self._rung, event))

    def _rung(self, event: Event) -> None:
        self.retries -= 1
        event()

    def seconds_left(self, live: DrivenRun) -> float | None:
        """How long a turn of *live* may take that starts now, as far as the loops say that it is part of."""
        if not live.limits_time:
            return None
        now, found = self._clock.now(), list[float]()
        above: DrivenRun | None = live
        while above is not None:
            if (left := above.kind.seconds_left(now)) is not None:
                found.append(left)
            above = above.parent[0] if above.parent is not None else None
        return min(found, default=None)
