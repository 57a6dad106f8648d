"""The part of an agent that survives restarts: its name, its mailbox, and the instance of the current incarnation.

A supervisor starts and stops it (`Supervised`); the node puts messages into it. It handles messages, sends their
replies, and reports messages that are not handled. An idle agent has no task.
"""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from msgspec.structs import asdict, replace

from coterie.agents.actors.classes import class_path
from coterie.agents.actors.crashes import error_line, trace
from coterie.agents.actors.evaluation import EvalAgent
from coterie.agents.actors.exits import Change, Crashed, Down, Exit, Normal, Shutdown, Terminated, payload_of
from coterie.agents.actors.life import RUNNING, AgentHealth, LifePhase, cancel, new_agent, overrides, uncancel
from coterie.agents.actors.mailbox import Mailbox
from coterie.agents.actors.message import (
    AHEAD,
    CORRECTION,
    EVAL_EVENT,
    IN_HAND,
    NUMBERS,
    TERMINATED,
    TURN,
    TURN_FAILED,
    AskRefusal,
    Message,
)
from coterie.agents.actors.owned_work import OwnedWork, start_contained
from coterie.agents.actors.ports import NodePort
from coterie.agents.actors.process import LATER, AgentProcess, ErrorAction
from coterie.agents.actors.supervision.spec import KILLED, RESTART, ChildSpec
from coterie.agents.backends.attempt_timeout import ABANDONED
from coterie.base.user_code import EndableCall, calls_for, contained, leaves_loop
from coterie.errors import AgentCrashed, HandleTimedOut, TurnFailure
from coterie.history.journal.records import ActorCrashed, ActorStarted, ActorStopped

FAIR = 64
"""Messages that an agent handles in a row before others get a turn."""


