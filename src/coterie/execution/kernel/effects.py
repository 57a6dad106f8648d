"""Perform the effects of runs, each once its cause is durable: start, end and answer attempts, and wait."""

from collections.abc import Callable
from functools import partial

import msgspec

from coterie.agents.workspace.base import place_of
from coterie.base.shortages import shortage
from coterie.errors import CoterieError
from coterie.execution.kernel.approvals import Approvals
from coterie.execution.kernel.approver_calls import ApproverCalls
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.attempts import Attempts
from coterie.execution.kernel.children import Children
from coterie.execution.kernel.commands import Close, Effect, Halt, ReadPlan, Rest, Start, Wait
from coterie.execution.kernel.driven_run import (
    AnswerApproval,
    Attempt,
    AwaitApproval,
    Check,
    Clear,
    DrivenRun,
    Forget,
    InterruptAttempt,
    Order,
    Steer,
)
from coterie.execution.kernel.event_queue import EventQueue
from coterie.execution.kernel.gates import Gates
from coterie.execution.kernel.opening import RunOpening
from coterie.execution.kernel.plan_secrets import filled
from coterie.execution.kernel.run_end import RunEnd
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.timers import Timers
from coterie.history.journal.records import (
    AttemptFailed,
    Cause,
    ConfigAnswer,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    TreeMade,
    TreesJoined,
)
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import AgentPlan

LONG_SLEEP = 60.0
"""Seconds from which on a run that only sleeps is parked."""


