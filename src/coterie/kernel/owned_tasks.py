"""The tasks of one owner: none outlives it, and what one of them raises ends it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from coterie.kernel.event_queue import EventQueue


class OwnedTasks:
    """Does work in tasks; an exception is raised where the events of *queue* are handled."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Callable[[], Coroutine[Any, Any, object]]) -> asyncio.Task[None]:
        """Do *work* in a task, which leaves by itself; if it is cancelled before its first step, `end` finds it."""
        task = self._queue.make_task(self._do(work))
        self._tasks[task] = None
        return task

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            for task in list(self._tasks):
                await asyncio.wait([task])
                self._tasks.pop(task, None)

    async def _do(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            await work()
        except Exception as error:
            self._queue.put(0, partial(_raise, error))
        finally:
            self._leave()

    def _leave(self) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # it is dropped with its loop
            return
        assert task is not None
        self._tasks.pop(task, None)


def _raise(error: Exception) -> None:
    raise error
