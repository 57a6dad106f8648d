"""The running attempts of this process; each is a task, from its start to its one result."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from coterie.agents.backends.base import (
    Answer,
    Asking,
    Emitted,
    Event,
    Failure,
    Finished,
    Launched,
    Permission,
    Request,
    Result,
    Running,
    Session,
    SessionOpened,
    Stepped,
    Text,
    Unknown,
    Used,
)
from coterie.agents.backends.needs import gate_sandbox, guards_team
from coterie.base.shortages import shortage
from coterie.execution.kernel.approvals import Approvals
from coterie.execution.kernel.attempt_files import NOWHERE
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.commands import Turn
from coterie.execution.kernel.driven_run import AnswerApproval, Attempt, Clear, DrivenRun, Steer
from coterie.execution.kernel.event_queue import EventQueue, OwnedTasks
from coterie.execution.kernel.items import as_variables
from coterie.execution.kernel.retries import WAIT_MOST
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.stall import Quiet, watch_signs
from coterie.execution.kernel.takeover_records import may_live_on
from coterie.execution.kernel.threads import shown
from coterie.execution.kernel.turns import AttemptEvents, CompletedSession, TurnEvent, ask
from coterie.history.engines.commands import Emit, Reply
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    AttemptQuiet,
    AttemptSession,
    AttemptStep,
    AttentionAsked,
    GuidanceDelivered,
    OperatorSaid,
    TreeAttested,
    TreeSaved,
)

ATTENTION_TIMEOUT = 600.0
"""Seconds until the policy answers in place of a person, unless the agent's plan sets them."""


class _OnEvent:
    """Takes the events of an attempt, and answers what its backend asks of its run."""

    def __init__(self, attempts: "Attempts", attempt: Attempt, reserved: float | None) -> None:
        self._attempts, self._attempt, self.reserved = attempts, attempt, reserved

    def __call__(self, event: TurnEvent) -> None:
        self._attempts.take(self._attempt, event)

    async def affords(self) -> bool:
        """Whether the attempt may send a further request."""
        return await self._attempts.affords(self._attempt)


_CUT_OFF = ("interrupted", "lost", "shortage")


