"""A run that goes on in the background: its events as they happen, and its outcome."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from coterie.errors import UsageError
from coterie.journal.records import Record
from coterie.runs.outcome import Outcome

R = TypeVar("R")
Observing = Callable[[str, Record], None]


class RunEvent(Struct, frozen=True):
    """A durable record of a run.

    Attributes:
        run: The id of the run, or of one of its child runs.
    """

    run: str
    record: Record

    @property
    def topic(self) -> str:
        """What happened: `turn.finished`."""
        return str(type(self.record).__struct_config__.tag)


class StartedRun(Generic[R]):
    """A run in its task: iterate over it for its events, await it for its outcome.

        run = coterie.start(team, "tea")
        async for event in run:
            print(event.run, event.topic)
        outcome = await run

    Each iterator yields the records of the run and its child runs in order, from the first, and ends with the run, or
    raises what the run raises; none of them slows it down. The run goes on if nothing awaits it, until the event loop
    ends.

    Args:
        begin: Starts the run; it is given what hears each durable record.

    Raises:
        UsageError: No event loop runs, in which the run could go on.
    """

    def __init__(self, begin: Callable[[Observing], Awaitable[Outcome[Any]]]) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            without = "outcome = asyncio.run(coterie.run(team, …))"
            raise UsageError(
                f"a run is started in an event loop: call it in an `async def`, or write {without}"
            ) from None
        self._seen: list[RunEvent] = []
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(begin(self._hear))
        self._task.add_done_callback(lambda _: self._changed.set())

    @property
    def id(self) -> str:
        """The id of the run; empty until its first record is durable."""
        return self._seen[0].run if self._seen else ""

    def __await__(self) -> "Generator[Any, None, Outcome[R]]":
        """Wait for the outcome. Cancelling this wait leaves the run alone: `cancel` ends it."""
        return asyncio.shield(self._task).__await__()

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        at = 0
        while True:
            self._changed.clear()
            while at < len(self._seen):
                yield self._seen[at]
                at += 1
            if self._task.done():
                if not self._task.cancelled() and (error := self._task.exception()) is not None:
                    raise error
                return
            await self._changed.wait()

    async def cancel(self) -> "Outcome[R]":
        """Interrupt the run, once it has begun, and return its outcome, `stopped`; `coterie.resume` continues it."""
        while not self._seen and not self._task.done():  # there is no run yet that could be continued
            self._changed.clear()
            await self._changed.wait()
        self._task.cancel()
        return await asyncio.shield(self._task)

    def _hear(self, run: str, record: Record) -> None:
        self._seen.append(RunEvent(run, record))
        self._changed.set()
