"""Clocks, passed as arguments: the wall clock, and a virtual one.

Nothing else in coterie reads the system time. Timers are those of the event loop (`call_later`, `asyncio.sleep`), so a
`VirtualClock`, which has a loop to itself, moves them too.
"""

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
LOOK = 30.0
"""Seconds after which a timer reads the wall clock again, since timers rest while the machine is suspended."""
_NS = 1_000_000_000


def iso_time(at: float) -> str:
    """The time *at*, in Unix seconds, as ISO 8601 in UTC; a part of a second is rounded up."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(at)))


def iso_milliseconds(at: float) -> str:
    """The time *at*, in Unix seconds, as ISO 8601 in UTC with milliseconds."""
    whole, thousandths = divmod(int(at * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{thousandths:03}Z"


def boot_time() -> float:
    """Seconds since the machine was started, suspended or not; `CLOCK_MONOTONIC` counts both on macOS only."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(Protocol):
    """Tells the time; never goes back further than the system's clock does."""

    def now(self) -> float:
        """The time in Unix seconds."""

    def slept(self) -> float | None:
        """Seconds for which the machine was suspended, when the loop's timers rested; None: they follow this clock."""


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> float:
        """The time in Unix seconds."""
        return time.time()

    def slept(self) -> float:
        """Seconds for which the machine was suspended since its start, to the millisecond.

        The loop's timers use `time.monotonic`, which counts no suspension on Linux and, unlike `CLOCK_MONOTONIC`, none
        on macOS.
        """
        return round(boot_time() - time.monotonic(), 3)


class VirtualClock:
    """A clock that stops while any task can run, and jumps to the next timer when all are blocked.

    An hour of waiting takes no time, and a program sees the same times on every machine. Time is counted in whole
    nanoseconds from *start*, so timers set for one instant fire together. No task on its loop may wait for a socket, a
    process or a thread.

        clock = VirtualClock()
        clock.run(main())        # asyncio.sleep(3600) inside returns at once; clock.now() says 3600.0

    Args:
        start: The reading at the beginning, in seconds.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._ns = round(start * _NS)
        self._slept = 0.0

    def now(self) -> float:
        """The virtual time, in seconds."""
        return self._ns / _NS

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self._ns += round(seconds * _NS)

    def slept(self) -> float:
        """Seconds for which the virtual machine was suspended."""
        return self._slept

    def suspend(self, seconds: float) -> None:
        """Let *seconds* pass in which the virtual machine is suspended: timers rest."""
        self.advance(seconds)
        self._slept += seconds

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run *main* to completion on a loop that follows this clock.

        Raises:
            RuntimeError: If all tasks are blocked and no timer is set: in real time this would hang for ever.
        """
        loop = self.new_loop()
        try:
            return loop.run_until_complete(main)
        finally:
            _cancel_all(loop)
            loop.close()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """A new event loop that follows this clock, for callers that stop it half-way (a simulated crash)."""
        return _VirtualLoop(self)


class _JumpingSelector:
    """Replaces a selector: there is nothing to poll, so a wait is a jump."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise RuntimeError("all tasks are blocked and no timer is set: this would hang for ever")
        self._clock.advance(max(timeout, 0.0))
        return []


class _VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._selector = _JumpingSelector(clock)
        self._clock_resolution = 1 / _NS

    def time(self) -> float:
        return self._clock.now() - self._clock.slept()

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: no event was polled."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread wakes this loop."""


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
