"""Tasks and timers of an agent, which end with their incarnation."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from coterie.agents.actors.ports import NodePort
from coterie.base.user_code import LAST_CHANCE, contained

T = TypeVar("T")


def start_contained(node: NodePort, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Run an agent's code in a task; `sys.exit`, `KeyboardInterrupt` and the like are errors like any other."""

    async def contain() -> T:
        with contained():
            return await work

    task = node.create_task(contain())
    task.add_done_callback(
        lambda _: work.close() if asyncio.iscoroutine(work) else None
    )  # the task may have been cancelled before its first step
    return task


class OwnedWork:
    """The tasks and timers of one incarnation.

    Args:
        failed: Called with the error of a task, unless the incarnation has ended.
    """

    def __init__(self, node: NodePort, failed: Callable[[BaseException], None]) -> None:
        self._node, self._failed = node, failed
        self._running: set[asyncio.Task[Any]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._has_ended = False

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run *work* until it ends or the incarnation does."""
        task = start_contained(self._node, work)
        self._running.add(task)
        task.add_done_callback(self._done)
        if self._has_ended:
            task.cancel()
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._has_ended:
            self._failed(error)

    def call_later(self, delay: float, call: Callable[[], object]) -> Callable[[], None]:
        """Call *call* in *delay* seconds; return a function that cancels this."""

        def fire() -> None:
            self._timers.discard(timer)
            call()

        def cancel() -> None:
            timer.cancel()
            self._timers.discard(timer)

        timer = self._node.loop.call_later(delay, fire)
        self._timers.add(timer)
        return cancel

    def cancel(self) -> None:
        """Cancel all tasks and timers, once; their errors no longer count."""
        if self._has_ended:
            return
        self._has_ended = True
        for timer in self._timers:
            timer.cancel()
        for task in self._running:
            task.cancel()

    async def end(self) -> None:
        """Cancel all tasks and timers, and wait a moment for tasks that clean up."""
        self.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=LAST_CHANCE)
