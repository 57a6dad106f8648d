"""An attempt under way as a task, and what can cut it off: its time-out, an interruption, nobody waiting any more."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress

from coterie.backends.base import Failure, Result


class Underway(ABC):
    """One attempt: a task of its own, so that whoever waits for it may go away.

    A subclass does the work in `_run`, watches `_cut` meanwhile, and ends all it started before it returns.

    Args:
        timeout: Seconds after which it is cut off, from when `_limit_time` is called; None: never.
    """

    def __init__(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._cut: asyncio.Future[Failure] = loop.create_future()
        self.task: asyncio.Task[Result] = loop.create_task(self._run())
        self.task.add_done_callback(self._stop_timer)

    async def result(self) -> Result:
        """Wait for the result; cancelling ends the attempt, and only then raises."""
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            self._cut_off("interrupted", "nobody waits for its result any more")
            while not self.task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({self.task})
            raise

    async def interrupt(self) -> None:
        """End it with all that it started; returns when that is gone."""
        self._cut_off("interrupted", "it was interrupted")
        await asyncio.wait({self.task})

    @abstractmethod
    async def _run(self) -> Result:
        """Carry the attempt out."""

    def _limit_time(self, taken: float = 0.0) -> None:
        """Let the time-out begin, of which *taken* seconds have passed."""
        if self._timeout is not None:
            reason = f"it took longer than its time-out of {self._timeout:g} s"
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(self._timeout - taken, 0.0), self._cut_off, "timeout", reason)

    def _stop_timer(self, task: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cut_off(self, kind: str, reason: str) -> None:
        """End it for *reason*; what cuts it off first is the reason that is told."""
        if not self._cut.done():
            self._cut.set_result(Failure(kind=kind, reason=reason))
