"""Code of users in a run: what it raises is its own failure, and it can always be ended."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import types
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.base.clock import VirtualClock
from coterie.base.user_code import LAST_CHANCE, EndableCall, calls_for, contained, is_interrupt, line_and_place


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    """A signal handler takes Ctrl-C, as on the command line."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@bundle("raised", [SystemExit(3), KeyboardInterrupt(), BaseException("odd")], ids=lambda raised: type(raised).__name__)
def test_what_is_no_exception_becomes_one(raised: BaseException) -> None:
    """So whoever handles errors handles it."""
    with pytest.raises(RuntimeError, match=type(raised).__name__), contained():
        raise raised


def test_an_error_and_a_cancellation_pass_as_they_are() -> None:
    """Whether a task was cancelled is for those to know who wait for it."""
    for raised in (ValueError("no"), asyncio.CancelledError()):
        with pytest.raises(type(raised)) as caught, contained():
            raise raised
        assert caught.value is raised


def test_a_coroutine_that_is_dropped_is_closed() -> None:
    """Its `GeneratorExit` is no error of the code; one that a task's code raises is."""

    class Pause:
        def __await__(self) -> Iterator[None]:
            yield

    async def work() -> None:
        with contained():
            await Pause()

    coroutine = work()
    coroutine.send(None)
    coroutine.close()

    async def leaves() -> None:
        with contained():
            raise GeneratorExit

    with pytest.raises(RuntimeError, match="GeneratorExit"):
        asyncio.run(leaves())


def test_ctrl_c_is_no_error_of_the_code() -> None:
    """Where no handler takes the signal; and the second one under `asyncio.run`, whose handler raises it there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), contained():
        raise KeyboardInterrupt
    found: list[bool] = []

    async def main() -> None:
        try:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            found.append(is_interrupt(error))
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            found.append(is_interrupt(error))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert found == [True, False]


# -- calls that can be ended ------------------------------------------------------------------------------------------


async def answers() -> str:
    await asyncio.sleep(5)
    return "answer"


async def tidies() -> str:
    try:
        await asyncio.sleep(5)
    finally:
        await asyncio.sleep(LAST_CHANCE / 2)
    return "answer"


async def clings_once() -> str:
    try:
        await asyncio.sleep(5)
    except asyncio.CancelledError:
        await asyncio.sleep(5)
    return "late"


async def clings_for_ever() -> str:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(5)


async def says_late() -> str:
    try:
        await asyncio.sleep(5)
    except asyncio.CancelledError:
        return "late"
    return "answer"


async def times_out_itself() -> str:
    for _ in range(3):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
    await asyncio.sleep(5)
    return "answer"


async def groups() -> str:
    async def fails() -> None:
        raise ValueError("no")

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await asyncio.sleep(5)
    await asyncio.sleep(5)
    return "answer"


async def clings_below() -> str:
    async def clings() -> None:
        for _ in range(50):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(5)

    await asyncio.ensure_future(clings())
    return "answer"


def awaitable() -> Awaitable[str]:
    return asyncio.ensure_future(answers())


class Left:
    """What hears of code that was left behind."""

    abandoned = False


def timed(make: Callable[[], Awaitable[Any]], limit: float | None) -> tuple[str, bool, float, int]:
    """How a call in the time *limit* ends: its answer or error, whether it was abandoned, when, what it leaves."""
    clock = VirtualClock()

    async def main() -> tuple[str, bool, float, int]:
        began, left, task = clock.now(), Left(), asyncio.current_task()
        try:
            async with asyncio.timeout(limit):
                with calls_for(left):
                    found = str(await EndableCall(make()))
        except Exception as error:
            found = type(error).__name__
        assert task is not None
        return found, left.abandoned, clock.now() - began, task.cancelling()

    return clock.run(main())


@bundle(
    ("make", "found", "abandoned", "seconds"),
    [
        (answers, "TimeoutError", False, 1.0),
        (tidies, "TimeoutError", False, 1.0 + LAST_CHANCE / 2),
        (clings_once, "TimeoutError", True, 1.0 + LAST_CHANCE),
        (clings_for_ever, "TimeoutError", True, 1.0 + LAST_CHANCE),
        (awaitable, "TimeoutError", False, 1.0),
        (times_out_itself, "TimeoutError", False, 1.0),
        (groups, "TimeoutError", False, 1.0),
        (clings_below, "TimeoutError", True, 1.0 + LAST_CHANCE),
        (says_late, "late", False, 1.0),
    ],
    ids=lambda make: getattr(make, "__name__", ""),
)
def test_a_timeout_ends_what_is_awaited(
    make: Callable[[], Awaitable[Any]], found: str, abandoned: bool, seconds: float
) -> None:
    """What cleans up has a moment; what ignores its cancellation is abandoned, and takes no further step."""
    assert timed(make, 1.0) == (found, abandoned, seconds, 0)


@bundle(
    "make",
    [answers, tidies, clings_once, says_late, awaitable, times_out_itself, groups],
    ids=lambda make: make.__name__,
)
def test_in_time_it_gives_its_answer(make: Callable[[], Awaitable[Any]]) -> None:
    """As a plain `await` does, also where it cancels itself meanwhile."""
    found, abandoned, _, left = timed(make, None)

    assert (found, abandoned, left) == ("late" if make is clings_once else "answer", False, 0)


def test_what_waits_for_nothing_costs_no_turn_of_the_event_loop() -> None:
    """Its first step is made at once, in its own task and context, which its caller does not see."""
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="caller")
    turned = []

    async def code(how: str) -> tuple[object, str]:
        mine.set("code")
        if how == "waits":
            await asyncio.sleep(0)
        if how == "fails":
            raise ValueError("no")
        return asyncio.current_task(), mine.get()

    async def main() -> None:
        caller = asyncio.current_task()
        for how in ("answers", "fails", "waits"):
            turned.clear()
            asyncio.get_running_loop().call_soon(turned.append, how)
            try:
                task, found = await EndableCall(code(how))
                assert found == "code"
                assert task not in (None, caller)
            except ValueError:
                assert how == "fails"
            assert bool(turned) == (how == "waits")
            assert (mine.get(), asyncio.current_task()) == ("caller", caller)
        assert asyncio.all_tasks() == {caller}

    asyncio.run(main())


@bundle("first", [True, False])
def test_code_that_cancels_its_own_task_has_failed(first: bool) -> None:
    """In its first step, before which its task has not begun, and in a later one; its caller is not cancelled."""

    async def code() -> None:
        if not first:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="it cancelled its own task"):
            await EndableCall(code())
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_a_second_cancellation_abandons_at_once() -> None:
    """Whoever asks twice does not wait."""
    clock = VirtualClock()

    async def main() -> float:
        async def wait() -> None:
            await EndableCall(clings_for_ever())

        left, began = Left(), clock.now()
        with calls_for(left):
            task = asyncio.ensure_future(wait())
        for _ in range(2):
            await asyncio.sleep(0.25)
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert left.abandoned
        return clock.now() - began

    assert clock.run(main()) == 0.5


def test_a_caller_that_is_dropped_with_its_loop_ends_silently() -> None:
    """Python closes it wherever its memory is freed."""

    @types.coroutine
    def waits() -> Any:
        yield

    async def calls() -> None:
        with calls_for(Left()):
            await waits()

    dropped = calls()
    contextvars.copy_context().run(dropped.send, None)
    dropped.close()


def test_a_call_that_is_dropped_with_its_loop_closes_its_code() -> None:
    """Nothing can be cancelled any more."""
    loop, closed, calls = asyncio.new_event_loop(), list[str](), list[Any]()

    async def works() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            closed.append("closed")

    async def main() -> None:
        call = EndableCall(works()).__await__()
        calls.append(call)
        call.send(None)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.close()
    calls.pop().close()
    assert closed == ["closed"]


def test_what_was_abandoned_does_not_keep_its_process(tmp_path: Path) -> None:
    """Neither the end of the event loop waits for it, nor that of the process; nothing is said of it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio\n"
        "from coterie.base.user_code import EndableCall\n"
        "async def clings():\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(60)\n"
        "        except:\n"
        "            pass\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.01):\n"
        "            await EndableCall(clings())\n"
        "    except TimeoutError:\n"
        "        print('ended')\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")


