"""The end of a root run: its closing steps, and stopping a run that can be resumed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from coterie.base.waits import waiting
from coterie.execution.kernel.commands import Turn
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.prompts import how_to_decide
from coterie.execution.kernel.run_exit import RunExit, Waiting
from coterie.execution.kernel.run_tree import RunTree
from coterie.history.journal.records import MERGE_CONFLICT, Record, RunFinished, TreesJoined

T = TypeVar("T")
GRACE = 5.0
"""Seconds for a running step to finish when the owner is cancelled."""


class RunEnd:
    """Ends a root run, or stops it.

    Attributes:
        steps: The records of the finalizers that this owner ran.
    """

    def __init__(self, tree: RunTree) -> None:
        self._tree, self._clock = tree, tree.ports.clock
        self._finalizers, self._workspace = tree.ports.finalizers, tree.ports.workspace
        self.steps: list[Record] = []

    def ended(self, root: DrivenRun) -> RunExit:
        """The state of *root*."""
        return replace(self.ended_as(root, root.core.finished, root.core.stopped), until=root.core.until)

    def ended_as(self, root: DrivenRun, finished: RunFinished | None, stopped: str = "") -> RunExit:
        """The state of *root* if its journal ended with *finished*, or if it was *stopped* for a reason."""
        waiting = tuple(
            Waiting(run=live.run, turn=turn.ask.turn, agent=turn.ask.agent, prompt=_question(live, turn))
            for live in self._tree.runs.values()
            for turn in live.humans()
        )
        ended = RunExit(
            run=root.run,
            status="stopped",
            reason=stopped,
            usage=self._tree.ledger.spent(),
            seconds=root.core.time.seconds,
            waited=root.core.time.waited,
            waiting=waiting,
            iterations=root.kind.project.iterations,
            missing=_missing(root),
            unread=tuple([turn for turn, is_end in root.core.unread_at.items() if is_end]),
            limits=self._tree.ledger.limits,
        )
        if finished is None:
            return ended
        status = "completed" if finished.outcome == "completed" else "failed"
        way_on = _way_on(root, finished) if status == "failed" else ""
        return replace(ended, status=status, reason=finished.reason, result=finished.result, waiting=(), way_on=way_on)

    async def finish(self, root: DrivenRun) -> None:
        """Run the remaining closing steps of *root*, then write its end."""
        core = root.core
        if not any(isinstance(one, TreesJoined) for one in core.closed) and (joined := await self._last(root)):
            core.write(self._clock.now(), joined)
        await self._close(root, core.closed, self.ended_as(root, core.end))
        core.finish(self._clock.now())

    async def stop(self, root: DrivenRun, reason: str, goes_on: Callable[[], bool], until: float = 0.0) -> None:
        """Run the closing steps, then stop the tree below *root* for *reason*, unless *goes_on* is true by then.

        *until*: when the first quota opens that the tree waits for.
        """
        await self._close(root, (), self.ended_as(root, None, reason))
        for live in reversed(self._tree.runs.values()) if not goes_on() else ():
            live.core.stop(self._clock.now(), reason, until)

    async def interrupt(self, root: DrivenRun, why: str, reason: str, by: str = "") -> None:
        """Record that the running attempts were cut off, deepest first, and stop the tree below *root*.

        Args:
            why: The reason for cutting off the attempts; *reason* is that of the stop, and *by* who wanted it.
        """
        if root.core.is_live and root.core.ending is None:
            with suppress(asyncio.CancelledError):
                await self._close(root, (), self.ended_as(root, None, reason))
        now = self._clock.now()
        for live in reversed(self._tree.runs.values()):
            if live.is_whole:
                for name, turn in list(live.core.turns.items()):
                    cut = live.core.takes_a_slot(turn.ask.agent) and not live.core.has_answered(name)
                    if turn.status == "running" and cut:
                        attempt = live.attempt(name)
                        live.core.cut_off(now, name, why, attempt.used, attempt.abandoned)
                live.core.stop(now, reason, by=by)
            with suppress(asyncio.CancelledError):  # its end makes them durable, too
                await live.writer.durable(live.core.seq)

    async def _last(self, root: DrivenRun) -> TreesJoined | None:
        return await self.joined(root) or await self._workspace.end_trees(root.run)

    async def joined(self, live: DrivenRun) -> TreesJoined | None:
        """Merge the work of the branches of *live*, if a wave has just been joined."""
        wave = live.kind.project.unjoined
        return await self._workspace.join_branches(live.run, wave) if wave else None

    async def _close(self, root: DrivenRun, done: Sequence[Record], ended: RunExit) -> None:
        """Run the closing steps of *root* that are not *done*; each is recorded before the next begins."""
        while step := await self._finalizers.next_step(root.plan, done, ended):
            await root.writer.durable(root.core.seq)
            with waiting("the closing steps of the run"):
                record, was_cancelled = await uncut(step)
            done = (*done, root.core.write(self._clock.now(), record))
            self.steps.append(record)
            if root.core.end is not None:
                ended = self.ended_as(root, root.core.end)
            if was_cancelled:
                raise asyncio.CancelledError


async def uncut(work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
    """Await *work*; if the task is cancelled meanwhile, give the work `GRACE` seconds to finish.

    Returns its result, and whether the task was cancelled. Raises `CancelledError` if the time was too short.
    """
    task = asyncio.ensure_future(work())
    try:
        return await asyncio.shield(task), False
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=GRACE)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        return task.result(), True


def _way_on(root: DrivenRun, finished: RunFinished) -> str:
    """How *root*, which has failed, can be continued; see `RunExit`."""
    if finished.reason == MERGE_CONFLICT:
        return "merge"
    if root.core.at_fault:
        return "retry"
    return "fork" if root.core.ending is not None else ""


def _question(live: DrivenRun, turn: Turn) -> str:
    name = turn.ask.turn
    return (
        how_to_decide(name, live.core.parked_for(name))
        if turn.held is not None
        else live.core.duties.render(live.core, turn)[0]
    )


def _missing(root: DrivenRun) -> tuple[str, ...]:
    """The values that conditions read but that the latest turns of their agents did not give."""
    latest = root.core.latest
    return tuple(
        f"{agent}.{field}"
        for agent, field in root.core.unread
        if agent not in latest or latest[agent].outputs.get(field) is None
    )
