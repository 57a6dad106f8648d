"""Run a coroutine under the signals of a terminal."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from coterie.cli.output import complain

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def drive(main: Coroutine[Any, Any, T], notice: str = "interrupting the run; press Ctrl-C again to exit at once") -> T:
    """Run *main* to completion; print *notice* when a signal cancels it.

    The first Ctrl-C, SIGTERM or SIGHUP cancels *main*, so that a run is interrupted cleanly and can be resumed. The
    second one ends the process at once. SIGHUP is ignored under `nohup`.

    Raises:
        KeyboardInterrupt: If *main* was cancelled and returned no result.
    """
    try:
        return asyncio.run(_under_signals(main, notice))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _under_signals(main: Coroutine[Any, Any, T], notice: str) -> T:
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
        complain(f"coterie: {notice}")
        task.cancel()

    for number in handled:
        loop.add_signal_handler(number, handle, number)
    try:
        return await task
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
