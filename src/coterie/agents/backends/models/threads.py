"""Run a function in a daemon thread.

The event loop joins the threads of its executor at the end of a run, so an interrupted tool, or an unneeded import,
would delay that end. A thread that has returned from a call takes the next one.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
_Call = Callable[[], Callable[[], object]]
"""Makes a call and returns what tells its end; both raise nothing."""

IDLE = 5.0
"""Seconds after which a thread without a call ends."""
_idle: list["_Worker"] = []
"""The threads that wait for a call, the latest last."""
os.register_at_fork(after_in_child=_idle.clear)


class _Worker:
    """A daemon thread that makes one call after another."""

    def __init__(self) -> None:
        self._calls = SimpleQueue[tuple[_Call, str]]()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def call(self, call: _Call, name: str) -> None:
        """Make *call* in the thread, which has the *name* meanwhile."""
        self._calls.put((call, name))

    def _work(self) -> None:
        while True:
            try:
                call, self._thread.name = self._calls.get(timeout=IDLE)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:  # its next call is on its way
                    continue
                return
            tell = call()
            self._thread.name = "coterie-idle"
            _idle.append(self)
            tell()
            del call, tell  # they may hold much


def _run(call: _Call, name: str) -> None:
    """Make *call* in a thread that is idle, or in a new one."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.call(call, f"coterie-{name}")


def start(call: Callable[[], T], name: str) -> "Future[T]":
    """Call *call* in a daemon thread, in a copy of this context."""
    future: Future[T] = Future()
    context = copy_context()

    def run() -> Callable[[], object]:
        if not future.set_running_or_notify_cancel():
            return lambda: None
        try:
            return partial(future.set_result, context.run(call))
        except BaseException as error:  # raised again by `future.result()`
            return partial(future.set_exception, error)

    _run(run, name)
    return future


async def in_thread(call: Callable[[], T], name: str) -> T:
    """Call *call* in a daemon thread and await its result. Cancelling drops the result; the thread continues."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def end(call: Callable[[], object]) -> None:
        if not done.done():
            call()

    def tell(call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end, call)

    def run() -> Callable[[], object]:
        try:
            return partial(tell, partial(done.set_result, context.run(call)))
        except StopIteration as error:  # which no future can hold
            return partial(tell, partial(done.set_exception, RuntimeError(f"{name} raised StopIteration: {error}")))
        except BaseException as error:
            return partial(tell, partial(done.set_exception, error))

    _run(run, name)
    return await done
