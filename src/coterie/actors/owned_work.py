"""What an agent does beside its messages: tasks and timers that end with their incarnation."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from coterie.actors.ports import NodePort
from coterie.errors import error_line

T = TypeVar("T")

LAST_CHANCE = 1.0
"""Seconds that cancelled code has to end; after that it is abandoned."""


def leaves_loop(error: BaseException) -> bool:
    """Whether *error*, raised in code of an agent, ends the event loop instead of the agent.

    Ctrl-C does where no signal handler takes it, and so does the end of a coroutine that is dropped; a
    `KeyboardInterrupt` or a `GeneratorExit` that the code raises itself does not.
    """
    if type(error) is KeyboardInterrupt:
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if type(error) is GeneratorExit:
        return not _in_task()
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def _in_task() -> bool:
    """Whether a task makes a step now; a coroutine that is closed is in none."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no event loop runs
        return False


def start_contained(node: NodePort, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Run code of an agent in a task; `sys.exit`, `KeyboardInterrupt` and the like in it are errors like any other."""

    async def contain() -> T:
        try:
            return await work
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            if leaves_loop(error):
                raise
            raise RuntimeError(error_line(error)) from error

    task = node.create_task(contain())
    task.add_done_callback(
        lambda _: work.close() if asyncio.iscoroutine(work) else None
    )  # it may have been cancelled before its first step
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
        """Call *call* in *delay* seconds; return what cancels it."""

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
        """End all of it, once; errors of tasks no longer count."""
        if self._has_ended:
            return
        self._has_ended = True
        for timer in self._timers:
            timer.cancel()
        for task in self._running:
            task.cancel()

    async def end(self) -> None:
        """End all of it, and wait a moment for tasks that clean up."""
        self.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=LAST_CHANCE)
