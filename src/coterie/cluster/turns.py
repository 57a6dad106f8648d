"""Temporal's form of `Turns`: an attempt is an activity on the queue that its agent names.

An activity outlives the driver that started it, so nothing has to be found or ended when the next one takes over. The
run alone repeats turns: an activity is tried once, and one whose worker is lost is an interrupted attempt.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError

from coterie.backends.base import Abilities, Failure, OnEvent, Request, Result, Session
from coterie.backends.human import HumanBackend
from coterie.cluster.files import Head, RunFiles, merged
from coterie.cluster.wire import BackendFacts, TurnBeat, TurnDone, TurnHeard, node_queue, turn_queue
from coterie.kernel.turns import Turns
from coterie.planning.plan import AgentPlan

TURN, STEER, PERMIT = "turn", "steer", "permit"
"""The activity that an attempt is; those that speak to it on its node."""
HEARTBEAT_TIMEOUT = timedelta(seconds=13)
"""A worker that was not heard of for so long is lost, and what it ran is interrupted: nine seconds at least after it
was killed, froze or was cut off.
"""
GIVEN_MOST = 5
"""Nodes to which an attempt is given that begin nothing of it."""
CONTROL_TIMEOUT = timedelta(seconds=30)
_LONGEST = timedelta(days=3650)
"""The local form keeps the time-outs of agents."""
_ONCE = RetryPolicy(maximum_attempts=1)


class ActivityTurns(Turns):
    """Starts attempts as activities of the workflow that this is called in.

    Args:
        backends: What is known of the backends, by the name that a plan has for each.

    Attributes:
        files: The files of the run, as its turns have left them; None: it has none.
        said: How far attempts came that were cut off, by their marks.
        kept: The files at the beginning of attempts that have ended, with what each has left, by their marks.
    """

    def __init__(self, backends: Mapping[str, BackendFacts], files: RunFiles | None) -> None:
        self._backends, self.files = backends, files
        self._humans = HumanBackend()
        self._sessions: dict[str, ActivitySession] = {}
        self._gates = 0
        self.said: dict[str, str] = {}
        self.kept: dict[str, tuple[RunFiles, Head | None]] = {}

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Schedule the activity; a person is waited for here."""
        if "human" in (request.agent.kind, request.agent.backend):
            return await self._humans.start(request, on_event)
        name = request.ref.marker
        if request.agent.kind == "gate" and request.clean:
            self._gates += 1
            name += f" gate {self._gates}"
        session = self._sessions[name] = ActivitySession(self, request, name, on_event)
        return session

    def receive(self, heard: TurnHeard) -> None:
        """Take what a running attempt does from its node."""
        if (session := self._sessions.get(heard.attempt)) is not None:
            session.receive(heard)

    def over(self, name: str, begun: RunFiles | None, done: TurnDone | None) -> None:
        """Forget the attempt *name*, and take up the files that it left."""
        self._sessions.pop(name, None)
        if begun is None or self.files is None:
            return
        head = done.head if done is not None else None
        self.kept[name] = begun, head
        if head is not None:
            self.files = merged(self.files, begun, head)

    def uses_context(self, agent: AgentPlan) -> bool:
        """As its backend said when the run was submitted."""
        return self._facts(agent).uses_context

    def abilities(self, agent: AgentPlan) -> Abilities:
        """As its backend said when the run was submitted."""
        return self._facts(agent).abilities

    async def close(self) -> None:
        """End the waits for people."""
        await self._humans.close()

    def _facts(self, agent: AgentPlan) -> BackendFacts:
        return self._backends.get(agent.backend, BackendFacts())


class ActivitySession:
    """An attempt that runs as an activity.

    Cancelling its wait, and interrupting it, cancels the activity and waits until that has ended, so attempts of one
    turn never overlap.
    """

    def __init__(self, turns: ActivityTurns, request: Request, name: str, on_event: OnEvent) -> None:
        self._turns, self._name, self._on_event = turns, name, on_event
        self._begun, self._node, self._request = turns.files, "", request
        self._is_unwanted = False
        self._handle = self._scheduled(1)
        self._result = asyncio.get_running_loop().create_task(self._outcome())

    def _scheduled(self, time: int) -> "workflow.ActivityHandle[TurnDone]":
        below = self._name.partition("/")[2]
        return workflow.start_activity(
            TURN,
            args=[self._request, self._begun],
            activity_id=below if time == 1 else f"{below} ({time})",
            task_queue=turn_queue(self._request.agent.queue),
            result_type=TurnDone,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )

    async def result(self) -> Result:
        """Wait for the one result."""
        try:
            return await asyncio.shield(self._result)
        except asyncio.CancelledError:
            await self.interrupt()
            raise

    async def interrupt(self) -> None:
        """Cancel the activity, and wait until it has ended."""
        self._is_unwanted = True
        self._handle.cancel()
        await asyncio.wait([self._result])

    async def steer(self, text: str) -> bool:
        """Give *text* to the agent, if its node has said that it can be spoken to."""
        return await self._control(STEER, text)

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        """Answer the question of the agent."""
        return await self._control(PERMIT, question, allowed, *([message] if message else []))

    def receive(self, heard: TurnHeard) -> None:
        """Take events of the attempt, and the node that performs it."""
        self._node = heard.node
        for event in heard.events:
            self._on_event(event)

    async def _control(self, what: str, *words: Any) -> bool:
        if not self._node or self._result.done():
            return False
        try:
            done: bool = await workflow.execute_activity(
                what,
                args=[self._name, *words],
                task_queue=node_queue(self._node),
                result_type=bool,
                schedule_to_close_timeout=CONTROL_TIMEOUT,
                retry_policy=_ONCE,
            )
        except ActivityError:
            return False
        return done

    async def _outcome(self) -> Result:
        for time in range(2, GIVEN_MOST + 2):
            try:
                done: TurnDone = await self._handle
            except ActivityError as error:
                if self._may_give_again(error, time):
                    self._handle = self._scheduled(time)
                    continue
                began = not isinstance(error.cause, CancelledError)
                self._turns.over(self._name, self._begun if began else None, None)
                return self._lost(error)
            break
        self._turns.over(self._name, self._begun, done)
        for event in done.events:
            self._on_event(event)
        if done.failure is not None and done.failure.kind in ("interrupted", "lost"):
            self._turns.said[self._name] = done.failure.text
        return done.result

    def _may_give_again(self, error: ActivityError, time: int) -> bool:
        """Whether another node may have the attempt: it was given to one that was frozen or dying, and never began."""
        cause = error.cause
        never = isinstance(cause, TimeoutError) and not cause.last_heartbeat_details
        return never and time <= GIVEN_MOST and not self._is_unwanted

    def _lost(self, error: ActivityError) -> Failure:
        """Why there is no result: its worker died, was drained or could not read the request."""
        cause = error.cause
        if isinstance(cause, CancelledError):
            return Failure(kind="interrupted", reason="it was interrupted before a node began it")
        if isinstance(cause, ApplicationError) and cause.type != "lost":
            return Failure(kind="crashed", reason=str(cause))
        details = cause.last_heartbeat_details if isinstance(cause, TimeoutError) else ()
        beat = msgspec.convert(details[0], TurnBeat) if details else TurnBeat()
        self._turns.said[self._name] = beat.said
        return Failure(kind="lost", reason=f"its worker was lost: {cause or error}", usage=beat.usage)
