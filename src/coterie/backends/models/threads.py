"""Run a function in a daemon thread.

The event loop joins the threads of its executor at the end of a run, so a tool that was interrupted, or an import that
is no longer needed, would delay that end.
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
        except BaseException as error:  # raised again by `future.result()`
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=f"coterie-{name}", daemon=True).start()
    return future


async def in_thread(call: Callable[[], T], name: str) -> T:
    """Call *call* in a daemon thread and await its result. Cancelling drops the result; the thread goes on."""
    return await asyncio.wrap_future(start(call, name))
