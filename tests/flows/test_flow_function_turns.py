"""A turn of a function: it is called in the run's own task, and however it ends, only the turn ends."""

import asyncio
import re
import sys
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from asking import Heard, agent, request

import coterie
from coterie.agents.actors.turns import ActorBackend
from coterie.agents.backends.attempt_timeout import ABANDONED
from coterie.agents.backends.base import Answer, Failure, Result
from coterie.team.topology.typed.values import value_of

MOMENTS: list[str] = []


async def hangs() -> str:
    try:
        await asyncio.sleep(1e6)
    finally:
        MOMENTS.append("ended")
    return "never"


async def clings() -> str:
    try:
        await asyncio.sleep(1e6)
    except asyncio.CancelledError:
        return "I go on"
    return "never"


async def clings_on() -> str:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(1e6)


async def breaks_while_it_ends() -> str:
    try:
        await asyncio.sleep(1e6)
    finally:
        raise ValueError("spilt")


async def cancels_its_own() -> str:
    own = asyncio.ensure_future(asyncio.sleep(1e6))
    own.cancel()
    await own
    return "never"


async def waits_too_long_itself() -> str:
    async with asyncio.timeout(0.0):
        await asyncio.sleep(1e6)
    return "never"


def leaves() -> str:
    sys.exit(3)


async def leaves_the_loop() -> str:
    sys.exit(3)


def interrupts() -> str:
    raise KeyboardInterrupt


def spoils(input: list[Any]) -> list[Any]:
    input.append("spoilt")
    return input


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def no_number() -> dict[str, Any]:
    return {"scores": [None, float("nan")]}


def some_nothing() -> dict[str, Any]:
    return {"scores": [None], "text": "null"}


def turn_of(function: Any, **values: Any) -> Any:
    path = f"{function.__module__}:{function.__name__}"
    return request(agent(function.__name__, backend="actor", options={"type": path}, **values))


def result_of(function: Any, during: Any = None, **values: Any) -> Result:
    """What a turn of *function* gives while *during*, called with its session, is done."""

    async def main() -> Result:
        backend = ActorBackend()
        session = await backend.start(turn_of(function, **values), Heard())
        task = asyncio.ensure_future(session.result())
        for _ in range(5):
            await asyncio.sleep(0)
        if during is not None:
            await during(session, task)
        try:
            found = await asyncio.wait_for(task, 60)
            assert not task.cancelling()
        finally:
            await backend.close()
        return found

    return asyncio.run(main())


async def interrupted(session: Any, task: "asyncio.Task[Any]") -> None:
    """Twice, as an owner that asks again does."""
    await session.interrupt()
    await session.interrupt()


def test_a_function_is_interrupted_whatever_it_does_about_it() -> None:
    """It is told by a cancellation; what it answers then, or raises, does not count."""
    MOMENTS.clear()
    for function in (hangs, clings, breaks_while_it_ends):
        found = result_of(function, interrupted)
        assert (type(found), getattr(found, "kind", "")) == (Failure, "interrupted"), function
    assert MOMENTS == ["ended"]


def test_a_function_that_ignores_its_cancellation_is_abandoned() -> None:
    """The second interrupt does not wait for it, nor does a time-out for long; the record says so."""

    async def twice(session: Any, task: "asyncio.Task[Any]") -> None:
        first = asyncio.create_task(session.interrupt())
        await asyncio.sleep(0)
        await session.interrupt()
        await first

    assert result_of(clings_on, twice) == Failure(kind="interrupted", reason=ABANDONED)
    assert result_of(clings_on, timeout=0.05) == Failure(kind="timeout", reason=f"no answer within 0.05 s; {ABANDONED}")
    late = result_of(clings, timeout=0.05)
    assert late == Failure(kind="timeout", reason="no answer within 0.05 s")


def test_an_owner_ends_though_a_function_ignores_its_cancellation() -> None:
    """It is cancelled once, as its owner does when it ends."""

    async def cancelled(session: Any, task: "asyncio.Task[Any]") -> None:
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        result_of(clings_on, cancelled)


def test_a_turn_that_is_interrupted_before_it_begins_calls_nothing() -> None:
    """The session knows it before `result` is awaited."""

    async def main() -> Result:
        session = await ActorBackend().start(turn_of(hangs), Heard())
        await session.interrupt()
        assert not await session.steer("hurry")
        return await session.result()

    MOMENTS.clear()
    found = asyncio.run(main())
    assert isinstance(found, Failure)
    assert found.kind == "interrupted"
    assert not MOMENTS


