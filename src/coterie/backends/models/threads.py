"""Work in a thread that nobody has to wait for.

The event loop's own executor is waited for at the end of a run; a tool that is cut off, or an import that nobody needs
any more, would hold it up.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def start(call: Callable[[], T], name: str) -> "Future[T]":
    """Call *call* in a daemon thread, in a copy of this context."""
    future: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(call)
        except BaseException as error:  # it is raised again where somebody waits for it
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=f"coterie-{name}", daemon=True).start()
    return future


async def in_thread(call: Callable[[], T], name: str) -> T:
    """The same, waited for. Cancelling the wait leaves the thread to itself; what it still gives is dropped."""
    return await asyncio.wrap_future(start(call, name))
