"""The queue of events through which all that happens to the runs of one owner passes."""

import asyncio
from collections.abc import Callable, Coroutine
from operator import itemgetter
from typing import Any

Event = Callable[[], object]
"""Handles something that happened, in one piece: without an `await`."""


MakeTask = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


def lazy_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that does nothing before the event loop turns.

    The loop's own way of making tasks, which is its user's to choose, may take their first step at once.
    """
    return asyncio.Task(work, loop=asyncio.get_running_loop())


class EventQueue:
    """Keeps events until their owner handles them, and wakes the owner.

    Once it is closed, an event is handled as soon as it is put, and finds that nothing may be written any more; an
    event with a delay is dropped.

    Args:
        make_task: Makes the tasks that lead to events, as `lazy_task` does; for a loop that must know all tasks.
    """

    def __init__(self, make_task: MakeTask = lazy_task) -> None:
        self.make_task = make_task
        self._events: list[tuple[int, Event]] = []
        self._woken = False
        self._wakeup: asyncio.Future[None] | None = None
        self._closed = False

    def __bool__(self) -> bool:
        """Whether an event is queued."""
        return bool(self._events)

    def put(self, order: int, event: Event) -> None:
        """Queue *event*; of those handled together, the one with the lower *order* comes first."""
        if self._closed:
            event()
            return
        self._events.append((order, event))
        self.wake()

    def put_later(self, wait: float, event: Event) -> None:
        """Queue *event* after *wait* seconds; at once if that is not above 0."""
        if wait <= 0:
            self.put(0, event)
        else:
            asyncio.get_running_loop().call_later(wait, self._put_in_time, event)

    def _put_in_time(self, event: Event) -> None:
        if not self._closed:
            self.put(0, event)

    def wake(self) -> None:
        """Wake the owner: something has changed, though no event may be queued."""
        self._woken = True
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def wait(self) -> None:
        """Wait until `wake` is called."""
        if not self._woken:
            await asyncio.sleep(0)  # what was just started may answer at once
        if not self._woken:
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        self._woken = False

    def handle(self) -> bool:
        """Handle the queued events; those put meanwhile wait for the next call. Return whether there were any."""
        if not self._events:
            return False
        events, self._events = self._events, []
        if len(events) > 1:
            events.sort(key=itemgetter(0))
        handled = 0
        try:
            for _, event in events:
                handled += 1
                event()
        finally:
            if handled < len(events):  # one raised; the others have still happened
                self._events[:0] = events[handled:]
        return True

    def clear(self) -> None:
        """Drop all queued events."""
        self._events.clear()

    def close(self) -> None:
        """Queue nothing any more."""
        self._closed = True