def test_a_wait_that_is_cancelled_cancels_the_function() -> None:
    """The owner ends: the cancellation is its own, also beside an interrupt."""

    async def cancelled(session: Any, task: "asyncio.Task[Any]") -> None:
        task.cancel()

    async def both(session: Any, task: "asyncio.Task[Any]") -> None:
        interrupting = asyncio.create_task(session.interrupt())
        await asyncio.sleep(0)
        task.cancel()
        await interrupting

    for during in (cancelled, both):
        MOMENTS.clear()
        with pytest.raises(asyncio.CancelledError):
            result_of(hangs, during)
        assert MOMENTS == ["ended"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (cancels_its_own, "CancelledError"),
        (waits_too_long_itself, "TimeoutError"),
        (leaves, "SystemExit: 3"),
        (leaves_the_loop, "SystemExit: 3"),
        (interrupts, "KeyboardInterrupt"),
    ],
)
def test_what_a_function_raises_is_a_crash_of_its_turn(
    function: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what would end a task, an event loop or a process; the trace begins in the function."""
    monkeypatch.setattr("signal.getsignal", lambda number: None)
    found = result_of(function)
    assert isinstance(found, Failure)
    assert found.kind == "crashed"
    assert found.reason.startswith(f"{function.__name__} crashed: {reason}")
    assert re.search(r"test_flow_function_turns\.py:\d+:\d+\)$", found.reason)
    assert "actors/functions.py" not in found.log


def test_a_function_has_the_time_of_a_turn() -> None:
    """Its timeout is said, and is not the timeout of something in it."""
    found = result_of(hangs, timeout=0.05)
    assert found == Failure(kind="timeout", reason="no answer within 0.05 s")
    assert result_of(breaks_while_it_ends, timeout=0.05) == Failure(kind="timeout", reason="no answer within 0.05 s")
    own = result_of(waits_too_long_itself, timeout=60.0)
    assert isinstance(own, Failure)
    assert own.kind == "crashed"
    assert isinstance(result_of(leaves, timeout=60.0), Failure)


def test_a_function_may_change_what_it_is_given() -> None:
    """What the run keeps is not what the function has in hand."""
    context = {"input": {"input": ["tea"]}}

    async def main() -> Result:
        asking = request(agent("spoils", backend="actor", options={"type": f"{__name__}:spoils"}), context=context)
        return await (await ActorBackend().start(asking, Heard())).result()

    found = asyncio.run(main())
    assert isinstance(found, Answer)
    assert found.outputs == {"result": ["tea", "spoilt"]}
    assert context == {"input": {"input": ["tea"]}}


def test_what_a_journal_cannot_give_back_is_no_answer() -> None:
    """A value in itself, and a NaN, which is read as None: a resumed run would have another answer."""
    for function, why in (
        (endless, "is not JSON: maximum recursion"),
        (no_number, "is not JSON: nan at ['scores'][1], which JSON cannot hold: give None or a text in its place"),
    ):
        found = result_of(function)
        assert isinstance(found, Failure)
        assert found.kind == "invalid_output"
        assert found.reason.startswith(f"what {function.__name__}() returned ")
        assert found.reason.count("returned") == 1
        assert why in found.reason
    assert result_of(some_nothing) == Answer(
        text='{"scores": [null], "text": "null"}', outputs={"scores": [None], "text": "null"}
    )


@dataclass
class Review:
    score: int


def untyped():  # type: ignore[no-untyped-def]
    return {"tea": [1]}


def by_number() -> dict[int, str]:
    return {1: "tea"}


def waits_for(prompt: str = "") -> Awaitable[int]:
    async def later() -> int:
        return 7

    return later()


def a_table() -> dict[str, int]:
    return {"tea": 3}


def no_number_today() -> int | None:
    return None


def perhaps_a_review() -> Review | None:
    return Review(score=4)


def runs_out() -> int:
    raise StopIteration


def several_at_once() -> int:
    raise ExceptionGroup("many", [ValueError("one"), ExceptionGroup("deep", [KeyError("two")])])


def closes() -> int:
    raise GeneratorExit


async def closes_itself() -> int:
    raise GeneratorExit


def test_a_function_gives_what_its_type_says() -> None:
    """A table, nothing where nothing is allowed, a record or nothing; what an awaitable gives; and no error hangs."""
    for function, wanted in (
        (waits_for, 7),
        (a_table, {"tea": 3}),
        (no_number_today, None),
        (perhaps_a_review, Review(score=4)),
        (untyped, {"tea": [1]}),
        (by_number, {1: "tea"}),
    ):
        node = coterie.agent(function)
        outcome = asyncio.run(coterie.run(coterie.flow("given", [node], result=node)))
        assert (outcome.status, outcome.result) == ("completed", wanted), function
    plain = coterie.agent("plain", command=["echo", "tea"])
    outcome = asyncio.run(coterie.run(coterie.flow("plain", [plain], result=plain)))
    assert outcome.result.text.strip() == "tea"
    for function, why in (
        (several_at_once, "ValueError: one; KeyError: 'two'"),
        (runs_out, "StopIteration"),
        (closes, "GeneratorExit"),
        (closes_itself, "GeneratorExit"),
    ):
        found = result_of(function)
        assert isinstance(found, Failure)
        assert found.kind == "crashed"
        assert why in found.reason


def test_a_reader_gets_the_answer_whatever_it_says_of_its_type() -> None:
    """Without a type, a text or the outputs by name; a table gets the outputs, too."""
    for type_, outputs, text, wanted in (
        (Any, {}, "tea", "tea"),
        (Any, {"score": 4}, "…", {"score": 4}),
        (Any, {"result": 3}, "…", 3),
        (dict[str, int], {"score": 4}, "…", {"score": 4}),
        (Review | None, {"result": None}, "…", None),
        (Review | None, {"result": {"score": 4}}, "…", Review(score=4)),
        (Review | None, {"score": 4}, "…", Review(score=4)),
    ):
        assert value_of(type_, outputs, text) == wanted, (type_, outputs)
