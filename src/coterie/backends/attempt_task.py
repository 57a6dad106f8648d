"""Run an attempt as a task, which a time-out, an interruption or the end of the wait for its result can cut off."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
