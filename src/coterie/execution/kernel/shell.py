"""The driver of a run and its child runs: asyncio around `coterie.execution.kernel.core`.

The way of one turn
-------------------
1. A record makes the engine want a turn (`Fold.apply` calls `Engine.step` and puts its commands into `Fold.todo`).
2. `RunTree.pump` makes the core carry out the commands for which there is room: it renders the prompt, writes the
   intent, a `turn.started`, and puts a `Start` into the outbox of the run.
3. `_leave` makes the journal durable, with one sync for all waiting runs, and only then performs the outbox: an agent
   that was called is always in the journal, so the next owner knows of it. The task of an attempt is made while the
   disk works, since it cannot take its first step before the event loop turns.
4. `Attempts` runs the attempt as a task. Each input from it becomes an event in the one `EventQueue`.
5. `_drain` handles the events one by one, without an `await`: `AttemptInputs.accept` makes the core judge the input,
   write the resulting record, and step the engine. If that wants further turns, go to 2.
6. When nothing is queued, `_advance` waits; when nothing runs either, it stops the run and records the reason.

So records get their order at once, but become durable in groups. A failure of the journal ends this owner at once:
every attempt is ended, nothing more leaves, and the run is resumed from the records on disk. Being killed is the same
failure: whatever is lost was not durable, so nothing outside the process depends on it.

`effects` performs effects, `children` drives turns that are child runs, under the same limits, and `timers` waits for
points in time. Taking over from another owner begins in `opening` and ends in `takeover`.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from coterie.agents.backends.base import AttemptRef
from coterie.base.clock import iso_time
from coterie.base.shortages import shortage
from coterie.base.user_code import PERSON
from coterie.errors import CoterieError, JournalFailed, Shortage, UsageError
from coterie.execution.kernel.approvals import Approvals
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.effects import Effects
from coterie.execution.kernel.event_queue import Event, EventQueue, ExternalReads
from coterie.execution.kernel.opening import RootOpening, RunOpening
from coterie.execution.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.execution.kernel.project import Observe
from coterie.execution.kernel.run_end import uncut
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.takeover import Takeover
from coterie.history.journal.records import WAITING, Record
from coterie.team.planning.plan import Plan


class _StopWanted(Exception):
    """An operator wants the run to stop."""


class Shell:
    """Drives one root run and its child runs to their end, or until the run stops.

    Attributes:
        tree: The driven runs.
        inputs: Accepts inputs from attempts while an event is handled (`post`); *approvals* accepts those from people.
        events: The events of running attempts; a terminal or a watcher subscribes to them.
        opened: Set once the root run is claimed and begun or continued.
    """

    def __init__(
        self, ports: RunPorts, options: OwnerOptions | None = None, observers: Observers | None = None
    ) -> None:
        options, observers = options or OwnerOptions(), observers or Observers()
        self._clock, self._files, self._workspace = ports.clock, ports.files, ports.workspace
        self._turns, self._options = ports.turns, options
        self._queue = EventQueue(ports.make_task)
        self._external_reads = ExternalReads(self._queue)
        self.tree = RunTree(ports, options, observers, self._external_reads)
        self.inputs = AttemptInputs(self.tree)
        self.approvals = Approvals(self.tree, self.inputs)
        self._opening = RunOpening(self.tree, self.inputs)
        self._effects = Effects(self.tree, self._opening, self.inputs, self.approvals, self._queue, self.lack)
        self._attempts, self._timers = self._effects.attempts, self._effects.timers
        self.events = self._attempts.events
        self._takeover = Takeover(self.tree, self.inputs, self._attempts, self._effects.timed)
        self._end = self._effects.end
        self._expected = 0
        self._external_tasks = 0
        self._deferrals = 0
        self._lacks = self._stops = ""
        self._handing_over = False
        self.opened = asyncio.Event()

    # -- from outside -------------------------------------------------------------------------------------------------

    async def start(self, run: str, plan: Plan, given: dict[str, Any], opening: RootOpening | None = None) -> RunExit:
        """Start *run* of *plan* with the input *given*, and drive it.

        Raises:
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        return await self._drive(lambda: self._opening.open_root(run, plan, given, opening or RootOpening()))

    async def resume(self, run: str, plan: Plan, opening: RootOpening | None = None) -> RunExit:
        """Take over *run* and continue it under *plan*.

        Raises:
            RunIsOwned, RunIsFinished, JournalUnreadable, ReplayMismatch: If it cannot be taken over.
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        return await self._drive(lambda: self._opening.open_root(run, plan, None, opening or RootOpening()))

    def post(self, event: Event) -> None:
        """Queue *event*, which is handled atomically, as all events of the run are."""
        self._queue.put(0, event)

    def watch(self, watcher: Observe) -> None:
        """Call *watcher* with each record as soon as it is appended; see `RunTree.watchers`."""
        self.tree.watchers.append(watcher)

    def attempt_folder(self, ref: AttemptRef) -> Path | None:
        """The folder of an attempt, or None when nothing is kept on disk."""
        return self._files.attempt_folder(ref)

    def expect(self) -> None:
        """Keep the run from stopping until `arrived` is called, since an answer may be on its way."""
        self._expected += 1

    def arrived(self) -> None:
        """Undo one `expect`: the answer has been posted, or will not come."""
        self._expected -= 1
        self._queue.wake()

    def adjust_external_tasks(self, change: int) -> None:
        """Adjust the number of external tasks that may post events; while there are any, the run is not stuck."""
        self._external_tasks += change
        self._queue.wake()

    def defer_sync(self, turns: int) -> None:
        """Let other tasks run for up to *turns* turns of the event loop before the next sync, to share it."""
        self._deferrals = turns

    def hand_over(self) -> None:
        """Finish running attempts, then release the run to another owner without a record of the stop.

        Nothing new starts. Questions to humans, child runs and waiting retries are left to the next owner.
        """
        self._handing_over = True
        self.tree.start_nothing()
        self._queue.wake()

    def lack(self, what: str) -> None:
        """Stop the run, which can be resumed, because the machine lacks *what*; nothing new starts."""
        self._lacks = self._lacks or what
        self.tree.start_nothing()
        self._queue.wake()

    def stop(self, reason: str) -> None:
        """Interrupt running attempts, and stop the run for *reason*; it can be resumed."""
        self._stops = self._stops or reason
        self.tree.start_nothing()
        self._queue.wake()

    @property
    def steps(self) -> list[Record]:
        """The closing steps of the root run that this owner performed."""
        return self._end.steps

    @property
    def runs(self) -> Mapping[str, DrivenRun]:
        """The driven runs by id, the root first."""
        return self.tree.runs

    def ended(self, root: DrivenRun) -> RunExit:
        """The state of *root*."""
        return self._end.ended(root)

    # -- from the beginning to the end --------------------------------------------------------------------------------

    async def _drive(self, open_root: Callable[[], DrivenRun]) -> RunExit:
        root: DrivenRun | None = None
        is_dropped = False
        try:
            root = open_root()
            self.opened.set()
            if root.core.is_live and self._workspace.lacks_tree(root.core.trees):
                await self._make_tree(root)
            while not await self._advance(root):
                if await self._queue.wait():
                    self._timers.record_suspension(self.tree.runs.values())
        except asyncio.CancelledError as error:
            if root is not None:
                by = PERSON if error.args == (PERSON,) else "process"
                await self._interrupt(root, "interrupted", "interrupted", by)
            raise
        except (
            GeneratorExit
        ):  # dropped together with its loop, as the workflows of a node that ends: nothing can be awaited any more
            is_dropped = True
            raise
        except _StopWanted:
            assert root is not None
            await self._interrupt(root, "interrupted", self._stops, PERSON)
        except BaseException as error:
            lacks = shortage(error)
            root = next(iter(self.runs.values()), None)
            if not lacks or root is None or isinstance(error, JournalFailed) or not root.is_whole:
                self._queue.clear()  # this owner is over: nothing is judged any more
                raise
            await self._interrupt(root, "shortage", f"shortage: {lacks}")
        finally:
            if not is_dropped:
                await self._close()
        return self.ended(root)

    async def _advance(self, root: DrivenRun) -> bool:
        """Handle all events and perform their effects; return whether the run is over for this owner, durably."""
        while True:
            self._drain()
            if self._external_reads.pending:
                self.defer_sync(1)  # reads that can be answered at once share the next sync
            if self._lacks and not root.core.finished:
                raise Shortage(self._lacks)
            if self._stops and not root.core.finished:
                raise _StopWanted
            if self._deferrals:
                await self._let_programs_go_on()
            await self._leave()
            if root.core.finished or root.core.stopped or (self._handing_over and self._is_at_rest()):
                return True
            if not self._queue:
                reason = self._reason_to_stop()
                if not reason:
                    return False
                await self._end.stop(root, reason, lambda: bool(self._queue), self._opens())

    def _is_at_rest(self) -> bool:
        """Whether nothing of a run that is handed over is in progress or about to stop."""
        if self._queue or self._external_reads.pending or self.tree.ledger.busy:
            return False
        return not self._engine_stops()

    def _drain(self) -> None:
        """Handle all events. Attempts that ended together count in the order in which their turns started."""
        while self._queue.handle():
            self.tree.pump_queued()
        if self._effects.approver_calls.open:
            self._effects.approver_calls.end_answered()

    async def _let_programs_go_on(self) -> None:
        """Let programs continue before a sync, until an effect waits for that sync."""
        while self._deferrals and not all(live.writer.is_durable(live.core.seq) for live in self.tree.waiting()):
            self._deferrals -= 1
            await asyncio.sleep(0)
            if self._queue:
                self._drain()
                if any(live.outbox for live in self.tree.waiting()):
                    break
        self._deferrals = 0

    async def _leave(self) -> None:
        """Make all appended records durable, with one sync for all runs, then perform the outboxes."""
        while waiting := self.tree.waiting():
            unsafe, leaving = [], []
            for live in waiting:
                if live.reap is not None:
                    launched, live.reap = live.reap, None
                    await self._takeover.adopt_or_end(live, launched)
                if not live.writer.is_durable(live.core.seq):
                    unsafe.append(live)
            if not unsafe or all(live.writer.begin() for live in unsafe):
                for live in waiting:
                    self._effects.start_agents(live)
                for live in unsafe:
                    if not live.writer.sync():  # the store broke its promise, and agents are about to start
                        raise JournalFailed(live.run, "records are not durable after a sync")
            else:
                await asyncio.gather(*(live.writer.durable(live.core.seq) for live in unsafe))
            for live in waiting:
                if live.outbox or live.unseen:
                    leaving.append((live, live.outbox))
                    live.outbox = []  # effects that are added from here on wait for the next sync
            for live, outbox in leaving:
                self.tree.show(live)
                for effect in outbox:
                    await self._effects.perform(live, effect)
            for live in reversed(waiting):
                if live.core.finished is not None and not live.parent_notified and live.has_left:
                    await self._effects.children.notify_parent(live)

    def _reason_to_stop(self) -> str:
        """Why the tree must stop; empty: it continues."""
        if self._expected or self._external_reads.pending or self.tree.ledger.busy:
            return ""
        retries = self._timers.retries
        humans = [turn.held is not None for live in self.runs.values() for turn in live.humans()]
        unseen = all(humans) and not retries  # no terminal shows what a crash cut off: only the inbox answers
        if (retries or humans) and (self._options.listens or not (humans and (self._options.park or unseen))):
            return ""
        opens = self._opens()
        if opens and opens <= self._clock.now():
            return ""
        what = "asleep" if opens in self._timers.sleeps else "quota"
        parked = f"{what} until {iso_time(opens)}" if opens else "stuck"
        reason = self.tree.ledger.reached() or self._engine_stops() or (WAITING if humans else parked)
        return "" if reason == "stuck" and self._external_tasks else reason

    def _opens(self) -> float:
        """When the first quota opens that turns wait for; 0: they wait for none."""
        return min(self._timers.opening, default=0.0)

    def _engine_stops(self) -> str:
        return next((reason for live in self.runs.values() if (reason := live.core.wants_stop)), "")

    async def _close(self) -> None:
        """End every attempt, refuse later events, and close the journals."""
        try:
            await self._let_nothing_start()
        finally:
            runs = list(reversed(self.tree.runs.values()))
            for live in runs:
                live.kind.close()
                await live.writer.close()
            try:
                for live in runs:
                    self.tree.show(live)
            finally:
                await self._turns.close()
                await self._workspace.end()

    async def _interrupt(self, root: DrivenRun, why: str, reason: str, by: str = "") -> None:
        """End every attempt, and record that; a further cancellation ends the attempts sooner, not this."""
        is_over = False
        while not is_over:
            with suppress(asyncio.CancelledError):
                await self._let_nothing_start()
                is_over = True
        await self._end.interrupt(root, why, reason, by)

    async def _let_nothing_start(self) -> None:
        """End every attempt and handle the events that have arrived; nothing new is started or queued."""
        await self._attempts.end()
        await self._effects.approver_calls.end()
        await self._external_reads.end()
        self.tree.start_nothing()
        self._queue.close()
        self._queue.handle()

    async def _make_tree(self, root: DrivenRun) -> None:
        """Make the work tree of the root run once its beginning is durable; if that fails, the run stops."""
        await root.writer.durable(root.core.seq)
        try:
            made, was_cut = await uncut(self._workspace.make_tree)
        except (CoterieError, OSError):
            root.core.stop(self._clock.now(), "worktree")
            raise
        if made is not None:
            root.core.write(self._clock.now(), made)
        if was_cut:
            raise asyncio.CancelledError
        if (prepared := await self._workspace.prepare_tree(root.run)) is not None:
            root.core.write(self._clock.now(), prepared)
            if prepared.problem:
                root.core.stop(self._clock.now(), "worktree")
                raise UsageError(prepared.problem)
