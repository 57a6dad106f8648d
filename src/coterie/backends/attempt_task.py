"""Run an attempt as a task, or in the task that awaits its result, so that it can be cut off."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from coterie.backends.base import Failure, Result


class AttemptTask(ABC):
    """A running attempt, as a task that does not depend on the task that waits for it.

    A subclass does the work in `_run`, which watches `_cut` and ends all that it started before it returns.

    Args:
        timeout: Seconds after the call of `_limit_time` until it is cut off; None: no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._cut: asyncio.Future[Failure] = loop.create_future()
        self.task: asyncio.Task[Result] = loop.create_task(self._run())
        self.task.add_done_callback(self._stop_timer)

    async def result(self) -> Result:
        """Wait for the result; cancelling ends the attempt before it raises."""
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            self._cut_off("interrupted", "its result is no longer awaited")
            while not self.task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({self.task})
            raise

    async def interrupt(self) -> None:
        """End it with all that it started; returns when nothing is left."""
        self._cut_off("interrupted", "it was interrupted")
        await asyncio.wait({self.task})

    @abstractmethod
    async def _run(self) -> Result:
        """Carry the attempt out."""

    def _limit_time(self, taken: float = 0.0) -> None:
        """Start the time-out, of which *taken* seconds have passed."""
        if self._timeout is not None:
            self._start_timer(self._timeout - taken)

    def _start_timer(self, seconds: float) -> None:
        reason = f"it took longer than its time-out of {self._timeout:g} s"
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(seconds, 0.0), self._cut_off, "timeout", reason)

    @contextmanager
    def _time_held(self) -> Iterator[None]:
        """Within, the time-out does not run: a person decides, or something else that is not the agent's work."""
        loop = asyncio.get_running_loop()
        left = self._timer.when() - loop.time() if self._timer is not None else 0.0
        self._stop_timer(None)
        try:
            yield
        finally:
            if self._timer is not None and not self.task.done():
                self._start_timer(left)

    def _stop_timer(self, task: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cut_off(self, kind: str, reason: str) -> None:
        """End it; the first *reason* counts."""
        if not self._cut.done():
            self._cut.set_result(Failure(kind=kind, reason=reason))


_INTERRUPTED = Failure(kind="interrupted", reason="it was interrupted")


class InlineAttempt(ABC):
    """A running attempt that works in the task which awaits its result, once: it costs no task.

    A subclass does the work in `_run`, which is cancelled to end it.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._interrupted: asyncio.Event | None = None

    async def result(self) -> Result:
        """Do the work; cancelling ends the attempt."""
        if self._interrupted is not None:
            return _INTERRUPTED
        self._task = task = asyncio.current_task()
        assert task is not None
        try:
            result = await self._run()
        except asyncio.CancelledError:
            if task.cancelling() > (self._interrupted is not None):
                raise  # its result is no longer awaited
            result = Failure(kind="crashed", reason="it awaited something that had been cancelled")
        finally:
            self._task = None
            if self._interrupted is not None:
                task.uncancel()
                self._interrupted.set()
        return result if self._interrupted is None else _INTERRUPTED

    async def interrupt(self) -> None:
        """Interrupt it, and wait until it has ended."""
        if self._interrupted is None:
            self._interrupted = asyncio.Event()
            if self._task is not None:
                self._task.cancel()
            else:
                self._interrupted.set()
        await self._interrupted.wait()

    async def steer(self, text: str) -> bool:
        """False: it accepts no messages."""
        return False

    @abstractmethod
    async def _run(self) -> Result:
        """Carry the attempt out."""
