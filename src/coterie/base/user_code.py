"""Code of users that runs inside of a run: what it raises is its own failure, and it can always be ended.

asyncio is imported late: engines, which run code of users too, do without it.
"""

import os
import sys
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from itertools import islice
from pathlib import Path
from types import coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

PERSON = "person"
"""The message of a cancellation that a person wants; any other comes from the end of a process."""
LAST_CHANCE = 1.0
"""Seconds that cancelled code has to end; after that it is abandoned."""
CANCELLED = "it awaited something that had been cancelled"
"""What is said of code that raises a `CancelledError` by itself."""
_LIBRARIES = (f"{Path(__file__).parents[1]}/", f"{Path(os.__file__).parent}/", "<frozen ", "<string>")
"""Where code of this package and of Python lies."""
_TRIES = 9
"""How often code is closed that ignores that."""


def is_interrupt(error: BaseException) -> bool:
    """Whether *error* is Ctrl-C where no signal handler takes it, or the second one under `asyncio.run`.

    A `KeyboardInterrupt` that code raises itself is not.
    """
    if type(error) is not KeyboardInterrupt:
        return isinstance(error, KeyboardInterrupt)
    import signal  # which cannot be imported once Python ends

    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    from_runner = where is not None and where.tb_frame.f_globals.get("__name__") == "asyncio.runners"
    return from_runner or signal.getsignal(signal.SIGINT) is signal.default_int_handler


def leaves_loop(error: BaseException) -> bool:
    """Whether *error*, raised in code of a user, ends the event loop instead of that code.

    Ctrl-C does, and so does the end of a coroutine that is dropped; a `GeneratorExit` that the code raises itself does
    not.
    """
    return is_interrupt(error) or (isinstance(error, GeneratorExit) and not _in_task())


def _in_task() -> bool:
    """Whether a task makes a step now; a coroutine that is closed is in none."""
    import asyncio

    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no event loop runs
        return False


def is_cancelled() -> bool:
    """Whether a `CancelledError` is the end of the running task; if not, code of a user raised it by itself."""
    import asyncio

    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class contained:
    """Within, code of a user runs: `sys.exit` and the like in it are errors like any other.

    What ends the event loop passes, and so does a `CancelledError`: the caller knows whether its task was cancelled.
    """

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        from asyncio import CancelledError

        if not (isinstance(error, CancelledError) or leaves_loop(error)):
            raise RuntimeError(error_line(error)) from error


