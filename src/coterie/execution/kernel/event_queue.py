"""The one queue for all events of the runs of one owner, and the tasks that lead to them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

Event = Callable[[], object]
"""Handles one event atomically, that is without an `await`."""


T = TypeVar("T")
MakeTask = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


def lazy_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Make a task that does nothing before the event loop turns.

    The loop's task factory, which the user may choose, may run the first step at once.
    """
    return asyncio.Task(work, loop=asyncio.get_running_loop())


class EventQueue:
    """Keeps events until their owner handles them, and wakes the owner.

    After `close`, an event is handled as soon as it is put, and cannot write any more; an event with a delay is
    dropped.

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
        """Queue *event*; of events that are handled together, the one with the lower *order* comes first."""
        if self._closed:
            event()
            return
        self._events.append((order, event))
        self.wake()

    def put_later(self, wait: float, event: Event) -> asyncio.TimerHandle | None:
        """Queue *event* after *wait* seconds, unless the timer is cancelled; at once if *wait* is 0 or negative."""
        if wait <= 0:
            self.put(0, event)
            return None
        return asyncio.get_running_loop().call_later(wait, self._put_in_time, event)

    def _put_in_time(self, event: Event) -> None:
        if not self._closed:
            self.put(0, event)

    def wake(self) -> None:
        """Wake the owner because something has changed, even if no event is queued."""
        self._woken = True
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def wait(self) -> bool:
        """Wait until `wake` is called; return whether that took more than a turn of the event loop."""
        if not self._woken:
            await asyncio.sleep(0)  # what was just started may answer at once
        if not (at_once := self._woken):
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        self._woken = False
        return not at_once

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


class OwnedTasks:
    """Runs work in tasks; their exceptions are raised where the events of *queue* are handled.

    Attributes:
        are_ending: Whether `end` has been called; before that, nothing of ours cancels a task.
    """

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """Those that run, by their numbers."""
        self._started = 0
        self.are_ending = False

    def start(self, work: Callable[[], Coroutine[Any, Any, object]]) -> asyncio.Task[None]:
        """Run *work* in a task that removes itself when done; `end` removes tasks cancelled before their first step."""
        self._started += 1
        task = self._tasks[self._started] = self._queue.make_task(self._do(work, self._started))
        return task

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        self.are_ending = True
        while self._tasks:
            for task in self._tasks.values():
                task.cancel()
            for number, task in list(self._tasks.items()):
                await asyncio.wait([task])
                self._tasks.pop(number, None)

    async def _do(self, work: Callable[[], Coroutine[Any, Any, object]], number: int) -> None:
        try:
            await work()
        except Exception as error:
            self._queue.put(0, partial(_raise, error))
        finally:
            self._tasks.pop(number, None)


class ExternalReads(OwnedTasks):
    """Reads facts for the runs of one owner.

    Nothing depends on an answer until it is handled: the requester has reserved its place but written nothing. So an
    owner may end at any time, and the next one repeats the read.

    Attributes:
        pending: Reads whose answers have not been handled.
    """

    def __init__(self, queue: EventQueue) -> None:
        super().__init__(queue)
        self.pending = 0

    def ask(
        self, question: Callable[[], Awaitable[T]], answer: Callable[[T], object], order: int = 0
    ) -> asyncio.Task[None]:
        """Await *question*, then queue *answer* with its result; an exception is raised where events are handled.

        If the task returned is cancelled, there is no answer.
        """
        self.pending += 1
        return self.start(partial(self._ask, question, answer, order))

    def post(self, event: Callable[[], object]) -> None:
        """Queue *event*, which is not an answer."""
        self._queue.put(0, event)

    async def _ask(self, question: Callable[[], Awaitable[T]], answer: Callable[[T], object], order: int) -> None:
        try:
            found = await question()
        except asyncio.CancelledError:
            self.pending -= 1
            self._queue.wake()
            raise
        self._queue.put(order, partial(self._answered, answer, found))

    def _answered(self, answer: Callable[[T], object], found: T) -> None:
        self.pending -= 1
        answer(found)


def _raise(error: Exception) -> None:
    raise error