class Effects:
    """Performs the effects of the runs of *tree*.

    Args:
        lack: Called when the machine lacks something; it stops the run.

    Attributes:
        attempts, children, timers, approver_calls: What runs and waits at present.
        end: Ends the root run.
    """

    def __init__(
        self,
        tree: RunTree,
        opening: RunOpening,
        inputs: AttemptInputs,
        approvals: Approvals,
        queue: EventQueue,
        lack: Callable[[str], object],
    ) -> None:
        self._tree, self._inputs, self._approvals, self._queue = tree, inputs, approvals, queue
        self._ports, self._external_reads, self._clock = tree.ports, tree.external_reads, tree.ports.clock
        self._quota, self._on_quota = tree.options.quota, tree.observers.on_quota
        self.timers = Timers(self._clock, queue)
        self.attempts = Attempts(tree, inputs, approvals, queue, lack)
        self.approver_calls = ApproverCalls(inputs, approvals, queue, tree.observers.approver)
        self.children = Children(tree, opening, inputs, queue, self.attempts)
        self.end = RunEnd(tree)
        self._gates = Gates(tree, inputs, self.attempts.publish, lack)

    def start_agents(self, live: DrivenRun) -> None:
        """Start the agents in the outbox of *live* while the journal is being synced.

        An attempt is a task, and no task runs before the event loop turns again: by then its intent is durable. If it
        cannot be made durable, the owner ends, and its tasks with it, before their first step.
        """
        outbox, live.outbox = live.outbox, []
        for effect in outbox:
            if type(effect) is Start:
                agent = live.core.agents.get(effect.ask.agent)
                if agent is None or (agent.child is None and not live.kind.project.wants_tree(agent)):
                    self._start(live, effect)
                    continue
            live.outbox.append(effect)

    async def perform(self, live: DrivenRun, effect: Effect | Order) -> None:
        """Perform *effect*, whose cause is durable."""
        match effect:
            case Start():
                agent = live.core.agents.get(effect.ask.agent)
                if agent is not None and live.kind.project.wants_tree(agent):
                    make = partial(self._begin_tree, live, effect, agent)
                    self._external_reads.ask(make, partial(self._tree_began, live, effect))
                else:
                    self._start(live, effect)
            case Halt(turn=turn):
                live.halt(turn)
                self.children.halt(live, turn)
            case Wait(cause=cause, again=again) if again.ask:
                live.hold(again.turn, cause)
            case Wait(cause=cause, again=again) if again.quota and self._quota != "wait":
                due = self._clock.now() if self._quota == "now" and cause[0] < live.core.owned else again.due
                self.timers.opens(live, due, partial(self._due, live, cause))
            case Wait(cause=cause, again=again):
                if again.quota:
                    self._on_quota(live.run, again.turn, again.due)
                self.timers.retry(live, again.due, partial(self._due, live, cause))
            case Rest(cause=cause, wake=wake):
                is_long = wake.until - self._clock.now() >= LONG_SLEEP and self._quota != "wait"
                if is_long:
                    self.timers.sleeps.add(wake.until)
                begin = self.timers.opens if is_long else self.timers.retry
                begin(live, wake.until, partial(self._woke, live, cause))
            case ReadPlan(cause=cause):
                self._external_reads.ask(partial(self._reread, live), partial(self._read_plan, live, cause))
            case InterruptAttempt(turn=turn):
                self.attempts.interrupt(live, turn)
                self._gates.interrupt(live, turn)
            case Check(turn=turn):
                self._gates.check(live, turn)
            case Close():
                await self.end.finish(live)
            case Clear(turn=turn, attempt=attempt):
                self._ports.files.clear_attempts(live.run, [(turn, attempt)])
            case Forget(turn=turn, attempts=attempts):
                self._ports.files.forget(live.run, turn, attempts)
            case AwaitApproval(asked=asked):
                if asked.due is not None:
                    self.timers.at(live, asked.due, partial(self._approvals.answer, live, asked.id, asked.policy))
                self.approver_calls.begin(live, asked)
            case AnswerApproval():
                self.attempts.permit(live, effect)
            case Steer(turn=turn, said=said):
                self.attempts.steer(live, turn, said)

    async def _begin_tree(self, live: DrivenRun, start: Start, agent: AgentPlan) -> TreeMade | AttemptFailed | None:
        """Make the work tree of a branch of a wave, or of a turn."""
        try:
            place = place_of(live.run, start.ask.turn, start.attempt, agent)
            return await self._ports.workspace.begin_tree(place, agent, live.top.plan)
        except CoterieError as error:
            if shortage(error):
                raise
            return AttemptFailed(turn=start.ask.turn, attempt=start.attempt, kind="failed", reason=str(error))

    def _tree_began(self, live: DrivenRun, start: Start, made: TreeMade | AttemptFailed | None) -> None:
        if isinstance(made, AttemptFailed):
            self._inputs.accept(live, made)
            return
        if made is not None and made.path not in live.core.trees and live.core.is_live:
            live.core.write(self._clock.now(), made)
        self._start(live, start)

    def _start(self, live: DrivenRun, start: Start) -> None:
        name, core = start.ask.turn, live.core
        if not core.accepts(name, start.attempt):
            return  # it was cancelled before its intent was durable
        if live.limits_time and self.timers.seconds_left(live) == 0:
            self._queue.put(0, partial(self.children.overdue, live, start, "no time is left (max_runtime)"))
            return
        agent = self.timed(live, start)
        if agent.child is not None:
            self.children.start(live, start, agent.child, partial(self.timed, live, start))
            return
        self.attempts.start(Attempt(live, core.turns[name], agent, start.prompt, start.tail))
        if agent.kind == "human" and agent.timeout is not None:
            due = core.turns[name].asked + agent.timeout
            reason = f"no answer within {agent.timeout:g} s"
            failed = AttemptFailed(turn=name, attempt=start.attempt, kind="timeout", reason=reason)
            self.timers.at(live, due, partial(self._inputs.accept, live, failed))

    def timed(self, live: DrivenRun, start: Start, taken: float = 0.0) -> AgentPlan:
        """The agent of *start*, running for *taken* seconds, with its time-out cut to the time left for the run."""
        agent = live.core.agents.get(start.ask.agent) or AgentPlan(name=start.ask.agent)
        if agent.backend in CODING and (allowed := self._tree.allowed):
            rules = [*agent.options.get("allow", ()), *allowed]
            agent = msgspec.structs.replace(agent, options=agent.options | {"allow": rules})
        agent = filled(agent, self._tree.held) if self._tree.held else agent
        if not live.limits_time or agent.kind == "human":
            return agent
        if (left := self.timers.seconds_left(live)) is not None:
            agent = msgspec.structs.replace(agent, timeout=min(left + taken, agent.timeout or left + taken))
        return agent

    def _due(self, live: DrivenRun, cause: Cause) -> None:
        live.core.due(cause)
        self._tree.pump(live)

    def _woke(self, live: DrivenRun, cause: Cause) -> None:
        live.core.woke(self._clock.now(), cause)
        self._tree.pump(live)

    async def _reread(self, live: DrivenRun) -> tuple[TreesJoined | None, ConfigAnswer]:
        """Merge the work of a wave's branches, which may change the plan's files, then read these again."""
        joined = await self.end.joined(live)
        try:
            return joined, ConfigKept() if self._ports.reload is None else await self._ports.reload(live.run, live.plan)
        except (CoterieError, OSError) as error:
            if shortage(error):
                raise
            return joined, ConfigRejected(reason=str(error))

    def _read_plan(self, live: DrivenRun, cause: Cause, found: tuple[TreesJoined | None, ConfigAnswer]) -> None:
        joined, answer = found
        if joined is not None and live.core.is_live:
            live.core.write(self._clock.now(), joined)
        if isinstance(answer, ConfigChanged):
            live.plan = live.kind.project.adopt(live.plan, answer.plan)
            self._tree.learn_secrets(live.plan)
        live.core.reloaded(self._clock.now(), cause, answer)
        self._tree.pump(live)
