"""Runs as objects: their events as they happen, their questions to people, and their outcomes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct

from coterie.agents.backends.base import Text, Tool
from coterie.base.user_code import PERSON
from coterie.errors import UsageError
from coterie.execution.kernel.shell import Shell
from coterie.execution.runs import attention, control
from coterie.execution.runs.messages import Verdict
from coterie.execution.runs.mutual_waits import wait_for
from coterie.execution.runs.named_runs import outcome_at
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.run_stream import CHECK_EVERY, RunStream, StreamItem
from coterie.history.journal.records import Record
from coterie.history.views.attention import Attention
from coterie.history.views.live import read_position

R = TypeVar("R")
Fork = Callable[..., Awaitable[Outcome[Any]]]


class RunEvent(Struct, frozen=True):
    """A durable record of a run.

    Attributes:
        run: The id of the run, or of one of its child runs.
        position: How far its reader got; a later reader, in any process, goes on `after` it.
    """

    run: str
    record: Record
    position: str = ""

    @property
    def topic(self) -> str:
        """The topic of the record, such as `turn.finished`."""
        return str(type(self.record).__struct_config__.tag)


class RunText(Struct, frozen=True):
    """A piece of what an agent says while it works; it is not durable, unlike the record of its answer.

    Attributes:
        topic: `text`, `thinking`, `log` or `tool`.
        text: The piece; for a tool its name and input.
        turn: The turn of *run* in which it was said; *attempt* is its attempt.
    """

    run: str
    turn: str
    attempt: int
    topic: str
    text: str
    position: str = ""


class Run(Generic[R]):
    """A run that exists, in this process or in another one; `coterie.get` finds it.

    Args:
        id: Its id.
        runs: Where it is kept.
        fork: Forks it: `coterie.fork`.
    """

    def __init__(self, id: str, runs: Runs, fork: "Fork") -> None:
        self._id, self._runs, self._fork = id, runs, fork

    def __repr__(self) -> str:
        return f"<run {self.id} ({self.status})>"

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._id

    @property
    def status(self) -> str:
        """`running`, `completed`, `failed`, `stopped: REASON`, or `cut off`: its process died, and it can go on."""
        return self._runs.status(self.id)

    def outcome(self) -> Outcome[Any]:
        """Its status by its journal; a run that has not ended is `stopped`."""
        return outcome_at(self._runs, self.id)

    async def events(self, *, text: bool = False, after: str = "") -> AsyncIterator[RunEvent | RunText]:
        """Its records and, with *text*, what every agent below says, thinks and calls; ends when nothing drives it.

        Each file of the run is read in its order, and what an agent says comes before the end of its attempt.

        Args:
            after: The `position` of the last event that an earlier reader got; empty: from the first.

        Raises:
            UsageError: If *after* is no position.
        """
        if not await self._begun():
            return
        stream = RunStream(self._runs, self.id, text=text, after=read_position(after, self.id))
        async with aclosing(self._follow(stream)) as items:
            async for one in items:
                if (event := _event(one, stream.position)) is not None:
                    yield event

    async def _begun(self) -> bool:
        """Wait until it has a journal; False: it will have none."""
        return True

    def _follow(self, stream: RunStream) -> AsyncGenerator[StreamItem, None]:
        return stream.follow()

    def questions(self) -> list[Attention]:
        """What it asks people, oldest first: questions, permissions, and what else waits for them."""
        return attention.open_in(self._runs, self.id)

    def answer(self, turn: str, text: str = "", **outputs: Any) -> Verdict:
        """Answer the question of *turn*; without a process that drives the run, a resume reads it.

        In the event loop that drives the run the verdict is `queued`: it is judged once the caller lets the loop go on.
        """
        return control.answer(self._runs, self.id, turn, text, outputs or None)

    def stop(self) -> Verdict:
        """Stop it where it is driven, as `answer` says; `coterie.resume` continues it."""
        return control.stop(self._runs, self.id)

    async def fork(self, **how: Any) -> Outcome[Any]:
        """Fork it; for the arguments see `coterie.fork`."""
        return await self._fork(self.id, **{"state_dir": self._runs.root, **how})


class Listeners(Struct, frozen=True):
    """How a run reports to its object: each durable record, and the shell that drives it."""

    observe: Callable[[str, Record], None]
    attach: Callable[[Shell], None]


class StartedRun(Run[R]):
    """A run in its own task: iterate over it for its events, await it for its outcome.

        run = coterie.start(team, "tea", id="order-42")
        async for event in run.events(text=True):
            print(event.position, event.topic)
        outcome = await run

    Each iterator yields the events of the run and its child runs in order, and ends with the run or raises the run's
    exception; iterators do not slow the run down, and closing one stops nothing. If nothing awaits the run, it
    continues until the event loop ends.

    Args:
        begin: Starts the run; called with what listens to it.

    Raises:
        UsageError: If no event loop is running.
    """

    def __init__(
        self, id: str, state_dir: Path, begin: Callable[[Listeners], Awaitable[Outcome[Any]]], fork: "Fork"
    ) -> None:
        super().__init__(id, Runs(state_dir), fork)
        self._changed, self._is_driven_here, self._is_found = asyncio.Event(), False, False
        self._task = asyncio.ensure_future(begin(Listeners(self._hear, self._attach)))
        self._task.add_done_callback(lambda _: self._change())

    def __await__(self) -> "Generator[Any, None, Outcome[R]]":
        """Wait for the outcome. Cancelling this wait does not affect the run; `cancel` ends it."""
        self._check_here()
        with wait_for(self.id, is_new=not self.id):
            return (yield from asyncio.shield(self._task).__await__())

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        async for event in self.events():
            if isinstance(event, RunEvent):
                yield event

    def _check_here(self) -> None:
        """Check that the running event loop is the one that drives the run.

        Raises:
            UsageError: If it is another one.
        """
        if not self._task.done() and self._task.get_loop() is not asyncio.get_running_loop():
            again = f"coterie.get({self.id!r}, state_dir={str(self._runs.root)!r})"
            raise UsageError(f"run {self.id} is driven in another event loop: {again} reads, answers and stops it here")

    async def _begun(self) -> bool:
        self._check_here()
        while not self._task.done() and not (self._is_found and self._runs.has_begun(self.id)):
            await self._next(self._changed)
        self._raise()
        return True

    async def _follow(self, stream: RunStream) -> AsyncGenerator[StreamItem, None]:
        has_ended = False
        while not has_ended:
            changed, has_ended = self._changed, self._task.done()
            for one in stream.read():
                yield one
            if not has_ended:
                await self._next(changed)
        self._raise()

    async def _next(self, changed: asyncio.Event) -> None:
        """Wait for *changed*, and not for long where another process drives the run."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self._is_driven_here else CHECK_EVERY):
                await changed.wait()

    def _raise(self) -> None:
        """Raise the exception with which it has ended, if there is one."""
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    async def cancel(self, *, by: str = PERSON) -> "Outcome[R]":
        """Interrupt the run once it has begun, and return its outcome `stopped`; `coterie.resume` continues it.

        Args:
            by: `process` where a program shuts down, so that `coterie.recover` resumes the run.
        """
        self._check_here()
        while not self._task.done() and not self._runs.has_begun(self.id):  # it could not be continued
            await self._next(self._changed)
        self._task.cancel(by)
        return await asyncio.shield(self._task)

    def _hear(self, run: str, record: Record) -> None:
        self._change()

    def _attach(self, shell: Shell) -> None:
        self._is_driven_here = True
        shell.events.subscribe(lambda ref, event: self._change())

    def _change(self) -> None:
        self._is_found = True
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _event(one: StreamItem, position: str) -> RunEvent | RunText | None:
    match one.what:
        case Record():
            return RunEvent(one.run, one.what, position)
        case Text(channel=channel, text=text):
            topic = "text" if channel == "answer" else channel
            return RunText(one.run, one.turn, one.attempt, topic, text, position)
        case Tool(state="started", name=name, detail=detail):
            return RunText(one.run, one.turn, one.attempt, "tool", f"{name} {detail}".rstrip(), position)
    return None


def check_loop() -> None:
    """Check that an event loop runs, in which a run could be started.

    Raises:
        UsageError: If there is none.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        without = "outcome = asyncio.run(coterie.run(team, …))"
        raise UsageError(f"a run is started in an event loop: call it in an `async def`, or write {without}") from None
