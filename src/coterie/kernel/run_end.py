"""The end of a root run: the steps before it, and letting go of a run that can be resumed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from coterie.journal.records import MERGE_CONFLICT, Record, RunFinished, TreesJoined
from coterie.kernel.commands import Turn
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.prompts import how_to_decide
from coterie.kernel.run_exit import RunExit, Waiting
from coterie.kernel.run_tree import RunTree
from coterie.waits import waiting

T = TypeVar("T")
GRACE = 5.0
"""Seconds that a step which is under way has to finish when the owner is cancelled."""


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
        """The state of *root* if its journal ended in *finished*, or it was *stopped* for a reason."""
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
            iterations=root.kind.iterations,
            missing=_missing(root),
            limits=self._tree.ledger.limits,
        )
        if finished is None:
            return ended
        status = "completed" if finished.outcome == "completed" else "failed"
        way_on = _way_on(root, finished) if status == "failed" else ""
        return replace(ended, status=status, reason=finished.reason, result=finished.result, waiting=(), way_on=way_on)

    async def finish(self, root: DrivenRun) -> None:
        """Do what remains before the end of *root*, then write its end."""
        core = root.core
        if not any(isinstance(one, TreesJoined) for one in core.closed) and (joined := await self.joined(root)):
            core.write(self._clock.now(), joined)
        await self._close(root, core.closed, self.ended_as(root, core.end))
        core.finish(self._clock.now())

    async def stop(self, root: DrivenRun, reason: str, goes_on: Callable[[], bool], until: float = 0.0) -> None:
        """Stop the tree below *root* for *reason*, unless it *goes_on* once the steps before the stop are done.

        *until*: when the first of the quotas opens that it waits for.
        """
        await self._close(root, (), self.ended_as(root, None, reason))
        for live in reversed(self._tree.runs.values()) if not goes_on() else ():
            live.core.stop(self._clock.now(), reason, until)

    async def interrupt(self, root: DrivenRun, why: str, reason: str) -> None:
        """Record that the attempts under way were cut off, deepest first, and stop the tree below *root*.

        Args:
            why: The reason of each attempt that is cut off, and *reason* that of the stop.
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
                        live.core.cut_off(now, name, why, live.used(name))
                live.core.stop(now, reason)
            await live.writer.durable(live.core.seq)

    async def joined(self, live: DrivenRun) -> TreesJoined | None:
        """Merge the work of the branches of *live*, if a wave has just been joined."""
        wave = live.kind.unjoined
        return await self._workspace.join_branches(live.run, wave) if wave else None

    async def _close(self, root: DrivenRun, done: Sequence[Record], ended: RunExit) -> None:
        """Do the steps before *root* ends or stops that are not *done*, each recorded before the next begins."""
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
    """Do *work*, and give it `GRACE` seconds to end if the task is cancelled.

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
    """What may help *root*, which has failed; see `RunExit`."""
    if finished.reason == MERGE_CONFLICT:
        return "merge"
    if root.core.at_fault:
        return "retry"
    return "fork" if root.core.ending is not None else ""


def _question(live: DrivenRun, turn: Turn) -> str:
    name = turn.ask.turn
    return (
        how_to_decide(name, live.core.parked_for(name))
        if name in live.held
        else live.core.duties.render(live.core, turn)
    )


def _missing(root: DrivenRun) -> tuple[str, ...]:
    """The values that conditions read and that the latest turns of their agents have not given."""
    latest = root.core.latest
    return tuple(
        f"{agent}.{field}"
        for agent, field in root.core.missing
        if agent not in latest or latest[agent].outputs.get(field) is None
    )
