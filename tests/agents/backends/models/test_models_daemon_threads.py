"""The threads in which functions and tools of users run."""

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from coterie.agents.backends.models import threads
from coterie.agents.backends.models.threads import in_thread, start

PLACE: ContextVar[str] = ContextVar("place")


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


def where() -> tuple[int, str, bool]:
    thread = threading.current_thread()
    return threading.get_ident(), thread.name, thread.daemon


@pytest.fixture(autouse=True)
def _no_idle_threads() -> None:
    threads._idle.clear()


@in_a_loop
async def test_calls_in_a_row_share_a_thread() -> None:
    """It has the name of its call, and is no reason for the process to wait."""
    (one, name, is_daemon), (other, _, _) = await in_thread(where, "first"), await in_thread(where, "second")

    assert one == other != threading.get_ident()
    assert (name, is_daemon) == ("coterie-first", True)


@in_a_loop
async def test_each_call_has_its_own_context() -> None:
    """What an earlier call of the thread set is not seen, and what the caller set is."""

    def sets() -> str:
        found = PLACE.get("none")
        PLACE.set("changed")
        return found

    PLACE.set("here")
    assert [await in_thread(sets, "a"), await in_thread(sets, "b"), PLACE.get()] == ["here", "here", "here"]


@in_a_loop
async def test_calls_at_once_have_threads_of_their_own() -> None:
    """Each of them runs, however many others wait."""
    together = threading.Barrier(20)
    await asyncio.gather(*(in_thread(together.wait, str(n)) for n in range(20)))
    assert len(threads._idle) <= 20


@in_a_loop
async def test_a_call_whose_result_is_dropped_keeps_its_thread() -> None:
    """The next call does not wait for it."""
    begun, go_on = threading.Event(), threading.Event()

    def waits() -> None:
        begun.set()
        go_on.wait()

    task = asyncio.create_task(in_thread(waits, "slow"))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await in_thread(where, "next"))[1] == "coterie-next"
    go_on.set()


@pytest.mark.parametrize(("error", "kind"), [(ValueError("x"), ValueError), (StopIteration(), RuntimeError)])
@in_a_loop
async def test_what_a_call_raises_is_raised_where_it_is_awaited(error: BaseException, kind: type) -> None:
    """An error that no future holds becomes one that it does."""

    def fails() -> None:
        raise error

    with pytest.raises(kind):
        await in_thread(fails, "a")
    if kind is not RuntimeError:
        with pytest.raises(kind):
            await asyncio.to_thread(start(fails, "b").result)


def test_a_thread_without_calls_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of a moment in which many calls ran at once."""
    monkeypatch.setattr(threads, "IDLE", 0.0005)
    thread = start(threading.current_thread, "a").result()
    thread.join(30)

    assert not thread.is_alive()
    assert not threads._idle


def test_no_call_is_lost_to_a_thread_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was chosen for a call makes it, though its time is over."""
    monkeypatch.setattr(threads, "IDLE", 0.0005)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: start(lambda: n, "a").result(30), range(200)))
    assert found == list(range(200))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    """Those of its parent do not exist there."""
    start(where, "parent").result()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if start(lambda: 7, "child").result(30) == 7 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
