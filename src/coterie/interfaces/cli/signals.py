"""Run a coroutine under the signals of a terminal."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from coterie.base.user_code import LAST_CHANCE, PERSON
from coterie.interfaces.cli.output import complain

T = TypeVar("T")
INTERRUPTING = "interrupting the run; press Ctrl-C again to exit at once"
STOPPING = "stopping in order; press Ctrl-C again to exit at once"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def drive(main: Coroutine[Any, Any, T], notice: Callable[[], str] = lambda: INTERRUPTING) -> T:
    """Run *main* to completion; print *notice* when a signal cancels it.

    The first Ctrl-C, SIGTERM or SIGHUP cancels *main*, so that a run is interrupted cleanly and can be resumed. The
    second one ends the process at once. SIGHUP is ignored under `nohup`.

    Raises:
        KeyboardInterrupt: If *main* was cancelled and returned no result.
    """
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_under_signals(main, notice))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close *loop*; unlike `asyncio.run`, do not wait for tasks of users' code that ignore their cancellation."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, stubborn = loop.run_until_complete(asyncio.wait(left, timeout=LAST_CHANCE))
        for task in stubborn:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is known, and was reported
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)
    loop.close()


async def _under_signals(main: Coroutine[Any, Any, T], notice: Callable[[], str]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in SIGNALS if not (nohup and number is signal.SIGHUP)]
    received: list[signal.Signals] = []

    def handle(number: signal.Signals) -> None:
        if received:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        complain(f"coterie: {notice()}")
        task.cancel(PERSON if number is signal.SIGINT else None)

    for number in handled:
        loop.add_signal_handler(number, handle, number)
    try:
        return await task
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
