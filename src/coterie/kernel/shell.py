"""The driver of a run and its child runs: asyncio around `coterie.kernel.core`.

All that happens passes through one `EventQueue` and is handled one by one: judged, appended and stepped without an
`await`. What follows leaves through a run's outbox, and an outbox is emptied only when all that was appended before is
durable; one sync serves all that wait.

What is written is in `run_tree`; turns of agents are started in `attempts`, those of topologies, which are driven here
too under the same limits, in `children`; what waits for a time is in `timers`. Failures of the journal end this owner
at once: every attempt is ended, nothing more leaves, and the run is resumed from what is on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from coterie.clock import Clock, iso_time
from coterie.errors import CoterieError, JournalFailed, Shortage, shortage
from coterie.ids import child_run_id
from coterie.journal.base import Store
from coterie.journal.records import (
    AttemptFailed,
    Cause,
    ConfigAnswer,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    Record,
    TreeMade,
    TreesJoined,
)
from coterie.kernel.attempt_files import AttemptFiles, NoAttemptFiles
from coterie.kernel.attempts import Attempts
from coterie.kernel.attendance import Attendance, Attendant
from coterie.kernel.children import Children
from coterie.kernel.commands import Close, Effect, Halt, ReadPlan, Start, Wait
from coterie.kernel.driven_run import (
    Attend,
    Check,
    Clear,
    DrivenRun,
    InterruptAttempt,
    MakeKind,
    Order,
    Permit,
    Steer,
)
from coterie.kernel.ended import Ended
from coterie.kernel.event_queue import Event, EventQueue, MakeTask, lazy_task
from coterie.kernel.facts import ExternalFacts
from coterie.kernel.gates import Gates
from coterie.kernel.kind import Observe
from coterie.kernel.plan_secrets import filled
from coterie.kernel.run_end import ClosingSteps, NoClosingSteps, RunEnd, uncut
from coterie.kernel.run_tree import RunTree
from coterie.kernel.stall import stall_after
from coterie.kernel.takeover import Takeover
from coterie.kernel.timers import Timers
from coterie.kernel.turns import Turns
from coterie.planning.plan import AgentPlan, Limits, Plan
from coterie.workspace.base import SharedWorkspace, Workspace
from coterie.workspace.notes import NoNotes, Notes

T = TypeVar("T")


class _StopWanted(Exception):
    """An operator wants the run to stop."""


class Shell:
    """Drives one root run and its children to their end, or until it must let go.

    Args:
        store: Where the journals lie.
        turns: Who starts attempts.
        make_kind: What plays a plan.
        clock: The source of time.
        limits: What this owner allows the whole tree.
        park: Let go of the run when nothing runs but humans and timers.
        listens: Messages may come at any time, so the run is never let go of for want of a human.
        quota: When nothing runs but turns that wait for a quota: `park` lets go of the run until it opens, `wait` waits
            for it here. `now`: as `park`, but what waited under earlier owners is tried at once.
        observe: Called with the run's id and each record, in order, once it is durable.
        files: Keeps the files of attempts.
        notes: Keeps memory and tasks.
        workspace: The files that agents work on.
        closing: The steps before the root run ends or stops.
        held: Gives the secret values that the plan refers to now; see `coterie.kernel.plan_secrets`.
        reload: Reads a run's plan again, for engines that ask for it; raises `CoterieError` when it cannot. Without
            it a plan stays what it is.
        environment: The variables of this process, whose secrets are hidden in all that is recorded.
        cwd: The working directory of the agents.
        attendant: Answers what attempts need a person for; without it others answer, or the policy does.
        stall_after: When an attempt of an agent without a sign of life may be stuck; None: it is not watched.
        make_task: See `coterie.kernel.event_queue.EventQueue`.

    Attributes:
        tree: The runs that are driven, and what others may say to them while an event is handled (`post`).
        events: What attempts do while they run; a terminal or a watcher subscribes to them.
        opened: Set once the root run is claimed and begun or continued.
        on_quota: Called when a turn begins to wait here for its quota, with its run, itself, and Unix seconds.
    """

    def __init__(
        self,
        *,
        store: Store,
        turns: Turns,
        clock: Clock,
        make_kind: MakeKind,
        limits: Limits | None = None,
        park: bool = False,
        listens: bool = False,
        quota: str = "park",
        observe: Observe | None = None,
        files: AttemptFiles | None = None,
        notes: Notes | None = None,
        workspace: Workspace | None = None,
        closing: ClosingSteps | None = None,
        held: Callable[[], Mapping[str, str]] = dict,
        reload: Callable[[str, Plan], Awaitable[ConfigAnswer]] | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        cwd: Path | None = None,
        attendant: Attendant | None = None,
        stall_after: Callable[[AgentPlan], float | None] = stall_after,
        make_task: MakeTask = lazy_task,
    ) -> None:
        self._turns, self._clock, self._park, self._reload = turns, clock, park, reload
        self._listens = listens
        self._files, self._workspace = files or NoAttemptFiles(), workspace or SharedWorkspace()
        notes, closing = notes or NoNotes(), closing or NoClosingSteps()
        self._queue = EventQueue(make_task)
        self._timers = Timers(clock, self._queue)
        self._facts = ExternalFacts(self._queue)
        self.tree = RunTree(
            store,
            make_kind,
            clock,
            limits or Limits(),
            self._files,
            notes,
            self._workspace,
            closing.closes,
            held,
            self._facts,
            environment,
            cwd,
            observe,
            turns.abilities,
        )
        self._attempts = Attempts(
            turns,
            self._files,
            notes,
            self._workspace,
            cwd,
            self._queue,
            self.tree.hear,
            self.tree.need,
            self.lack,
            self.tree.use,
            stall_after,
        )
        self._attendance = Attendance(self.tree, self._queue, attendant)
        self.events = self._attempts.events
        self.on_quota: Callable[[str, str, float], object] = lambda run, turn, due: None
        self._gates = Gates(self.tree, turns, self.events, self._workspace, cwd, self.lack)
        self._children = Children(self.tree, self._queue, self._timers, self._attempts, store, clock)
        self.tree.taken_over = self._children.take_over
        self._takeover = Takeover(self.tree, turns, self._attempts, self._files, clock, self._timed)
        self._end = RunEnd(self.tree, clock, closing, self._workspace)
        self._expected = 0
        self._external_tasks = 0
        self._deferrals = 0
        self._lacks = self._stops = ""
        self._handing_over = False
        self._quota = quota
        self.opened = asyncio.Event()

    # -- from outside -------------------------------------------------------------------------------------------------

    async def start(self, run: str, plan: Plan, given: dict[str, Any]) -> Ended:
        """Start *run*, asking the topology of *plan* for *given*, and drive it.

        Raises:
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        return await self._drive(lambda: self.tree.open(run, plan, given, None))

    async def resume(self, run: str, plan: Plan, *, reloaded: bool = False) -> Ended:
        """Take over *run* and drive it on under *plan*; *reloaded*: it is another one than the journal holds.

        Raises:
            RunIsOwned, RunIsFinished, JournalUnreadable, ReplayMismatch: If it cannot be taken over.
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        self.tree.reloaded = reloaded
        return await self._drive(lambda: self.tree.open(run, plan, None, None))

    def post(self, event: Event) -> None:
        """Have *event* handled in its turn, in one piece, as everything else that happens to the run."""
        self._queue.put(0, event)

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
        self.tree.closing = True
        self._queue.wake()

    def lack(self, what: str) -> None:
        """Stop the run, which can be resumed, because the machine lacks *what*; nothing starts any more."""
        self._lacks = self._lacks or what
        self.tree.closing = True
        self._queue.wake()

    def stop(self, reason: str) -> None:
        """Interrupt what is under way, and stop the run for *reason*; it can be resumed."""
        self._stops = self._stops or reason
        self.tree.closing = True
        self._queue.wake()

    @property
    def steps(self) -> list[Record]:
        """The steps before the end of the root run, or before a stop, that this owner did."""
        return self._end.steps

    @property
    def runs(self) -> Mapping[str, DrivenRun]:
        """The runs that are driven, by id, the root first."""
        return self.tree.runs

    def ended(self, root: DrivenRun) -> Ended:
        """The state of *root*."""
        return self._end.ended(root)

    # -- from the beginning to the end --------------------------------------------------------------------------------

    async def _drive(self, open_root: Callable[[], DrivenRun]) -> Ended:
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
            if self._facts.pending:
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
        if self._queue or self._facts.pending or self.tree.ledger.busy:
            return False
        return not self._engine_stops()

    def _drain(self) -> None:
        """Handle all that has happened. Attempts that ended together count in the order their turns were started."""
        while self._queue.handle():
            self.tree.pump_queued()
        self._attendance.end_answered()

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
                    await self._takeover.take_up(live, launched)
            unsafe = [live for live in waiting if not live.is_durable]
            if all(live.writer.begin() for live in unsafe):
                for live in waiting:
                    self._start_agents(live)
                for live in unsafe:
                    if not live.writer.sync():  # its store broke its promise, and agents are about to start
                        raise JournalFailed(live.run, "records are not durable after a sync")
            else:
                await asyncio.gather(*(live.writer.durable(live.core.seq) for live in unsafe))
            leaving = [(live, live.outbox) for live in waiting]
            for live in waiting:
                live.outbox = []  # what is put there from here on waits for the next sync
            for live, outbox in leaving:
                self.tree.show(live)
                for effect in outbox:
                    await self._perform(live, effect)
            for live in reversed(waiting):
                if live.core.finished is not None and not live.parent_notified and live.has_left:
                    await self._children.notify_parent(live)

    def _start_agents(self, live: DrivenRun) -> None:
        """Start, while the disk works, the agents that the outbox of *live* names.

        An attempt is a task, and no task runs before the event loop turns again: by then its intent is durable. If it
        cannot be made durable, the owner ends, and its tasks with it, before their first step.
        """
        outbox, live.outbox = live.outbox, []
        for effect in outbox:
            agent = live.core.agents.get(effect.ask.agent) if type(effect) is Start else None
            if type(effect) is Start and (agent is None or agent.child is None):
                self._start(live, effect)
            else:
                live.outbox.append(effect)

    def _agent(self, live: DrivenRun, start: Start) -> AgentPlan:
        agent = live.core.agents.get(start.ask.agent) or AgentPlan(name=start.ask.agent)
        return filled(agent, self.tree.held) if self.tree.held else agent

    def _reason_to_stop(self) -> str:
        """Why the tree is to be stopped; empty: it goes on."""
        if self._expected or self._facts.pending or self.tree.ledger.busy:
            return ""
        retries = self._timers.retries
        humans = [turn.ask.turn in live.held for live in self.runs.values() for turn in live.humans()]
        unseen = all(humans) and not retries  # no terminal shows what a crash cut off: only the inbox answers
        if (retries or humans) and (self._listens or not (humans and (self._park or unseen))):
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
        await self._attendance.end()
        await self._facts.end()
        self.tree.closing = True
        self._queue.close()
        self._queue.handle()

    # -- effects ------------------------------------------------------------------------------------------------------

    async def _perform(self, live: DrivenRun, effect: Effect | Order) -> None:
        match effect:
            case Start() if not live.kind.wants_tree(effect.ask.agent):
                self._start(live, effect)
            case Start():
                self._facts.ask(partial(self._begin_branch, live, effect), partial(self._branch_began, live, effect))
            case Halt(turn=turn):
                live.halt(turn)
                self._children.halt(live, turn)
            case Wait(cause=cause, again=again) if again.ask:
                live.held[again.turn] = cause
            case Wait(cause=cause, again=again) if again.quota and self._quota != "wait":
                due = self._clock.now() if self._quota == "now" and cause[0] < live.core.owned else again.due
                self._timers.opens(live, due, partial(self._due, live, cause))
            case Wait(cause=cause, again=again):
                if again.quota:
                    self.on_quota(live.run, again.turn, again.due)
                self._timers.retry(live, again.due, partial(self._due, live, cause))
            case ReadPlan(cause=cause):
                self._facts.ask(partial(self._reread, live), partial(self._read_plan, live, cause))
            case InterruptAttempt(turn=turn):
                self._attempts.interrupt(live, turn)
                self._gates.interrupt(live, turn)
            case Check(turn=turn):
                self._gates.check(live, turn)
            case Close():
                await self._end.finish(live)
            case Clear(turn=turn, attempt=attempt):
                self._files.clear_attempts(live.run, [(turn, attempt)])
            case Attend(asked=asked):
                if asked.due is not None:
                    self._timers.at(live, asked.due, partial(self.tree.attend, live, asked.id, asked.policy))
                self._attendance.begin(live, asked)
            case Permit(turn=turn, question=question, allowed=allowed):
                self._attempts.permit(live, turn, question, allowed)
            case Steer(turn=turn, said=said):
                self._attempts.steer(live, turn, said)

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

    async def _begin_branch(self, live: DrivenRun, start: Start) -> TreeMade | AttemptFailed | None:
        """Make the work tree of a branch of a wave, if it is to have one."""
        agent = live.core.agents.get(start.ask.agent)
        if agent is None or agent.child is None:
            return None
        try:
            return await self._workspace.begin_branch(
                child_run_id(live.run, start.ask.turn, start.attempt), agent.child
            )
        except CoterieError as error:
            if shortage(error):
                raise
            return AttemptFailed(turn=start.ask.turn, attempt=start.attempt, kind="failed", reason=str(error))

    def _branch_began(self, live: DrivenRun, start: Start, made: TreeMade | AttemptFailed | None) -> None:
        if isinstance(made, AttemptFailed):
            self.tree.hear(live, made)
            return
        if made is not None and made.path not in live.core.trees and live.core.is_live:
            live.core.write(self._clock.now(), made)
        self._start(live, start)

    def _start(self, live: DrivenRun, start: Start) -> None:
        name, core = start.ask.turn, live.core
        if not core.hears(name, start.attempt):
            return  # it was cancelled before its intent was durable
        agent = self._timed(live, start)
        if live.limits_time and self._timers.seconds_left(live) == 0:
            self._queue.put(0, partial(self._children.overdue, live, start, "no time is left (max_runtime)"))
            return
        if agent.child is not None:
            self._children.start(live, start, agent, agent.child)
            return
        self._attempts.start(live, start, agent)
        if agent.kind == "human" and agent.timeout is not None:
            due = core.turns[name].asked + agent.timeout
            reason = f"no answer within {agent.timeout:g} s"
            failed = AttemptFailed(turn=name, attempt=start.attempt, kind="timeout", reason=reason)
            self._timers.at(live, due, partial(self.tree.hear, live, failed))

    def _timed(self, live: DrivenRun, start: Start, taken: float = 0.0) -> AgentPlan:
        """The agent of *start*, which has been at work for *taken* seconds, with no more time than the run has left."""
        agent = self._agent(live, start)
        if not live.limits_time or agent.kind == "human":
            return agent
        if (left := self._timers.seconds_left(live)) is not None:
            agent = msgspec.structs.replace(agent, timeout=min(left + taken, agent.timeout or left + taken))
        return agent

    def _due(self, live: DrivenRun, cause: Cause) -> None:
        live.core.due(cause)
        self.tree.pump(live)

    async def _reread(self, live: DrivenRun) -> tuple[TreesJoined | None, ConfigAnswer]:
        """Merge what the branches of a wave did, which may change the plan's files, then read these again."""
        joined = await self._end.joined(live)
        try:
            return joined, ConfigKept() if self._reload is None else await self._reload(live.run, live.plan)
        except (CoterieError, OSError) as error:
            if shortage(error):
                raise
            return joined, ConfigRejected(reason=str(error))

    def _read_plan(self, live: DrivenRun, cause: Cause, found: tuple[TreesJoined | None, ConfigAnswer]) -> None:
        joined, answer = found
        if joined is not None and live.core.is_live:
            live.core.write(self._clock.now(), joined)
        if isinstance(answer, ConfigChanged):
            live.plan = live.kind.adopt(answer.plan)
            self.tree.learn_secrets(live.plan)
        live.core.reloaded(self._clock.now(), cause, answer)
        self.tree.pump(live)