def fails(kind: str) -> None:
    """Raise an error in a line of a file that is known."""
    source = {
        "itself": "def f():\n    raise KeyError('x')\n",
        "library": "import json\ndef f():\n    return 1, json.loads('{')\n",
        "group": "def g():\n    raise KeyError('x')\ndef f():\n    try:\n        g()\n    except KeyError as error:\n"
        "        raise ExceptionGroup('several', [error])\n",
        "made": "def f():\n    raise ExceptionGroup('several', [KeyError('x')])\n",
    }[kind]
    names: dict[str, Any] = {}
    exec(compile(source, "/srv/shop/agents/till.py", "exec"), names)
    names["f"]()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("itself", "KeyError: 'x' (agents/till.py:2:5)"),
        ("library", "(agents/till.py:3:15)"),
        ("group", "KeyError: 'x' (agents/till.py:2:5)"),
        ("made", "KeyError: 'x' (agents/till.py:2:5)"),
    ],
)
def test_an_error_has_its_place_in_code_of_the_user(kind: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the library that it called; of a group that of its first error, if that was raised."""
    monkeypatch.syspath_prepend("/srv/shop")
    with pytest.raises((ValueError, KeyError, ExceptionGroup)) as raised:
        fails(kind)
    assert line_and_place(raised.value).endswith(said)


def test_an_error_that_was_not_raised_has_the_place_of_its_cause_or_none() -> None:
    """Python replaces a `StopIteration` in a coroutine."""
    assert line_and_place(KeyError("x")) == "KeyError: 'x'"
    error = RuntimeError("stopped")
    try:
        fails("itself")
    except KeyError as cause:
        error.__cause__ = cause
    assert line_and_place(error) == "RuntimeError: stopped (/srv/shop/agents/till.py:2:5)"
