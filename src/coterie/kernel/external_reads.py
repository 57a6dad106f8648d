"""Facts from outside the journal, read through awaitable ports; each answer comes back as an event in the queue."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from coterie.kernel.event_queue import EventQueue
from coterie.kernel.owned_tasks import OwnedTasks

T = TypeVar("T")


class ExternalReads(OwnedTasks):
    """Reads facts for the runs of one owner.

    Until an answer is handled nothing depends on it: what asked for it has reserved its place and written nothing. So
    an owner may end at any time, and the next one asks again.

    Attributes:
        pending: The questions whose answers have not been handled.
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
        """Queue *event*, which answers no question."""
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
