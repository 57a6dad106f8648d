"""Temporal's form of `Turns`: an attempt is an activity on the queue that its agent names.

An activity outlives the driver that started it, so nothing has to be found or ended when the next one takes over. The
run alone repeats turns: an activity is tried once, and one whose worker is lost is an interrupted attempt.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError
from temporalio.workflow import ActivityConfig

from coterie.agents.backends.base import Abilities, Budgeted, Failure, Request, Result, Session, Used
from coterie.agents.backends.human import HumanBackend
from coterie.errors import NotSigned
from coterie.execution.cluster.files import Head, RunFiles, merged
from coterie.execution.cluster.orders import Orders
from coterie.execution.cluster.seals import Sealed, peek, read
from coterie.execution.cluster.wire import BackendFacts, TurnBeat, TurnDone, TurnHeard, node_queue, turn_queue
from coterie.execution.kernel.turns import OnTurnEvent, Turns
from coterie.history.journal.records import NO_USAGE, TreeAttested
from coterie.team.planning.plan import AgentPlan

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
        orders: Writes the orders to nodes.

    Attributes:
        files: The files of the run, as its turns have left them; None: it has none.
        said: How far attempts came that were cut off, by their marks.
        kept: The files at the beginning of attempts that have ended, with what each has left, by their marks.
        attested: What git says of their work trees.
    """

    def __init__(self, backends: Mapping[str, BackendFacts], files: RunFiles | None, orders: Orders) -> None:
        self._backends, self.files, self.orders = backends, files, orders
        self._humans = HumanBackend()
        self._sessions: dict[str, ActivitySession] = {}
        self._gates = 0
        self.said: dict[str, str] = {}
        self.kept: dict[str, tuple[RunFiles, Head | None]] = {}
        self.attested: dict[str, TreeAttested | None] = {}

    async def start(self, request: Request, on_event: OnTurnEvent) -> Session:
        """Schedule the activity; a person is waited for here."""
        if "human" in (request.agent.kind, request.agent.backend):
            return await self._humans.start(request, on_event)
        name, within = request.ref.marker, ""
        if request.agent.kind == "gate" and request.clean:
            within = self._sessions[name].node if name in self._sessions else ""
            self._gates += 1
            name += f" gate {self._gates}"
        session = self._sessions[name] = ActivitySession(self, request, name, on_event, within)
        return session

    def receive(self, sealed: Sealed) -> tuple["ActivitySession", int] | None:
        """Take what a running attempt does from its node; return the attempt, and the number of what was heard.

        None if no attempt of that name runs, its node did not seal that, or it was heard before.
        """
        try:
            session = self._sessions.get(peek(sealed, TurnHeard).attempt)
            return (session, session.receive(sealed)) if session is not None else None
        except NotSigned as error:
            workflow.logger.warning(f"it is not taken: {error}")
            return None

    async def affords(self, session: "ActivitySession", seq: int) -> Sealed:
        """Whether the attempt of *session* may send a further request to a model, once what was heard is counted."""
        affords = session.budget is None or await session.budget.affords()
        return self.orders.seal(affords, "affords", *session.about, str(seq))

    def over(self, name: str, begun: RunFiles | None, done: TurnDone | None) -> None:
        """Forget the attempt *name*, and take up the files that it left."""
        self._sessions.pop(name, None)
        if begun is None or self.files is None:
            return
        head = done.head if done is not None else None
        self.kept[name] = begun, head
        self.attested[name] = done.attested if done is not None else None
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

    Args:
        within: For a gate, the node with the files of the attempt that waits for it; empty: any node.

    Attributes:
        node: The node that performs it, once that has said so.
    """

    def __init__(self, turns: ActivityTurns, request: Request, name: str, on_event: OnTurnEvent, within: str) -> None:
        self._turns, self._name, self._on_event = turns, name, on_event
        self._begun, self.node, self._request, self._within = turns.files, "", request, within
        self.budget = on_event if isinstance(on_event, Budgeted) else None
        self._is_unwanted, self._heard = False, 0
        self._handle = self._scheduled(1)
        self._result = asyncio.get_running_loop().create_task(self._outcome())

    def _scheduled(self, time: int) -> "workflow.ActivityHandle[RawValue]":
        below = self._name.partition("/")[2]
        self._activity = below if time == 1 else f"{below} ({time})"
        words = self._request, self._begun, self.budget and self.budget.reserved
        return workflow.start_activity(
            TURN,
            self._turns.orders.written(TURN, self._activity, *words),
            activity_id=self._activity,
            task_queue=node_queue(self._within) if self._within else turn_queue(self._request.agent.queue),
            result_type=RawValue,
            schedule_to_start_timeout=HEARTBEAT_TIMEOUT if self._within else None,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )

    async def result(self) -> Result:
        """Wait for the one result; if the wait is cancelled, report what the attempt has used by its end."""
        try:
            return await asyncio.shield(self._result)
        except asyncio.CancelledError:
            await self.interrupt()
            if (usage := self._result.result().usage) != NO_USAGE:
                self._on_event(Used(usage=usage))
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
        return await self._control(PERMIT, question, allowed, message)

    @property
    def about(self) -> tuple[str, str]:
        """The execution and the activity that perform the attempt now."""
        return self._turns.orders.execution, self._activity

    def receive(self, sealed: Sealed) -> int:
        """Take events of the attempt, and the node that performs it; return their number.

        Raises:
            NotSigned: If the node did not seal them as about the activity that runs now, or they were heard before.
        """
        heard: TurnHeard = self._turns.orders.heard(sealed, TurnHeard, "heard", self._activity)
        if heard.seq <= self._heard:
            raise NotSigned(("heard",), is_known=True)
        self._heard, self.node = heard.seq, heard.node
        for event in heard.events:
            self._on_event(event)
        return heard.seq

    async def _control(self, what: str, *words: Any) -> bool:
        if not self.node or self._result.done():
            return False
        try:
            queue = ActivityConfig(
                task_queue=node_queue(self.node), schedule_to_close_timeout=CONTROL_TIMEOUT, retry_policy=_ONCE
            )
            done: bool = await self._turns.orders.ask(what, self._name, *words, kind=bool, **queue)
        except ActivityError:
            return False
        return done

    async def _outcome(self) -> Result:
        for time in range(2, GIVEN_MOST + 2):
            try:
                found = await self._handle
                done: TurnDone = self._turns.orders.heard(read(found.payload.data), TurnDone, "result", self._activity)
                if self._is_cut_off(done.failure) and self._may_give_again(time):
                    self._handle = self._scheduled(time)
                    continue
            except NotSigned as error:
                self._turns.over(self._name, self._begun, None)
                return Failure(kind="lost", reason=f"no node performed it: {error}")
            except ActivityError as error:
                if self._never_began(error) and self._may_give_again(time):
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

    def _may_give_again(self, time: int) -> bool:
        return time <= GIVEN_MOST and not self._is_unwanted

    def _never_began(self, error: ActivityError) -> bool:
        """Whether another node may have the attempt: it was given to one that was frozen or dying, and never began.

        A gate may have begun: it changes nothing.
        """
        cause = error.cause
        if self._request.clean:
            return not isinstance(cause, CancelledError)
        return isinstance(cause, TimeoutError) and not cause.last_heartbeat_details

    def _is_cut_off(self, failure: Failure | None) -> bool:
        """Whether *failure* says nothing of a gate, but that its node could not run it."""
        return self._request.clean and failure is not None and failure.kind in ("interrupted", "lost")

    def _lost(self, error: ActivityError) -> Failure:
        """Why there is no result: its worker died, was drained or could not read the request."""
        cause = error.cause
        if isinstance(cause, CancelledError):
            return Failure(kind="interrupted", reason="it was interrupted before a node began it")
        if isinstance(cause, ApplicationError):  # anyone may have said that
            return Failure(kind="lost", reason="a worker gave it back without a result that a node signed")
        beat = self._last_beat(cause.last_heartbeat_details if isinstance(cause, TimeoutError) else ())
        self._turns.said[self._name] = beat.said
        return Failure(kind="lost", reason=f"its worker was lost: {cause or error}", usage=beat.usage)

    def _last_beat(self, details: Sequence[Any]) -> TurnBeat:
        try:
            sealed = msgspec.convert(details[0], Sealed)
            beat: TurnBeat = self._turns.orders.heard(sealed, TurnBeat, "beat", self._activity)
        except (IndexError, msgspec.ValidationError, NotSigned):
            return TurnBeat()
        return beat
