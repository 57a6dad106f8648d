"""Driving a run from a command, under the signals of a terminal."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from coterie.cli.output import complain

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def drive(main: Coroutine[Any, Any, T], told: str = "interrupting the run; once more ends it at once") -> T:
    """Run *main* to its end; *told* is said when it is cancelled.

    The first Ctrl-C (or SIGTERM, or the terminal's end) cancels it, so that a run is interrupted in good order and can
    be resumed; one more ends the process at once. Under `nohup` the terminal's end is ignored.

    Raises:
        KeyboardInterrupt: If *main* was cancelled and had no outcome to give.
    """
    try:
        return asyncio.run(_with_brake(main, told))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _with_brake(main: Coroutine[Any, Any, T], told: str) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)
    brake = _Brake(task, told)
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = [number for number in SIGNALS if not (nohup and number is signal.SIGHUP)]
    for number in heard:
        loop.add_signal_handler(number, brake.pull, number)
    try:
        return await task
    finally:
        for number in heard:
            loop.remove_signal_handler(number)


class _Brake:
    """Cancels *task* when it is pulled first, and ends the process when it is pulled again."""

    def __init__(self, task: "asyncio.Task[T]", told: str) -> None:
        self._task, self._told = task, told
        self._pulled = False

    def pull(self, number: signal.Signals) -> None:
        if self._pulled:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._pulled = True
        complain(f"coterie: {self._told}")
        self._task.cancel()