class Attempts:
    """Starts and ends attempts; their inputs are accepted one by one, through *queue*.

    No attempt outlives `end`, which cancels those that run and waits until they have ended.

    Args:
        lack: Called with the name of a resource when an attempt failed because the machine lacks it; stops the run.

    Attributes:
        events: The events of running attempts, each after it is in the attempt's file.
    """

    def __init__(
        self,
        tree: RunTree,
        inputs: AttemptInputs,
        approvals: Approvals,
        queue: EventQueue,
        lack: Callable[[str], object],
    ) -> None:
        self._tree, ports = tree, tree.ports
        self._turns, self._files, self._notes, self._workspace = ports.turns, ports.files, ports.notes, ports.workspace
        self._cwd, self._queue, self._lack = ports.cwd, queue, lack
        self._inputs, self._accept, self._request_approval = inputs, inputs.accept, approvals.request
        self._stall_after = tree.options.stall_after
        self._tasks = OwnedTasks(queue)
        self._are_ending = lambda: self._tasks.are_ending
        self._started = 0
        self.events = AttemptEvents()

    def start(self, attempt: Attempt) -> None:
        """Start *attempt*: a task that does nothing before the event loop turns."""
        self._go(attempt, self._request(attempt))

    async def find(self, attempt: Attempt, taken: float) -> Session | None:
        """Find the session of *attempt*, which an earlier owner started *taken* seconds ago; None if it is lost."""
        handle = next((one.handle for one in reversed(attempt.launched) if one.handle), "")
        request = self._placed(attempt, self._request(attempt, taken, handle))
        skipped = self._files.said(attempt.ref)

        def on_event(event: TurnEvent) -> None:
            """Handle the events of the attempt from its beginning, without the text that its file already contains."""
            if isinstance(event, Text) and (known := skipped.get(event.channel, 0)):
                skipped[event.channel] = max(known - len(event.text), 0)
                event = msgspec.structs.replace(event, text=event.text[known:])
                if not event.text:
                    return
            self.take(attempt, event)

        match await self._turns.find(request, on_event):
            case Running(session):
                return session
            case Finished(result):
                return CompletedSession(result)
            case Unknown():
                return None

    def adopt(self, attempt: Attempt, session: Session) -> None:
        """Continue *attempt*, which was found."""
        self._go(attempt, session)

    def _go(self, attempt: Attempt, begin: Request | Session) -> None:
        """Perform *attempt*, which *begin* asks for, or continues."""
        self.order(attempt.turn)
        attempt.live.attempts[attempt.name] = attempt
        attempt.task = self._tasks.start(partial(self._attempt, attempt, begin))

    def order(self, turn: Turn) -> int:
        """The position of *turn* among all turns started here; its attempts share it."""
        if not turn.order:
            self._started += 1
            turn.order = self._started
        return turn.order

    def interrupt(self, live: DrivenRun, turn: str) -> None:
        """Interrupt the running attempt of *turn*, if there is one."""
        if (attempt := live.attempts.get(turn)) is not None and attempt.session is not None:
            self._tasks.start(attempt.session.interrupt)

    def steer(self, live: DrivenRun, turn: str, said: OperatorSaid) -> None:
        """Pass guidance to the running attempt of *turn*, if there is one and its backend can be steered."""
        if (attempt := live.attempts.get(turn)) is not None and attempt.session is not None:
            delivered = GuidanceDelivered(turn=turn, messages=(said.message,), attempt=attempt.n)
            work = partial(self._steer, live, attempt.session, said.text, delivered)
            attempt.steering |= {self._tasks.start(work)}

    def permit(self, live: DrivenRun, answer: AnswerApproval) -> None:
        """Give the *answer* to the running attempt that asked."""
        attempt = live.attempts.get(answer.turn)
        if attempt is not None and isinstance(session := attempt.session, Asking):
            self._tasks.start(partial(session.permit, answer.question, answer.allowed, answer.message))

    async def end(self) -> None:
        """End all attempts, and wait until they have ended."""
        await self._tasks.end()

    def publish(self, attempt: Attempt, event: Event) -> None:
        """Add *event* to the file of *attempt*, unless it is in the journal, and show it to those who watch."""
        attempt.events += 1
        if not isinstance(event, Launched | Emitted) and (folder := attempt.place.folder) is not None:
            try:
                self._files.stream(folder, event)
            except OSError as error:  # watchers see less; only a shortage concerns the run
                if lacks := shortage(error):
                    self._lack(lacks)
        if self.events.subscribers:
            self.events.publish(attempt.ref, event)

    async def _steer(self, live: DrivenRun, session: Session, text: str, delivered: GuidanceDelivered) -> None:
        if await session.steer(text):
            self._queue.put(0, lambda: self._accept(live, delivered))

    async def _attempt(self, attempt: Attempt, begin: Request | Session) -> None:
        """Perform *attempt*, and look at its work tree before and after it, if it is to be attested."""
        workspace, place, agent = self._workspace, attempt.key, attempt.agent
        attests = workspace.attests(place, agent)
        try:
            before = await workspace.position(place, agent, self._team(attempt)) if attests else None
            result = await self._result(attempt, begin)
            open_tasks: tuple[str, ...] = ()
            if attempt.live.kind.project.waits_for_tasks:
                open_tasks = await self._open_tasks(attempt.live, Reply(turn=attempt.name, attempt=attempt.n))
            saved: list[TreeSaved | TreeAttested | None] = []
            try:
                cut_off = isinstance(result, Failure) and result.kind in _CUT_OFF
                if attests:
                    left = await workspace.attested(place, attempt.name, attempt.n, agent, before)
                    saved.append(left)
                    result = _unless_left(result, left)
                if agent.kind != "human":  # after it, since the commits of the attempt are there then
                    saved.insert(0, await workspace.saved(attempt.live.run, attempt.name, attempt.n, cut_off=cut_off))
            finally:  # the result counts even if the attempt is cancelled here
                self._queue.put(attempt.turn.order, partial(self._answered, attempt, result, saved, open_tasks))
        finally:
            if attests:
                workspace.leave(place)

    async def _result(self, attempt: Attempt, begin: Request | Session) -> Result:
        """Await the result of *attempt*, and all that it said before."""
        reserved = None if self._tree.ledger.limits.max_cost is None else attempt.turn.reserved
        after = self._stall_after(attempt.agent)
        watch = self._tasks.start(partial(self._watch, attempt, after)) if after is not None else None
        try:
            if isinstance(begin, Request):
                start = self._turns.start(self._placed(attempt, begin), _OnEvent(self, attempt, reserved))
            else:
                start = _found(begin)
            result = await ask(start, partial(self._begun, attempt), self._are_ending)
        finally:
            if watch is not None:
                watch.cancel()
        if attempt.emitting is not None:
            await asyncio.wait([attempt.emitting])  # what it emitted counts before its answer
        if attempt.steering:
            await asyncio.wait(attempt.steering)  # and so does guidance that it took up at its end
        return result

    async def _watch(self, attempt: Attempt, after: float) -> None:
        """Watch the signs of life of *attempt* in this process."""
        folder = (self._workspace.cwd(attempt.key) or self._cwd or Path()) / attempt.agent.cwd
        await watch_signs(
            after,
            folder,
            lambda: attempt.events,
            lambda: self._turns.activity(attempt.launched),
            lambda: attempt.waits,
            partial(self.take, attempt),
        )

    def _lacks_signs(self, attempt: Attempt, quiet: Quiet) -> None:
        """Record the signs of life that *attempt* lacks; if it lacks all, record that it needs a person."""
        if not attempt.counts or attempt.waits:
            return
        turn, n = attempt.name, attempt.n
        self._accept(attempt.live, AttemptQuiet(turn=turn, attempt=n, signs=quiet.signs, seconds=quiet.seconds))
        if quiet.facts:
            asked = AttentionAsked(id="", turn=turn, attempt=n, kind="stall", detail=quiet.facts, policy="wait")
            self._request_approval(
                attempt.live, asked, attempt.agent.options.get("attention_timeout", ATTENTION_TIMEOUT)
            )

    def _begun(self, attempt: Attempt, session: Session) -> None:
        """Store the session of *attempt*, and steer it with the guidance that came after its prompt was written."""
        live, turn = attempt.live, attempt.name
        attempt.session = session
        if attempt.overspends:
            self.interrupt(live, turn)
        if (guidance := live.core.guidance) is None:
            return
        for message, text in guidance.undelivered(turn).items():
            live.send(Steer(turn=turn, said=OperatorSaid(message=message, what="guide", turn=turn, text=text)))
            self._queue.wake()

    def _request(self, attempt: Attempt, taken: float = 0.0, handle: str = "") -> Request:
        live, turn, agent = attempt.live, attempt.turn, attempt.agent
        core, asked = live.core, turn.ask
        place = NOWHERE if agent.is_function else attempt.place  # a function has no process, and keeps nothing
        env = live.kind.project.environment(self._notes, live.run, attempt.name)
        if agent.kind == "gate" and not agent.options.get("sandbox"):
            own = {"sandbox": gate_sandbox(core.agents.values())}
            agent = msgspec.structs.replace(agent, options=agent.options | own)
        return Request(
            run=live.run,
            turn=attempt.name,
            attempt=attempt.n,
            agent=agent,
            prompt=attempt.prompt,
            nodes=live.nodes,
            context=core.coordination.context(core, turn) if self._turns.uses_context(agent) else {},
            interrupted=turn.retry_count.interrupted,
            folder=place.folder,
            cwd=self._workspace.cwd(attempt.key) or self._cwd,
            here=live.here,
            epoch=turn.epoch,
            handle=handle,
            taken=taken,
            root=place.root,
            token=place.token,
            env=env if asked.item is None else env | as_variables(asked.item),
            history=asked.history,
            thread=shown(core, asked.role) if core.thread is not None else (),
            wanted=asked.wanted,
            session=turn.resumes,
            tail=attempt.tail,
            continues=turn.continues,
            answered=turn.steps,
            spared=turn.spared,
            transcript=place.transcript,
        )

    def _placed(self, attempt: Attempt, request: Request) -> Request:
        """*request* with what its attempt has for git and must not write: known once it may work in its work tree."""
        repository, team = self._workspace.repository(attempt.key), self._team(attempt)
        return msgspec.structs.replace(request, repository=repository, team=team)

    def _team(self, attempt: Attempt) -> tuple[Path, ...]:
        """The files that *attempt* must not write."""
        if not guards_team(attempt.agent):
            return ()
        texts = not attempt.live.kind.project.reviews(attempt.name)
        return self._workspace.team_files(attempt.key, attempt.live.top.plan, texts=texts)

    async def _open_tasks(self, live: DrivenRun, said: Reply | Emit) -> tuple[str, ...]:
        """The open tasks, if the verdict on *said* may depend on them."""
        project = live.kind.project
        if not project.waits_for_tasks or not project.needs_open_tasks(said):
            return ()
        return await self._notes.open_tasks(live.run, project.notes)

    def _emitted(self, attempt: Attempt, emit: Emit) -> None:
        """Queue *emit* once the open tasks are read, after the earlier events of the same turn."""
        project, earlier = attempt.live.kind.project, attempt.emitting
        if earlier is None and not (project.waits_for_tasks and project.needs_open_tasks(emit)):
            self._queue.put(0, lambda: self._accept(attempt.live, emit))
        else:
            attempt.emitting = self._tasks.start(partial(self._emit, attempt, emit, earlier))

    async def _emit(self, attempt: Attempt, emit: Emit, earlier: asyncio.Task[None] | None) -> None:
        try:
            if earlier is not None:
                await asyncio.wait([earlier])
            emit = msgspec.structs.replace(emit, open_tasks=await self._open_tasks(attempt.live, emit))
            self._queue.put(0, lambda: self._accept(attempt.live, emit))
        finally:
            if attempt.emitting is asyncio.current_task():
                attempt.emitting = None

    def _launched(self, attempt: Attempt, launched: AttemptLaunched) -> None:
        """Record where *attempt* runs, unless an earlier owner did."""
        what = (attempt.n, launched.pid, launched.handle)
        for one in attempt.turn.launched:
            if (one.attempt, one.pid, one.handle) == what and launched.started in ("", one.started):
                return
        self._accept(attempt.live, launched)

    def _answered(
        self,
        attempt: Attempt,
        result: Result,
        saved: list[TreeSaved | TreeAttested | None],
        open_tasks: tuple[str, ...],
    ) -> None:
        live, agent, turn, n = attempt.live, attempt.agent, attempt.name, attempt.n
        if agent.on_interrupt == "adopt" and may_live_on(live.core, attempt.turn.ask.agent):
            live.send(Clear(turn=turn, attempt=n))
        for one in saved:
            if one is not None:
                self._accept(live, one)
        match result:
            case Answer(text=text, outputs=outputs, usage=usage):
                prompt = attempt.prompt
                reply = Reply(
                    turn=turn, attempt=n, text=text, outputs=outputs, usage=usage, prompt=prompt, open_tasks=open_tasks
                )
                self._accept(live, reply, "operator" if agent.kind == "human" else "agent")
            case Failure(kind="interrupted" | "lost"):
                cut = AttemptInterrupted(turn=turn, attempt=n, reason=result.kind, usage=result.usage)
                self._accept(live, msgspec.structs.replace(cut, abandoned=attempt.abandoned))
            case Failure(kind="shortage", reason=reason):
                self._lack(reason)
                self._accept(live, AttemptInterrupted(turn=turn, attempt=n, reason="shortage"))
            case Failure():
                if result.kind == "quota" and 0.0 < result.wait <= WAIT_MOST:
                    result = msgspec.structs.replace(result, kind="rate_limited")  # and so it is retried
                self._accept(live, AttemptFailed(turn=turn, attempt=n, **msgspec.structs.asdict(result)))

    def take(self, attempt: Attempt, event: TurnEvent) -> None:
        """Publish *event*, and queue the record that it needs, if any."""
        live, turn, n = attempt.live, attempt.name, attempt.n
        match event:
            case Launched():
                confined = self._workspace.confines(attempt.agent)
                launched = AttemptLaunched(turn=turn, attempt=n, confined=confined, **msgspec.structs.asdict(event))
                self._queue.put(0, partial(self._launched, attempt, launched))
            case Used(usage=usage):
                self._queue.put(0, partial(self._inputs.use, attempt, usage))
            case Stepped(n=k, usage=usage, calls=calls, hash=hash):
                step = AttemptStep(turn=turn, attempt=n, n=k, usage=usage, calls=calls, hash=hash)
                self._queue.put(0, partial(self._accept, live, step))
            case SessionOpened():
                self._queue.put(0, partial(self._opened, attempt, event))
            case Permission(decision=""):
                self._queue.put(0, partial(self._asked, attempt, event))
            case Emitted(event=topic, payload=payload):
                self._emitted(attempt, Emit(turn=turn, attempt=n, event=topic, payload=payload))
            case Quiet():
                self._queue.put(0, partial(self._lacks_signs, attempt, event))
                return  # it is no sign of life
        self.publish(attempt, event)

    async def affords(self, attempt: Attempt) -> bool:
        """The verdict of the ledger on a further request of *attempt*, after all that was reported before."""
        verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def decide() -> None:
            if not verdict.done():
                verdict.set_result(self._inputs.affords(attempt))

        self._queue.put(0, decide)
        return await verdict

    def _opened(self, attempt: Attempt, event: SessionOpened) -> None:
        """Record the agent's session, and whether it is the requested one."""
        known, wanted, reason = attempt.turn, attempt.turn.resumes, ""
        if wanted and event.id != wanted:
            reason = "the agent began another one"
        elif wanted and event.turns == 0:
            reason = "it has none of its earlier turns"
        lost = wanted if reason else ""
        if known.session == event.id and not (lost and event.id == wanted):
            return  # an earlier owner recorded it, or `turn.started` names it
        opened = AttemptSession(turn=attempt.name, attempt=attempt.n, session=event.id, lost=lost, reason=reason)
        self._accept(attempt.live, opened)

    def _asked(self, attempt: Attempt, event: Permission) -> None:
        """Record that *attempt* needs a person; the policy of its agent answers after the time-out."""
        live, options = attempt.live, attempt.agent.options
        if event.rule and event.rule in self._tree.allowed and attempt.counts:
            live.send(AnswerApproval(turn=attempt.name, question=event.id, allowed=True))
            self._tree.pump(live)
            return
        asked = AttentionAsked(
            id="",
            turn=attempt.name,
            attempt=attempt.n,
            question=event.id,
            tool=event.tool,
            detail=event.detail,
            policy=options.get("attention_policy", "deny"),
            rule=event.rule,
        )
        self._request_approval(live, asked, options.get("attention_timeout", ATTENTION_TIMEOUT))


async def _found(session: Session) -> Session:
    return session


def _unless_left(result: Result, attested: TreeAttested | None) -> Result:
    """*result*, or a failure if the attempt has left its work tree."""
    if attested is None or not attested.problem:
        return result
    if isinstance(result, Failure):
        reason = "\n".join(filter(None, (result.reason, attested.problem)))
        return result if result.kind in _CUT_OFF else msgspec.structs.replace(result, reason=reason)
    return Failure(kind="failed", reason=attested.problem, usage=result.usage, text=result.text)
