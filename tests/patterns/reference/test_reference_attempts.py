"""One attempt to answer a call: it ends with its answer, an interruption, or its own cancellation."""

import asyncio
from typing import Any, cast

import pytest

from coterie.agents.backends.base import Answer, Failure, Request
from coterie.base.clock import VirtualClock
from coterie.patterns.reference.attempts import CallAttempt
from coterie.patterns.reference.program_run import ProgramRun
from coterie.team.planning.plan import AgentPlan

REQUEST = Request(run="r", turn="a#1", attempt=1, agent=AgentPlan(name="a"), prompt="?")


class Thinking:
    """A performance whose model thinks until it is let go, or for ever."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def call(self, turn: str, attempt: int, interrupted: int) -> str:
        return turn

    async def respond(self, call: str) -> dict[str, Any]:
        self.begun.set()
        await self.go.wait()
        return {"content": call}


async def begun() -> tuple[Thinking, CallAttempt, "asyncio.Task[Any]"]:
    """An attempt that thinks."""
    model = Thinking()
    attempt = CallAttempt(cast(ProgramRun, model), REQUEST)
    task = asyncio.create_task(attempt.result())
    await model.begun.wait()
    return model, attempt, task


def test_an_interrupted_attempt_has_ended_and_its_task_goes_on() -> None:
    """However often it is interrupted; nothing happens to one that is over."""

    async def main() -> None:
        _, attempt, task = await begun()
        await asyncio.gather(attempt.interrupt(), attempt.interrupt())
        result = await task
        assert isinstance(result, Failure)
        assert (result.kind, task.cancelling()) == ("interrupted", 0)
        await attempt.interrupt()

        model, attempt, task = await begun()
        model.go.set()
        answer = await task
        assert isinstance(answer, Answer)
        assert answer.text == "a#1"
        await attempt.interrupt()

    VirtualClock().run(main())


def test_a_cancelled_attempt_is_cancelled() -> None:
    """Even where it is interrupted, too."""

    async def main() -> None:
        _, _, task = await begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        _, attempt, task = await begun()
        interrupting = asyncio.create_task(attempt.interrupt())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await interrupting

    VirtualClock().run(main())