class AgentChild:
    """An agent under a supervisor, across its incarnations.

    Args:
        spec: Its name, and a factory that builds a new instance for every incarnation.
        path: The names of the supervisors above, joined with `/`.
        mailbox_size: Overrides that of the instance.
        handle_timeout: Overrides that of the instance.
    """

    def __init__(
        self,
        spec: ChildSpec,
        node: NodePort,
        *,
        path: str = "",
        mailbox_size: int | None = None,
        handle_timeout: float | None = None,
    ) -> None:
        self.spec = spec
        self.node = node
        self.report: Callable[[Change], None] = lambda change: None
        self.mailbox = Mailbox(mailbox_size or 0)
        self.agent: AgentProcess | None = None
        self.phase = LifePhase.NEW
        self.idle = False  # running, but without a task: the next message starts one
        self.task: asyncio.Task[Any] | None = None
        self.current: Message | None = None
        self.incarnation = 0
        self.handled = 0
        self.last_at = 0.0
        self.started = self.crashes = 0
        self.type = ""
        self.asking: list[str] | None = None  # the agents of this process that the handler waits for
        self._path, self._size, self._timeout = path, mailbox_size, handle_timeout
        self._open: dict[str, Message] | None = None  # asks that are answered later
        self._owned: OwnedWork | None = None  # tasks and timers of the incarnation
        self._ending: Exit | None = None  # why the incarnation ends after the current message
        self._asked_to_stop = False
        self._cut_off = False  # cancelled by `stop`
        self._interrupted: Message | None = None  # a cancelled turn of a living agent
        self.abandoned = False  # whether the code of its turn did not end when it was cancelled

    # The supervisor's side

    async def start(self, incarnation: int) -> None:
        """Build an instance, restore its state, run `on_start`, then handle the messages in the mailbox."""
        self.incarnation = incarnation
        self.phase = LifePhase.STARTING
        self._ending = self._interrupted = None
        self._cut_off = self._asked_to_stop = False
        new = False
        try:
            with contained():
                agent = new_agent(self.spec)
            agent._bound, self.type = self, class_path(type(agent))
            if self._timeout is not None:
                agent.handle_timeout = self._timeout
            if self._size is None:
                self.mailbox.resize(agent.mailbox_size)
            new = self.node.register(self)
            self.agent = agent
            agent.state.update(await self.node.restore(self.spec.name))
            if overrides(agent, "on_start"):
                await self._run_alone(agent.on_start())
        except BaseException as error:
            self._release()
            self.phase = LifePhase.DOWN
            if not isinstance(error, asyncio.CancelledError):
                self._record_crash(error, None, "start")
            if new:
                self._give_up("it did not start")
            raise
        self.phase = RUNNING
        self.started += 1
        about: dict[str, Any] = {"path": self._path, "type": self.type, "address": agent._served_at}
        self.node.sink(ActorStarted(name=self.spec.name, kind=self.spec.kind, incarnation=incarnation, **about))
        if self._ending is not None:
            self._end_early()
        elif self.mailbox:
            self.wake()
        else:
            self.idle = True

    async def _run_alone(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a hook in a task of the agent, so that cancelling inside it does not look like a stop."""
        task = self.task = start_contained(self.node, work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            await cancel(task)
            raise
        finally:
            self.task = None
        if task.cancelled():
            raise AgentCrashed(self.spec.name, "CancelledError in on_start")
        task.result()

    async def stop(self, reason: str, within: float | None = None) -> None:
        """End the incarnation within the shutdown time, or *within* if less; if no other follows, release the name."""
        if self.agent is not None:
            await self._stop(reason == KILLED, within)
        self.phase = LifePhase.DOWN
        if reason != RESTART:
            self._give_up(reason)

    async def _stop(self, kill: bool, within: float | None) -> None:
        self._asked_to_stop = True
        ends_itself = self.phase is LifePhase.STOPPING
        self.phase, self.idle = LifePhase.STOPPING, False
        limits = [0.0] if kill else [one for one in (self.spec.shutdown, within) if one is not None]
        deadline = self.node.loop.time() + min(limits) if limits else None
        task, error = self.task, ""
        if task is not None and not await self._done(task, deadline):
            kill = self._cut_off = True
            await cancel(task)
            if not task.done() and self.current is not None:
                self._not_handled(self.current, "stopped", "it did not end when it was cancelled")
        if self.agent is None:
            return  # it has ended by itself meanwhile
        if not kill and not ends_itself:
            kill, error = await self._wind_down(deadline)
        if self._owned is not None:
            await self._owned.end()
        self._end_incarnation("stopped")
        self.task = self.current = None
        word = "killed" if kill else "shutdown"
        self.node.sink(ActorStopped(name=self.spec.name, incarnation=self.incarnation, reason=word, error=error))
        self.node.fire_monitors(Down(self.spec.name, self.incarnation, Shutdown()))

    async def _done(self, task: "asyncio.Task[Any]", deadline: float | None) -> bool:
        left = None if deadline is None else max(deadline - self.node.loop.time(), 0.0)
        if left != 0.0:
            await asyncio.wait({task}, timeout=left)
        return task.done()

    async def _wind_down(self, deadline: float | None) -> tuple[bool, str]:
        """Run `on_stop`; return whether it was cut off, and the error that it raised."""
        agent = self.agent
        if agent is None or not overrides(agent, "on_stop"):
            return False, ""
        task = start_contained(self.node, agent.on_stop())
        try:
            if await self._done(task, deadline):
                return False, "CancelledError" if task.cancelled() else error_line(task.exception())
            return True, ""
        finally:
            await cancel(task)

    def _give_up(self, reason: str) -> None:
        """Release the name: askers get `AgentStopped`, other messages become dead letters."""
        self.phase = LifePhase.STOPPED
        if not self.node.unregister(self, reason):
            return
        for message, taken in self.mailbox.empty():
            if taken is not None and not taken.done():
                taken.set_exception(self.node.missing(self.spec.name))
            elif taken is None:
                self._not_handled(message, "stopped", reason)

    # Messages

    def wake(self) -> None:
        """Start handling the messages in the mailbox."""
        self.idle = False
        self.task = self.node.create_task(self._work())

    async def _work(self) -> None:
        """Handle messages until there is none, or the incarnation ends."""
        agent = self.agent
        assert agent is not None
        try:
            await self._handle_queued(agent)
        except (
            Exception
        ) as error:  # an error outside the handler, such as in an exporter: it must not make the agent hang
            if self.agent is agent:
                self._ending = self._record_crash(error, self.current, "message")
                if self.current is not None:
                    self._not_handled(self.current, "crashed", error_line(error), error)
        if self.agent is not agent:
            return  # abandoned by `stop`
        if self._ending is not None and self.phase is RUNNING:
            await self._end(agent, self._ending)
        else:
            self.task = None
            self.idle = self.phase is RUNNING

    async def _handle_queued(self, agent: AgentProcess) -> None:
        on_span = self.node.on_span
        is_bounded, pop, hold = agent.handle_timeout is not None, self.mailbox.pop, IN_HAND.set
        began, row, may_handle = 0.0, 0, self.node.may_handle
        while self._ending is None and self.phase is RUNNING:
            if (may_handle is not None and not may_handle()) or (message := pop()) is None:
                break
            self.current = message
            hold(message)
            if message.origin:
                NUMBERS.set(count(1))
            if on_span is not None:
                began = self.node.now()
            error: BaseException | None = None
            try:
                if is_bounded or message.priority >= AHEAD or message.type == TURN:
                    answer = await self._handle_specially(agent, message)
                else:
                    answer = await agent.handle(message)
                if message.reply_to is not None:
                    self._answer(agent, message, answer)
            except BaseException as raised:  # becomes a record, a dead letter or an error for the asker
                if leaves_loop(raised):
                    raise
                error = raised
                if self.agent is agent:
                    await self._failed(agent, message, raised)
            if self.agent is not agent:
                return
            self.handled += 1
            self.last_at = message.sent_at
            self.current = self.asking = None
            if on_span is not None:
                on_span(message, began, error)
            row += 1
            if row == FAIR:
                row = 0
                await asyncio.sleep(0)

    async def _handle_specially(self, agent: AgentProcess, message: Message) -> Message | None:
        if message.type == CORRECTION:
            await agent.on_correction(message)
            return None
        if message.type == TERMINATED:
            await agent.on_child_terminated(**message.payload)
            return None
        handle: Callable[[Message], Coroutine[Any, Any, Message | None]] = agent.handle
        if message.type == EVAL_EVENT and isinstance(agent, EvalAgent):
            handle = agent.observe
        if message.type == TURN:
            handle = self._handle_turn
        limit = agent.handle_timeout
        if limit is None:
            return await handle(message)
        try:
            async with asyncio.timeout(limit) as scope:
                return await handle(message)
        except TimeoutError:
            if scope.expired():
                raise HandleTimedOut(self.spec.name, limit) from None
            raise

    async def _handle_turn(self, message: Message) -> Message | None:
        """Handle a turn, which its interrupt ends: what ignores that is abandoned, and the agent handles the next."""
        assert self.agent is not None
        self.abandoned = False
        try:
            with calls_for(self):
                return await EndableCall(self.agent.handle(message))
        except asyncio.CancelledError:
            if self.abandoned and self._interrupted is message:
                raise TurnFailure("interrupted", ABANDONED) from None
            raise

    def _answer(self, agent: AgentProcess, message: Message, answer: Message | None) -> None:
        if self._interrupted is message:
            uncancel()
        if answer is LATER:
            if self.agent is agent:
                self._open = self._open or {}
                self._open[message.id] = message
            return
        if answer is None:
            answer = self.node.answer_to(message, {})
        elif not isinstance(answer, Message):
            given = type(answer).__name__
            raise TypeError(f"handle of agent {self.spec.name!r} returned {given}: return self.reply(…) or None")
        self.node.reply(message, answer)

    def answer_later(self, message: Message, answer: Message) -> None:
        """Send the reply to an ask for which `handle` returned `LATER`."""
        if self._open is not None and self._open.pop(message.id, None) is not None:
            self.node.reply(message, answer)

    async def _failed(self, agent: AgentProcess, message: Message, error: BaseException) -> None:
        """Act on *error* as `on_error` decides; a retry happens in place."""
        attempt, action = message, ErrorAction.ESCALATE
        while not self._cut_off and not isinstance(self._ending, Crashed):
            if self._interrupted is message and not isinstance(error, TurnFailure):
                error = TurnFailure("interrupted", "the turn was interrupted")
            if isinstance(error, TurnFailure) and message.reply_to is not None:
                uncancel()
                self.fail_turn(message, error)
                return
            if isinstance(error, asyncio.CancelledError):
                uncancel()
            try:
                action = await agent.on_error(error, attempt)
            except BaseException as second:
                if leaves_loop(second):
                    raise
                if self._interrupted is message:
                    continue
                second.__context__ = error
                error, action = second, ErrorAction.ESCALATE
            if action is not ErrorAction.RETRY or message.type == TURN or attempt.attempt > agent.max_retries:
                break
            attempt = self.current = replace(attempt, attempt=attempt.attempt + 1)
            IN_HAND.set(attempt)
            NUMBERS.set(count(1))
            try:
                answer = await self._handle_specially(agent, attempt)
                if message.reply_to is not None:
                    self._answer(agent, attempt, answer)
                return
            except BaseException as raised:
                if leaves_loop(raised):
                    raise
                error = raised
        if self.agent is not agent:
            return  # abandoned by `stop`, which has reported the message
        if self._cut_off:
            self._not_handled(message, "stopped", "it did not end within its shutdown time")
        elif isinstance(self._ending, Crashed):
            self._not_handled(message, "crashed", self._ending.error)
        elif action is ErrorAction.SKIP:
            self._not_handled(message, "skipped", error_line(error), error)
        else:
            reason = "timeout" if isinstance(error, HandleTimedOut) else "crashed"
            stops = action is ErrorAction.STOP
            self._ending = Terminated(error_line(error)) if stops else self._record_crash(error, message, "message")
            self._not_handled(message, reason, error_line(error), error)

    def _not_handled(self, message: Message, reason: str, detail: str, error: BaseException | None = None) -> None:
        """Report an unhandled message: to its asker, or else as a dead letter."""
        if message.reply_to is None:
            self.node.letters.add(message, reason, detail)
            return
        kind = "stopped" if reason == "stopped" else "crashed"
        report = "" if error is None else trace(error, __file__)
        self.node.refuse(message, AskRefusal(kind, self.spec.name, detail, report))

    def fail_turn(self, message: Message, failure: TurnFailure) -> None:
        """Answer the turn *message* with a failure; the agent stays alive."""
        self.node.answer(message, {"kind": failure.kind, "reason": failure.reason}, TURN_FAILED)

    async def answer_state(self, message: Message) -> None:
        """Answer `{"__op__": "state"}` from the last checkpoint and the public keys, without the handler."""
        try:
            state = await self.node.restore(self.spec.name)
        except Exception as error:  # from the store; becomes an error for the asker
            self._not_handled(message, "crashed", error_line(error), error)
            return
        if self.agent is not None:
            state = {**state, **{key: self.agent.state[key] for key in self.agent.public if key in self.agent.state}}
        self.node.answer(message, state)

    def withdraw(self, is_it: Callable[[Message], bool]) -> Message | None:
        """Take back a turn that would be answered later; None: there is none."""
        found = next(filter(is_it, (self._open or {}).values()), None)
        return None if found is None or self._open is None else self._open.pop(found.id)

    def interrupt(self) -> None:
        """Cancel the current turn; its failure is a reply, and the agent stays alive."""
        if self.task is not None and self._interrupted is not self.current:
            self._interrupted = self.current
            self.task.cancel()

    # The end of an incarnation

    async def _end(self, agent: AgentProcess, reason: Exit) -> None:
        """End by itself: release the agent's resources, then report to the supervisor."""
        self.phase, self.idle = LifePhase.STOPPING, False
        limit = self.spec.shutdown
        _, error = await self._wind_down(None if limit is None else self.node.loop.time() + limit)
        if self._owned is not None:
            await self._owned.end()
        if self.agent is not agent:
            return  # abandoned by `stop`
        self._end_incarnation("crashed" if isinstance(reason, Crashed) else "stopped")
        self.task = None
        self.phase = LifePhase.DOWN
        if not isinstance(reason, Crashed):
            word = "normal" if isinstance(reason, Normal) else "shutdown"
            error = error or (reason.error if isinstance(reason, Terminated) else "")
            self.node.sink(ActorStopped(name=self.spec.name, incarnation=self.incarnation, reason=word, error=error))
        down = Down(self.spec.name, self.incarnation, reason)
        self.node.fire_monitors(down)
        if not self._asked_to_stop:
            self.report(down)

    def _end_early(self) -> None:
        """End an incarnation that is not handling a message."""
        assert self.agent is not None
        assert self._ending is not None
        self.idle = False
        self.task = self.node.create_task(self._end(self.agent, self._ending))

    def _end_incarnation(self, reason: str) -> None:
        """Answer the asks that wait for `answer`, and end tasks and timers."""
        for message in (self._open or {}).values():
            self._not_handled(message, reason, "it ended before it answered")
        self._release()

    def _release(self) -> None:
        """Detach the instance: its remaining code cannot send, and its tasks are cancelled."""
        if self._owned is not None:
            self._owned.cancel()
        if self.agent is not None:
            self.agent._bound = None
            self.node.drop_monitors(self.spec.name)
        self.agent = self.asking = self._open = self._owned = None

    def exit(self) -> None:
        """End after the current message, or at once if there is none."""
        if self._ending is None and self.phase in (RUNNING, LifePhase.STARTING):
            self._ending = Normal()
            if self.idle:
                self._end_early()

    def _crash_beside(self, error: BaseException) -> None:
        """End the incarnation, and the current message with it, because a task of the agent failed."""
        if isinstance(self._ending, Crashed) or self.phase not in (RUNNING, LifePhase.STARTING):
            return
        self._ending = self._record_crash(error, None, "task")
        if self.idle:
            self._end_early()
        elif self.current is not None and self.task is not None:
            self.task.cancel()

    def _record_crash(self, error: BaseException, message: Message | None, during: str) -> Crashed:
        self.crashes += 1
        crashed = Crashed(error_line(error), trace(error, __file__), message.id if message else "")
        sender, kind = (message.sender, message.type) if message else ("", "")
        about = {"during": during, "sender": sender, "type": kind, **asdict(crashed)}
        self.node.sink(ActorCrashed(name=self.spec.name, incarnation=self.incarnation, **about))
        return crashed

    # What the agent uses

    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run *work* until it ends or the incarnation does."""
        return self._work_beside().start(work)

    def send_after(self, delay: float, payload: Any, message_type: str) -> Callable[[], None]:
        """Put a message into the agent's own mailbox in *delay* seconds."""
        name = self.spec.name
        return self._work_beside().call_later(delay, lambda: self.node.post(name, payload, message_type, name))

    def _work_beside(self) -> OwnedWork:
        if self._owned is None:
            self._owned = OwnedWork(self.node, self._crash_beside)
        return self._owned

    def monitor(self, name: str) -> None:
        """Send a message of the type `down` to this agent when *name* ends."""
        own = self.spec.name
        self.node.monitor(name, lambda down: self.node.post(own, payload_of(down), "down", down.name), watcher=own)

    def waits_for(self, name: str) -> list[str]:
        """Note that the handler waits for the agent *name*; the caller removes it from the returned list."""
        if self.asking is None:
            self.asking = []
        self.asking.append(name)
        return self.asking

    def health(self) -> AgentHealth:
        """The health of the agent."""
        return AgentHealth(
            name=self.spec.name,
            type=self.type,
            phase=self.phase.value,
            queued=len(self.mailbox),
            handled=self.handled,
            restarts=max(self.started - 1, 0),
            crashes=self.crashes,
            in_hand=self.current.id if self.current else "",
            last_message=self.last_at,
        )
