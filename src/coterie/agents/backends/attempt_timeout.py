"""The time-out of attempts, and how they are interrupted: base classes of what backends run.

An `AttemptTask` runs as a task; an `InlineAttempt`, in the task that awaits its result.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from coterie.agents.backends.base import Failure, Result
from coterie.base.user_code import CANCELLED, calls_for

LATE = 1.0
"""Seconds that an attempt has to report its end after its owner was stopped."""
NOTICED = 0.2
"""A timer that is late by more seconds shows that its process was stopped, or could not run."""
SLICE = 5.0
"""Seconds after which a stop is noticed; an attempt is not charged for it."""


class AttemptTask(ABC):
    """A running attempt in its own task, independent of the task that waits for it.

    A subclass does the work in `_run`, which watches `_cut` and ends everything that it started before it returns.

    Args:
        timeout: Seconds after the call of `_limit_time` until it is cut off; None: no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self.abandoned = False
        """Whether code of a user did not end in time."""
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._after = 0.0
        """Seconds that are left after *_timer*."""
        self._cut: asyncio.Future[Failure] = loop.create_future()
        with calls_for(self):
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
        """End it with everything that it started; returns when nothing is left."""
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
        loop = asyncio.get_running_loop()
        now, self._after = min(max(seconds, 0.0), SLICE), max(seconds - SLICE, 0.0)
        self._timer = loop.call_later(now, self._time_passed, loop.time() + now)

    def _time_passed(self, due: float) -> None:
        """Start the next slice, or cut it off; but after a stop see first whether the attempt ended in time."""
        reason = f"it took longer than its time-out of {self._timeout:g} s"
        loop = asyncio.get_running_loop()
        late = loop.time() - due
        if self._after:
            self._start_timer(self._after - (late if late <= NOTICED else 0.0))
        elif late > NOTICED:
            self._timer = loop.call_later(LATE, self._cut_off, "timeout", reason)
        else:
            self._cut_off("timeout", reason)

    @contextmanager
    def _time_held(self) -> Iterator[None]:
        """Suspend the time-out for the block, for example while a person decides."""
        loop = asyncio.get_running_loop()
        left = self._after + max(self._timer.when() - loop.time(), 0.0) if self._timer is not None else 0.0
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


ABANDONED = "it ignored its cancellation and was abandoned"
"""What is said of code of a user that did not end in time."""
_INTERRUPTED = Failure(kind="interrupted", reason="it was interrupted")


class InlineAttempt(ABC):
    """A running attempt that works in the task that awaits its result, which saves a task.

    A subclass does the work in `_run`, which is cancelled to end it, at each interrupt.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._ended: asyncio.Event | None = None
        self._interrupts = 0
        self.abandoned = False
        """Whether code of a user did not end in time."""

    async def result(self) -> Result:
        """Do the work; cancelling ends the attempt."""
        if self._ended is not None:
            return _INTERRUPTED
        self._task = task = asyncio.current_task()
        assert task is not None
        try:
            with calls_for(self):
                result = await self._run()
        except asyncio.CancelledError:
            if task.cancelling() > self._interrupts:
                raise  # its result is no longer awaited
            result = Failure(kind="crashed", reason=CANCELLED)
        finally:
            self._task = None
            for _ in range(self._interrupts):
                task.uncancel()
            if self._ended is not None:
                self._ended.set()
        if self._ended is None:
            return result
        return Failure(kind="interrupted", reason=ABANDONED) if self.abandoned else _INTERRUPTED

    async def interrupt(self) -> None:
        """Interrupt it, and wait until it has ended."""
        self._ended = self._ended or asyncio.Event()
        if self._task is not None:
            self._interrupts += 1
            self._task.cancel()
        else:
            self._ended.set()
        await self._ended.wait()

    async def steer(self, text: str) -> bool:
        """Return False: it accepts no messages."""
        return False

    @abstractmethod
    async def _run(self) -> Result:
        """Carry the attempt out."""
