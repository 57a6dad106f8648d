"""The attempts under way in this process: each a task of its own, from its start to its one result."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from coterie.agentside.speaking import NOTES_FOLDER
from coterie.backends.base import Answer, Emitted, Event, Failure, Launched, Request, Result
from coterie.engines.commands import Emit, Failed, Reply
from coterie.engines.loop import Loop
from coterie.journal.records import AttemptLaunched, TreeSaved
from coterie.journal.rules import root_of
from coterie.planning.plan import AgentPlan
from coterie.runs.commands import Start
from coterie.runs.core import Said
from coterie.runs.line import Line
from coterie.runs.live import Live, Place
from coterie.runs.looping import surroundings as looping
from coterie.runs.prompts import context
from coterie.runs.turns import Turns, ask


class Attempts:
    """Starts attempts and ends them; what they say comes to *hear*, one by one, through *line*.

    None outlives `end`: it cancels what still runs and waits until it is gone.

    Args:
        cwd: The working directory of the agents.

    Attributes:
        working: Attempts that run now, humans not counted.
    """

    def __init__(
        self,
        turns: Turns,
        place: Place,
        cwd: Path | None,
        line: Line,
        hear: Callable[[Live, Said], object],
    ) -> None:
        self._turns, self._place, self._cwd, self._line, self._hear = turns, place, cwd, line, hear
        self._tasks: set[asyncio.Task[None]] = set()
        self._orders: dict[tuple[str, str], int] = {}
        self.working = 0

    def start(self, live: Live, start: Start, agent: AgentPlan) -> None:
        """Start an attempt of a turn of *live*."""
        order = self.order(live, start.ask.turn)
        work = self._attempt(live, start, agent, order)
        if agent.kind == "human":
            live.attempts[start.ask.turn] = self._own(work, self._gone)
        else:
            self.working += 1
            live.attempts[start.ask.turn] = self._own(work, self._stopped_working)

    def order(self, live: Live, turn: str) -> int:
        """The place of *turn* of *live* among all that were started here, which its attempts share."""
        return self._orders.setdefault((live.run, turn), len(self._orders) + 1)

    def interrupt(self, live: Live, turn: str) -> None:
        """Have the attempt of *turn*, if one runs, end as interrupted."""
        if (session := live.sessions.get(turn)) is not None:
            self._own(session.interrupt(), self._gone)

    async def end(self) -> None:
        """End all that still run, and wait until they have."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _own(self, work: Coroutine[Any, Any, None], gone: Callable[[asyncio.Task[None]], None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(gone)
        return task

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._line.put(0, partial(_raise, error))  # a defect of ours ends the owner, aloud

    def _stopped_working(self, task: asyncio.Task[None]) -> None:
        """Count it off here, not in its own code: a task that is cancelled before its first step never runs any."""
        self.working -= 1
        if not self.working:
            self._line.ring()
        self._gone(task)

    async def _attempt(self, live: Live, start: Start, agent: AgentPlan, order: int) -> None:
        name, attempt = start.ask.turn, start.attempt
        turn = live.core.turns[name]
        request = Request(
            run=live.run,
            turn=name,
            attempt=attempt,
            agent=agent,
            prompt=start.prompt,
            key=f"{live.run}/{name}",
            context=partial(context, live.core, turn),
            interrupted=turn.tally.interrupted,
            folder=self._place.attempt_folder(live.run, name, attempt),
            cwd=self._place.cwd(live.run) or self._cwd,
            here=live.here,
            epoch=live.core.epoch,
            root=self._place.folder(root_of(live.run)),
            env=self._told(live, name),
            history=start.ask.history,
            wanted=start.ask.wanted,
        )
        result = await ask(
            self._turns,
            request,
            partial(self._event, live, name, attempt),
            partial(live.sessions.__setitem__, name),
        )
        saved = None
        try:
            if agent.kind != "human" and not (isinstance(result, Failure) and result.kind == "interrupted"):
                saved = await self._place.saved(live.run, name, attempt)
        finally:  # whoever ends the attempt now still gets what it said
            self._line.put(order, partial(self._answered, live, start, result, saved))

    def _told(self, live: Live, turn: str) -> dict[str, str]:
        """What the process of a turn of a loop is told of it."""
        if not isinstance(live.core.engine, Loop):
            return {}
        files = self._place.files(live.run, live.core.engine.plan, "task")
        where = {NOTES_FOLDER: str(files.run.parent.absolute())} if files is not None and files.run is not None else {}
        return looping.environment(live.core.engine, live.run, turn) | where

    def _answered(self, live: Live, start: Start, result: Result, saved: TreeSaved | None) -> None:
        turn, attempt = start.ask.turn, start.attempt
        if saved is not None:
            self._hear(live, saved)
        match result:
            case Answer(text=text, outputs=outputs, usage=usage):
                prompt = start.prompt
                reply = Reply(turn=turn, attempt=attempt, text=text, outputs=outputs, usage=usage, prompt=prompt)
                self._hear(live, reply)
            case Failure(kind=kind, reason=reason, usage=usage, wait=wait):
                said = Failed(turn=turn, attempt=attempt, kind=kind, reason=reason, usage=usage, wait=wait)
                self._hear(live, said)

    def _event(self, live: Live, name: str, attempt: int, event: Event) -> None:
        match event:
            case Launched(pid=pid, group=group, started=started):
                launched = AttemptLaunched(turn=name, attempt=attempt, pid=pid, group=group, started=started)
                self._line.put(0, lambda: self._hear(live, launched))
            case Emitted(event=topic, payload=payload):
                emit = Emit(turn=name, attempt=attempt, event=topic, payload=payload)
                self._line.put(0, lambda: self._hear(live, emit))
            case _:
                self._place.stream(live.run, name, attempt, event)


def _raise(error: BaseException) -> None:
    raise error
