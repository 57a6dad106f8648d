"""The driver of a run and its child runs: asyncio around `coterie.kernel.core`.

The way of one turn
-------------------
1. A record makes the engine want a turn (`Fold.apply` calls `Engine.step`; what follows is in `Fold.todo`).
2. `RunTree.pump` has the core carry out what there is room for: it renders the prompt, writes the intent, a
   `turn.started`, and leaves a `Start` in the outbox of the run.
3. `_leave` makes the journal durable, one sync for all runs that wait, and only then lets the outbox go: an agent that
   was called is always in the journal, so the next owner knows of it. The task of an attempt is made while the disk
   works, since it cannot take its first step before the event loop turns.
4. `Attempts` runs the attempt as a task. Whatever it says becomes an event in the one `EventQueue`.
5. `_drain` handles the events one by one, without an `await`: `AttemptInputs.accept` has the core judge the message,
   write what the journal says of it, and step the engine. That may want further turns: 2.
6. When nothing is queued, `_advance` waits; when nothing runs either, it says why the run stops.

So order is given at once and durability in groups. A failure of the journal ends this owner at once: every attempt is
ended, nothing more leaves, and the run is resumed from what is on disk. Being killed is the same failure: whatever is
lost was not durable, so nothing outside the process depends on it.

What leaves is performed in `effects`; turns that are child runs are in `children`, driven here too under the same
limits; what waits for a time is in `timers`. Taking over from another owner begins in `opening` and ends in `takeover`.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.clock import iso_time
from coterie.errors import CoterieError, JournalFailed, Shortage
from coterie.journal.records import Record
from coterie.kernel.approvals import Approvals
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.effects import Effects
from coterie.kernel.event_queue import Event, EventQueue
from coterie.kernel.external_reads import ExternalReads
from coterie.kernel.kind import Observe
from coterie.kernel.opening import RootOpening, RunOpening
from coterie.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.kernel.run_end import uncut
from coterie.kernel.run_exit import RunExit
from coterie.kernel.run_tree import RunTree
from coterie.kernel.takeover import Takeover
from coterie.planning.plan import Plan
from coterie.shortages import shortage


class _StopWanted(Exception):
    """An operator wants the run to stop."""


class Shell:
    """Drives one root run and its children to their end, or until it must let go.

    Attributes:
        tree: The runs that are driven.
        inputs: Takes what attempts say while an event is handled (`post`), and *approvals* what people say.
        events: What attempts do while they run; a terminal or a watcher subscribes to them.
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
        """Start *run*, asking the topology of *plan* for *given*, and drive it.

        Raises:
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        return await self._drive(lambda: self._opening.open_root(run, plan, given, opening or RootOpening()))

    async def resume(self, run: str, plan: Plan, opening: RootOpening | None = None) -> RunExit:
        """Take over *run* and drive it on under *plan*.

        Raises:
            RunIsOwned, RunIsFinished, JournalUnreadable, ReplayMismatch: If it cannot be taken over.
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        return await self._drive(lambda: self._opening.open_root(run, plan, None, opening or RootOpening()))

    def post(self, event: Event) -> None:
        """Have *event* handled in its turn, in one piece, as everything else that happens to the run."""
        self._queue.put(0, event)

    def watch(self, watcher: Observe) -> None:
        """Call *watcher* with each record once it has its place; see `RunTree.watch`."""
        self.tree.watch(watcher)

    def attempt_folder(self, run: str, turn: str, attempt: int) -> Path | None:
        """The folder of an attempt, or None when nothing is kept on disk."""
        return self._files.attempt_folder(run, turn, attempt)

    def expect(self) -> None:
        """Do not let go of the run for want of a human before `arrived`: somebody looks whether there is an answer."""
        self._expected += 1

    def arrived(self) -> None:
        """What was expected has been posted, or will not come."""
        self._expected -= 1
        self._queue.wake()

    def adjust_external_tasks(self, change: int) -> None:
        """Count tasks outside the run that may post events: while there are any, the run is not stuck."""
        self._external_tasks += change
        self._queue.wake()

    def defer_sync(self, turns: int) -> None:
        """Let other tasks run for up to *turns* turns of the event loop before the next sync, to share it."""
        self._deferrals = turns

    def hand_over(self) -> None:
        """Come to rest without a record that says so: another owner continues the run.

        Nothing starts any more, and the attempts under way come to their results. Questions to humans, child runs and
        retries that wait are left to the next owner.
        """
        self._handing_over = True
        self.tree.start_nothing()
        self._queue.wake()

    def lack(self, what: str) -> None:
        """Stop the run, which can be resumed, because the machine lacks *what*; nothing starts any more."""
        self._lacks = self._lacks or what
        self.tree.start_nothing()
        self._queue.wake()

    def stop(self, reason: str) -> None:
        """Interrupt what is under way, and stop the run for *reason*; it can be resumed."""
        self._stops = self._stops or reason
        self.tree.start_nothing()
        self._queue.wake()

    @property
    def steps(self) -> list[Record]:
        """The steps before the end of the root run, or before a stop, that this owner did."""
        return self._end.steps

    @property
    def runs(self) -> Mapping[str, DrivenRun]:
        """The runs that are driven, by id, the root first."""
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
                await self._queue.wait()
        except asyncio.CancelledError:
            if root is not None:
                await self._let_nothing_start()
                await self._end.interrupt(root, "interrupted", "interrupted")
            raise
        except GeneratorExit:  # with its loop, as the workflows of a node that ends: nothing can be awaited any more
            is_dropped = True
            raise
        except _StopWanted:
            assert root is not None
            await self._let_nothing_start()
            await self._end.interrupt(root, "interrupted", self._stops)
        except BaseException as error:
            lacks = shortage(error)
            root = next(iter(self.runs.values()), None)
            if not lacks or root is None or isinstance(error, JournalFailed) or not root.is_whole:
                self._queue.clear()  # this owner is over: nothing is judged any more
                raise
            await self._let_nothing_start()
            await self._end.interrupt(root, "shortage", f"shortage: {lacks}")
        finally:
            if not is_dropped:
                await self._close()
        return self.ended(root)

    async def _advance(self, root: DrivenRun) -> bool:
        """Handle all that has happened and let what follows leave; whether that is the end, and durable."""
        while True:
            self._drain()
            if self._external_reads.pending:
                self.defer_sync(1)  # what is at hand is answered at once, and shares the sync
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
        """Whether the run is to be handed over, and nothing of it is under way or about to stop."""
        if self._queue or self._external_reads.pending or self.tree.ledger.busy:
            return False
        return not self._engine_stops()

    def _drain(self) -> None:
        """Handle all that has happened. Attempts that ended together count in the order their turns were started."""
        while self._queue.handle():
            self.tree.pump_queued()
        self._effects.approver_calls.end_answered()

    async def _let_programs_go_on(self) -> None:
        """Give programs their turns before a sync, until something is to leave that waits for it."""
        while self._deferrals and not all(live.is_durable for live in self.runs.values()):
            self._deferrals -= 1
            await asyncio.sleep(0)
            if self._queue:
                self._drain()
                if any(live.outbox for live in self.runs.values()):
                    break
        self._deferrals = 0

    async def _leave(self) -> None:
        """Let what follows leave: once all that was appended before is durable, which one sync serves for all."""
        while waiting := self.tree.waiting():
            for live in waiting:
                if live.reap is not None:
                    launched, live.reap = live.reap, None
                    await self._takeover.adopt_or_end(live, launched)
            unsafe = [live for live in waiting if not live.is_durable]
            if all(live.writer.begin() for live in unsafe):
                for live in waiting:
                    self._effects.start_agents(live)
                for live in unsafe:
                    if not live.writer.sync():  # its store broke its promise, and agents are about to start
                        raise JournalFailed(live.run, "records are not durable after a sync")
            else:
                await asyncio.gather(*(live.writer.durable(live.core.seq) for live in unsafe))
            leaving = [(live, live.outbox) for live in waiting if live.outbox or live.unseen]
            for live, _ in leaving:
                live.outbox = []  # what is put there from here on waits for the next sync
            for live, outbox in leaving:
                self.tree.show(live)
                for effect in outbox:
                    await self._effects.perform(live, effect)
            for live in reversed(waiting):
                if live.core.finished is not None and not live.parent_notified and live.has_left:
                    await self._effects.children.notify_parent(live)

    def _reason_to_stop(self) -> str:
        """Why the tree is to be stopped; empty: it goes on."""
        if self._expected or self._external_reads.pending or self.tree.ledger.busy:
            return ""
        retries = self._timers.retries
        humans = [turn.ask.turn in live.held for live in self.runs.values() for turn in live.humans()]
        unseen = all(humans) and not retries  # no terminal shows what a crash cut off: only the inbox answers
        if (retries or humans) and (self._options.listens or not (humans and (self._options.park or unseen))):
            return ""
        opens = self._opens()
        if opens and opens <= self._clock.now():
            return ""
        parked = f"quota until {iso_time(opens)}" if opens else "stuck"
        reason = self.tree.ledger.reached() or self._engine_stops() or ("waiting" if humans else parked)
        return "" if reason == "stuck" and self._external_tasks else reason

    def _opens(self) -> float:
        """When the first of the quotas opens that turns wait for; 0: none does."""
        return min(self._timers.opening, default=0.0)

    def _engine_stops(self) -> str:
        return next((reason for live in self.runs.values() if (reason := live.core.wants_stop)), "")

    async def _close(self) -> None:
        """End every attempt, refuse what still comes, and give the journals up."""
        try:
            await self._let_nothing_start()
        finally:
            runs = list(reversed(self.tree.runs.values()))
            for live in runs:
                await live.writer.close()
            try:
                for live in runs:
                    self.tree.show(live)
            finally:
                await self._turns.close()

    async def _let_nothing_start(self) -> None:
        """End every attempt and handle what had arrived; nothing new starts, and nothing is queued any more."""
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
