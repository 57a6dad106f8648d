"""Time-outs of attempts whose owner was stopped: the time in which it could not see them is not theirs."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coterie.agents.backends.attempt_timeout import LATE, SLICE, AttemptTask
from coterie.agents.backends.base import Answer, Failure, Result


class StoppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can jump, as that of a process that was stopped and continued."""

    ahead = 0.0

    def time(self) -> float:
        """The clock, with the time in which the process was stopped."""
        return super().time() + self.ahead


class Program(AttemptTask):
    """A program that ends when it is told to."""

    def __init__(self, timeout: float) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        super().__init__(timeout)
        self._limit_time()

    async def _run(self) -> Result:
        await asyncio.wait({self.ended, self._cut}, return_when=asyncio.FIRST_COMPLETED)
        return Answer(text="done") if self.ended.done() else self._cut.result()


Happening = Callable[[StoppedLoop, Program], Awaitable[object]]


def result_of(happens: Happening) -> Result:
    """The result of a program of at most 100 s while something *happens*."""

    async def main() -> Result:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StoppedLoop)
        program = Program(100.0)
        await asyncio.sleep(0)
        await happens(loop, program)
        return await program.result()

    with asyncio.Runner(loop_factory=StoppedLoop) as runner:
        return runner.run(main())


async def passes(loop: StoppedLoop, seconds: float) -> None:
    """Let time pass in which the process runs."""
    for _ in range(round(seconds * 10)):
        loop.ahead += 0.1
        await asyncio.sleep(0)


async def end(program: Program) -> None:
    """Let the end of *program* be seen in a later round of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)
    if not program.ended.done():
        program.ended.set_result(None)


@pytest.mark.parametrize(("before", "stop"), [(96.0, 1_000.0), (99.9, 0.5), (2.0, 1_000.0)])
def test_an_agent_that_ended_while_its_owner_was_stopped_has_not_failed(before: float, stop: float) -> None:
    """The end is seen after the time-out is due, even if the stop was shorter than a second."""

    async def stopped(loop: StoppedLoop, program: Program) -> None:
        await passes(loop, before)
        loop.ahead += stop
        await end(program)

    assert result_of(stopped) == Answer(text="done")


def test_the_time_in_which_its_owner_was_stopped_is_not_counted() -> None:
    """An agent that had time left has it after the stop, except for the seconds until a stop is noticed."""

    async def stopped(loop: StoppedLoop, program: Program) -> None:
        for _ in range(5):
            await passes(loop, 10.0)
            loop.ahead += 1_000.0
        await passes(loop, 50.0 - 5 * SLICE)
        assert not program.task.done()
        await end(program)

    assert result_of(stopped) == Answer(text="done")


@pytest.mark.parametrize("stop", [0.0, 1_000.0])
def test_one_that_did_not_end_is_cut_off(stop: float) -> None:
    """At once if the owner could see it all the time, else after a moment to report its end."""

    async def stopped(loop: StoppedLoop, program: Program) -> None:
        await passes(loop, 99.0)
        loop.ahead += stop
        await passes(loop, 1.5 + (LATE if stop else 0.0))
        assert program.task.done()

    found = result_of(stopped)
    assert isinstance(found, Failure)
    assert (found.kind, found.reason) == ("timeout", "it took longer than its time-out of 100 s")


def test_waiting_for_a_person_costs_no_time() -> None:
    """However many slices are left."""

    async def held(loop: StoppedLoop, program: Program) -> None:
        await passes(loop, 20.0)
        with program._time_held():
            await passes(loop, 500.0)
        await passes(loop, 78.0)
        assert not program.task.done()
        await passes(loop, 3.0)

    assert isinstance(result_of(held), Failure)
