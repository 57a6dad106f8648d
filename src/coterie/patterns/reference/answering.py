"""Attempts to answer the calls of programs, in this process: the topology object of the run answers."""

import asyncio
from typing import Any

from msgspec.structs import replace

from coterie.backends.base import Answer, Failure, Request, Result
from coterie.errors import CallFailed
from coterie.journal.records import Usage
from coterie.patterns.reference.invocation import split
from coterie.patterns.reference.mixins.base import ReplyRefused
from coterie.patterns.reference.performance import Performance


class Answering:
    """One attempt to answer a call."""

    def __init__(self, performance: Performance, request: Request) -> None:
        self._interrupted = False
        self._task = asyncio.get_running_loop().create_task(self._answer(performance, request))

    async def result(self) -> Result:
        """Wait for the result; cancelling ends the attempt."""
        try:
            return await self._task
        except asyncio.CancelledError:
            if self._interrupted:
                return Failure(kind="interrupted", reason="it was interrupted")
            raise

    async def interrupt(self) -> None:
        """End it."""
        self._interrupted = True
        self._task.cancel()
        await asyncio.wait({self._task})

    async def steer(self, text: str) -> bool:
        """A program cannot be told anything while it answers."""
        return False

    async def _answer(self, performance: Performance, request: Request) -> Result:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await self._respond(performance, request)
        return replace(result, usage=replace(result.usage, seconds=loop.time() - began))

    async def _respond(self, performance: Performance, request: Request) -> Result:
        call = await performance.call(request.turn, request.attempt, request.interrupted)
        try:
            response = await performance.respond(call)
        except CallFailed as failed:
            return Failure(kind=failed.kind, reason=failed.reason, wait=failed.wait, usage=_usage(call.used))
        except ReplyRefused as refused:
            return Failure(kind="invalid_output", reason=str(refused), usage=_usage(call.used))
        except TimeoutError as error:
            return Failure(kind="timeout", reason=told(error), usage=_usage(call.used))
        except Exception as error:  # whatever a user's code raises is why the call failed
            return Failure(kind="failed", reason=told(error), usage=_usage(call.used))
        text, outputs = split(response)
        return Answer(text=text, outputs=outputs, usage=_usage(response.get("usage")))


def told(error: BaseException) -> str:
    """What *error* says; what it is, if it says nothing."""
    return str(error) or type(error).__name__


def _usage(said: Any) -> Usage:
    """What a response says that it used, under the names that providers use."""
    if not isinstance(said, dict):
        return Usage()
    return Usage(
        input_tokens=_number(said, "input_tokens", "prompt_tokens"),
        output_tokens=_number(said, "output_tokens", "completion_tokens"),
        cost=float(said["cost"]) if isinstance(said.get("cost"), int | float) else 0.0,
    )


def _number(said: dict[str, Any], *names: str) -> int:
    return next((n for name in names if isinstance(n := said.get(name), int) and not isinstance(n, bool)), 0)
