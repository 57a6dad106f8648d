"""Wait for a state, with a bound."""

import asyncio
import time
from collections.abc import Callable

STEP = 0.01


def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Return when *condition()* is true; fail after *within* seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within:g} s"
        time.sleep(STEP)


async def soon(condition: Callable[[], object], within: float = 30.0) -> None:
    """Return when *condition()* is true; fail after *within* seconds of the event loop, whose time may be virtual."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - any state, of another process too
            await asyncio.sleep(STEP)