def close(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
    """Close *work*, whatever it does then: what it raises or waits for has no effect.

    Code that ignores this is never freed: Python would close it again at a random moment, perhaps without end.
    """
    awaited: list[Any] = [work]
    while hasattr(inner := getattr(awaited[-1], "cr_await", getattr(awaited[-1], "gi_yieldfrom", None)), "close"):
        awaited.append(inner)
    for one in awaited:  # what the work awaited may be left behind alone
        for _ in range(_TRIES):
            try:
                one.close()
            except BaseException as error:
                if is_interrupt(error):
                    raise
            else:
                break
        else:
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


class Caller(Protocol):
    """What calls code of users, whose attempt may leave some of it behind.

    Attributes:
        abandoned: Whether some of that code did not end in time.
    """

    abandoned: bool


_CALLER: ContextVar[Caller] = ContextVar("coterie_caller")


class calls_for:
    """Within, and in the tasks that are created there, *caller* learns which `EndableCall` was abandoned."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token = _CALLER.set(self._caller)

    def __exit__(self, *error: object) -> None:
        with suppress(ValueError):  # a task that is dropped with its loop is closed in another context
            _CALLER.reset(self._token)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


class EndableCall(Generic[T]):
    """Await what code of a user gives, which cannot prolong the task that awaits it.

    It runs in a separate task, so that what it cancels itself, such as a scope with a time-out, is not taken for the
    cancellation of its caller. That is passed on, and the code has `LAST_CHANCE` seconds to end. Then, or when the
    caller is cancelled again, it is abandoned: it makes no further step, and its caller learns that.

    The first step of the task is made at once, as eager tasks of Python 3.12 do: code that waits for nothing does not
    cost its caller a turn of the event loop.
    """

    def __init__(self, work: Awaitable[T]) -> None:
        self._work = work if isinstance(work, Coroutine) else _awaited(work)
        self._is_left = False
        self._outcome: tuple[T | None, BaseException | None] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._ended().__await__()

    async def _ended(self) -> T:
        import asyncio

        task = self._begin()
        is_at_once = self._outcome is not None
        try:
            answer, error = self._outcome if self._outcome is not None else await asyncio.shield(task)
            if task.cancelling() and (is_at_once or isinstance(error, asyncio.CancelledError)):
                raise RuntimeError("it cancelled its own task") from error
        except asyncio.CancelledError:
            if task.done():
                raise
            task.cancel()
            await asyncio.wait((task,), timeout=LAST_CHANCE)
            if not task.done():
                raise
            answer, error = task.result()
        finally:
            if not (is_at_once or task.done()):
                self._leave(task)
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]  # there is one without an error

    def _begin(self) -> "asyncio.Task[tuple[T | None, BaseException | None]]":
        """Make the task, and its first step."""
        import asyncio

        loop, steps, context = asyncio.get_running_loop(), self._ends(), copy_context()
        caller = asyncio.current_task(loop)
        task = asyncio.Task(steps, loop=loop, context=context)
        if caller is not None:
            asyncio.tasks._leave_task(loop, caller)
        asyncio.tasks._enter_task(loop, task)
        try:
            context.run(steps.send, None)
        finally:
            asyncio.tasks._leave_task(loop, task)
            if caller is not None:
                asyncio.tasks._enter_task(loop, caller)
        return task

    def _leave(self, task: "asyncio.Task[Any]") -> None:
        """Abandon the work, which *task* makes the steps of."""
        if (caller := _CALLER.get(None)) is not None:
            caller.abandoned = True
        self._is_left = True
        close(self._work)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is known, and its caller says so
        if not task.get_loop().is_closed():
            task.cancel()

    async def _ends(self) -> tuple[T | None, BaseException | None]:
        """Make the steps of the work; return its answer or its error, since a task could not hold every error."""
        return await self._steps()

    @coroutine
    def _steps(self) -> Generator[Any, Any, tuple[T | None, BaseException | None]]:
        from asyncio import CancelledError

        awaited, cancelled = self._step(None, is_first=True), None
        try:
            yield  # the first step is over; the task makes the others
        except CancelledError as error:
            cancelled = error
        except GeneratorExit:
            close(self._work)
            raise
        while self._outcome is None and not self._is_left:
            try:
                if cancelled is None:
                    yield awaited
            except CancelledError as error:
                cancelled = error
            except GeneratorExit:
                close(self._work)
                raise
            if not self._is_left:
                awaited, cancelled = self._step(cancelled), None
        if self._outcome is None:
            raise CancelledError
        return self._outcome

    def _step(self, cancelled: BaseException | None, is_first: bool = False) -> Any:
        """Make a step of the work, in which *cancelled* is raised, and return what it awaits, if it has not ended."""
        try:
            return self._work.send(None) if cancelled is None else self._work.throw(cancelled)
        except StopIteration as end:
            self._outcome = end.value, None
        except BaseException as error:
            if is_interrupt(error) and not is_first:
                raise
            self._outcome = None, error
        return None


def line_and_place(error: BaseException) -> str:
    """As `error_line`, with the place in code of a user that raised *error*, as `(FILE:LINE:COLUMN)`.

    That is the innermost place neither in this package nor in a library. The file is named as Python finds it, without
    the folder of its path.
    """
    place = _place(error)
    return f"{error_line(error)} ({place})" if place else error_line(error)


def _place(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup) and (inner := _place(error.exceptions[0])):
        return inner
    trace, place = error.__traceback__, ""
    while trace is not None:
        code, file = trace.tb_frame.f_code, trace.tb_frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and "site-packages" not in file:
            column = next(islice(code.co_positions(), trace.tb_lasti // 2, None))[2]
            folders = [f"{one}/" for one in sys.path if one and file.startswith(f"{one}/")]
            place = f"{file.removeprefix(max(folders, key=len, default=''))}:{trace.tb_lineno}"
            place += "" if column is None else f":{column + 1}"
        trace = trace.tb_next
    return place or (_place(error.__cause__) if error.__cause__ is not None else "")


def error_line(error: BaseException | None) -> str:
    """The class and the message of *error*, in a line; of a group those of its errors; empty without one."""
    if error is None:
        return ""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(error_line, error.exceptions))
    try:
        text = " ".join(str(error).split())
    except BaseException:  # `__str__` of a class that is not ours
        text = "its text cannot be made"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
