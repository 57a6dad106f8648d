"""The running attempts of this process: each is a task, from its start to its one result."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from coterie.backends.base import (
    Answer,
    Asking,
    AttemptRef,
    Emitted,
    Event,
    Failure,
    Finished,
    Launched,
    OnEvent,
    Permission,
    Quiet,
    Request,
    Result,
    Running,
    Session,
    SessionOpened,
    Text,
    Unknown,
    Used,
)
from coterie.engines.commands import Emit, Reply
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    AttemptQuiet,
    AttemptSession,
    AttentionAsked,
    GuidanceDelivered,
    OperatorSaid,
    TreeAttested,
    TreeSaved,
)
from coterie.kernel.approvals import Approvals
from coterie.kernel.attempt_events import AttemptEvents
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.commands import Start
from coterie.kernel.driven_run import AnswerApproval, Clear, DrivenRun, Steer
from coterie.kernel.event_queue import EventQueue
from coterie.kernel.owned_tasks import OwnedTasks
from coterie.kernel.run_tree import RunTree
from coterie.kernel.stall import watch_signs
from coterie.kernel.takeover_records import may_live_on
from coterie.kernel.turns import CompletedSession, ask
from coterie.planning.plan import AgentPlan
from coterie.shortages import shortage

ATTENTION_TIMEOUT = 600.0
"""Seconds until the policy answers for a person, if the agent's plan does not say."""


class Attempts:
    """Starts attempts and ends them; what they say is accepted one by one, through *queue*.

    No attempt outlives `end`, which cancels those that run and waits until they have ended.

    Args:
        lack: Called when an attempt failed for want of a resource of the machine, with its name; it stops the run.

    Attributes:
        events: What the attempts do while they run; their files are the first subscriber.
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
        self._accept, self._used, self._request_approval = inputs.accept, inputs.use, approvals.request
        self._stall_after = tree.options.stall_after
        self._tasks = OwnedTasks(queue)
        self._emitting: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._steering: dict[tuple[str, str], set[asyncio.Task[None]]] = {}
        self._orders: dict[tuple[str, str], int] = {}
        self.events = AttemptEvents()
        self.events.subscribe(self._keep)

    def start(self, live: DrivenRun, start: Start, agent: AgentPlan) -> None:
        """Start an attempt of a turn of *live*: a task that does nothing before the event loop turns."""
        request = self._request(live, start, agent)
        self._go(live, start, agent, partial(self._turns.start, request))

    async def find(self, live: DrivenRun, start: Start, agent: AgentPlan, taken: float) -> Session | None:
        """The session of an attempt that an earlier owner started *taken* seconds ago; None if it is lost."""
        launched = live.core.turns[start.ask.turn].launched
        handle = next((one.handle for one in reversed(launched) if one.attempt == start.attempt and one.handle), "")
        request = self._request(live, start, agent, taken, handle)
        skipped = self._files.said(live.run, request.turn, request.attempt)

        def on_event(event: Event) -> None:
            """Take the events of the attempt from its beginning, without the text that its file has already."""
            if isinstance(event, Text) and (known := skipped.get(event.channel, 0)):
                skipped[event.channel] = max(known - len(event.text), 0)
                event = msgspec.structs.replace(event, text=event.text[known:])
                if not event.text:
                    return
            self._event(live, request.turn, request.attempt, event)

        match await self._turns.find(request, on_event):
            case Running(session):
                return session
            case Finished(result):
                return CompletedSession(result)
            case Unknown():
                return None

    def adopt(self, live: DrivenRun, start: Start, agent: AgentPlan, session: Session) -> None:
        """Continue an attempt that was found."""

        async def found(on_event: OnEvent) -> Session:
            return session

        self._go(live, start, agent, found)

    def _go(
        self, live: DrivenRun, start: Start, agent: AgentPlan, begin: Callable[[OnEvent], Coroutine[Any, Any, Session]]
    ) -> None:
        turn = start.ask.turn
        work = partial(self._attempt, live, start, agent, begin, self.order(live, turn))
        live.attempts[turn] = self._tasks.start(work)

    def order(self, live: DrivenRun, turn: str) -> int:
        """The position of *turn* of *live* among all turns started here; its attempts share it."""
        return self._orders.setdefault((live.run, turn), len(self._orders) + 1)

    def interrupt(self, live: DrivenRun, turn: str) -> None:
        """Interrupt the running attempt of *turn*, if there is one."""
        if (session := live.sessions.get(turn)) is not None:
            self._tasks.start(session.interrupt)

    def steer(self, live: DrivenRun, turn: str, said: OperatorSaid) -> None:
        """Give guidance to the running attempt of *turn*, if there is one and its backend can be steered."""
        if (session := live.sessions.get(turn)) is not None:
            attempt = live.core.turns[turn].attempt
            delivered = GuidanceDelivered(turn=turn, messages=(said.message,), attempt=attempt)
            steering = self._steering.setdefault((live.run, turn), set())
            steering.add(task := self._tasks.start(partial(self._steer, live, session, said.text, delivered)))
            task.add_done_callback(steering.discard)

    def permit(self, live: DrivenRun, answer: AnswerApproval) -> None:
        """Give the *answer* to the running attempt that asked."""
        if isinstance(session := live.sessions.get(answer.turn), Asking):
            self._tasks.start(partial(session.permit, answer.question, answer.allowed, answer.message))

    async def end(self) -> None:
        """End all attempts, and wait until they have ended."""
        await self._tasks.end()

    async def _steer(self, live: DrivenRun, session: Session, text: str, delivered: GuidanceDelivered) -> None:
        if await session.steer(text):
            self._queue.put(0, lambda: self._accept(live, delivered))

    async def _attempt(
        self,
        live: DrivenRun,
        start: Start,
        agent: AgentPlan,
        begin: Callable[[OnEvent], Coroutine[Any, Any, Session]],
        order: int,
    ) -> None:
        name, attempt = start.ask.turn, start.attempt
        on_event = partial(self._event, live, name, attempt)
        attests = self._workspace.attests(live.run, agent)
        before = await self._workspace.position(live.run) if attests else None
        after = self._stall_after(agent)
        watching = partial(self._watch, live, name, attempt, agent)
        watch = self._tasks.start(partial(watching, after)) if after is not None else None
        try:
            result = await ask(begin(on_event), partial(self._begun, live, name))
        finally:
            if watch is not None:
                watch.cancel()
        if self._emitting and (emitting := self._emitting.get((live.run, name))) is not None:
            await asyncio.wait([emitting])  # what it emitted counts before its answer
        if self._steering and (steering := self._steering.pop((live.run, name), None)):
            await asyncio.wait(steering)  # and so does guidance that it took up at its end
        open_tasks: tuple[str, ...] = ()
        if live.kind.waits_for_tasks:
            open_tasks = await self._open_tasks(live, Reply(turn=name, attempt=attempt))
        saved: list[TreeSaved | TreeAttested | None] = []
        try:
            cut_off = isinstance(result, Failure) and result.kind in ("interrupted", "lost", "shortage")
            if agent.kind != "human":
                saved.append(await self._workspace.saved(live.run, name, attempt, cut_off=cut_off))
            if attests:
                left = await self._workspace.attested(live.run, name, attempt, before)
                saved.append(left)
                result = _unless_left(result, left)
        finally:  # the result counts even if the attempt is cancelled here
            self._queue.put(order, partial(self._answered, live, start, agent, result, saved, open_tasks))

    async def _watch(self, live: DrivenRun, turn: str, attempt: int, agent: AgentPlan, after: float) -> None:
        """Watch the signs of life of an attempt here."""
        ref, said = live.core.ref(turn, attempt), [0]

        def count(which: AttemptRef, event: Event) -> None:
            said[0] += which == ref

        def activity() -> tuple[float, frozenset[int]] | None:
            return self._turns.activity([one for one in live.core.turns[turn].launched if one.attempt == attempt])

        folder = (self._workspace.cwd(live.run) or self._cwd or Path()) / agent.cwd
        unsubscribe = self.events.subscribe(count)
        waits, tell = partial(_waits, live, turn), partial(self._event, live, turn, attempt)
        try:
            await watch_signs(after, folder, lambda: said[0], activity, waits, tell)
        finally:
            unsubscribe()

    def _lacks_signs(self, live: DrivenRun, turn: str, attempt: int, quiet: Quiet) -> None:
        """Record which signs of life an attempt lacks, and that it needs a person when it lacks all."""
        core = live.core
        if not core.accepts(turn, attempt) or _waits(live, turn):
            return
        self._accept(live, AttemptQuiet(turn=turn, attempt=attempt, signs=quiet.signs, seconds=quiet.seconds))
        if quiet.facts:
            asked = AttentionAsked(id="", turn=turn, attempt=attempt, kind="stall", detail=quiet.facts, policy="wait")
            timeout = core.agents[core.turns[turn].ask.agent].options.get("attention_timeout", ATTENTION_TIMEOUT)
            self._request_approval(live, asked, timeout)

    def _begun(self, live: DrivenRun, turn: str, session: Session) -> None:
        """Keep the session of *turn*, and steer it by the guidance that came since its prompt was written."""
        live.sessions[turn] = session
        if turn in live.overspent:
            self.interrupt(live, turn)
        if (guidance := live.core.guidance) is None:
            return
        for message, text in guidance.undelivered(turn).items():
            live.outbox.append(Steer(turn=turn, said=OperatorSaid(message=message, what="guide", turn=turn, text=text)))
            self._queue.wake()

    def _request(
        self, live: DrivenRun, start: Start, agent: AgentPlan, taken: float = 0.0, handle: str = ""
    ) -> Request:
        asked, attempt, core = start.ask, start.attempt, live.core
        name = asked.turn
        turn = core.turns[name]
        place = self._files.place(live.run, name, attempt, turn.epoch, live.kind.transcript)
        return Request(
            run=live.run,
            turn=name,
            attempt=attempt,
            agent=agent,
            prompt=start.prompt,
            key=f"{live.run}/{name}",
            nodes=live.nodes,
            context=core.coordination.context(core, turn) if self._turns.uses_context(agent) else {},
            interrupted=turn.retry_count.interrupted,
            folder=place.folder,
            cwd=self._workspace.cwd(live.run) or self._cwd,
            here=live.here,
            team=self._workspace.team_files(live.run, live.top.plan, texts=not live.kind.reviews(name)),
            epoch=turn.epoch,
            handle=handle,
            taken=taken,
            root=place.root,
            token=place.token,
            env=live.kind.environment(self._notes, live.run, name),
            history=asked.history,
            wanted=asked.wanted,
            session=turn.resumes,
            transcript=place.transcript,
        )

    async def _open_tasks(self, live: DrivenRun, said: Reply | Emit) -> tuple[str, ...]:
        """The open tasks, if the verdict on *said* may depend on them."""
        if not live.kind.waits_for_tasks or not live.kind.needs_open_tasks(said):
            return ()
        return await self._notes.open_tasks(live.run, live.kind.notes)

    def _emitted(self, live: DrivenRun, emit: Emit) -> None:
        """Queue *emit*, after what the same turn emitted before and once the open tasks are read."""
        earlier = self._emitting.get((live.run, emit.turn))
        if earlier is None and not (live.kind.waits_for_tasks and live.kind.needs_open_tasks(emit)):
            self._queue.put(0, lambda: self._accept(live, emit))
        else:
            self._emitting[live.run, emit.turn] = self._tasks.start(partial(self._emit, live, emit, earlier))

    async def _emit(self, live: DrivenRun, emit: Emit, earlier: asyncio.Task[None] | None) -> None:
        try:
            if earlier is not None:
                await asyncio.wait([earlier])
            emit = msgspec.structs.replace(emit, open_tasks=await self._open_tasks(live, emit))
            self._queue.put(0, lambda: self._accept(live, emit))
        finally:
            if self._emitting.get((live.run, emit.turn)) is asyncio.current_task():
                del self._emitting[live.run, emit.turn]

    def _launched(self, live: DrivenRun, launched: AttemptLaunched) -> None:
        """Record where an attempt runs, unless an earlier owner did."""
        place = (launched.attempt, launched.pid, launched.handle)
        known = [one for one in live.core.turns[launched.turn].launched if place == (one.attempt, one.pid, one.handle)]
        if not any(launched.started in ("", one.started) for one in known):
            self._accept(live, launched)

    def _answered(
        self,
        live: DrivenRun,
        start: Start,
        agent: AgentPlan,
        result: Result,
        saved: list[TreeSaved | TreeAttested | None],
        open_tasks: tuple[str, ...],
    ) -> None:
        turn, attempt = start.ask.turn, start.attempt
        if agent.on_interrupt == "adopt" and may_live_on(live.core, start.ask.agent):
            live.outbox.append(Clear(turn=turn, attempt=attempt))
        for one in saved:
            if one is not None:
                self._accept(live, one)
        match result:
            case Answer(text=text, outputs=outputs, usage=usage):
                reply = Reply(
                    turn=turn,
                    attempt=attempt,
                    text=text,
                    outputs=outputs,
                    usage=usage,
                    prompt=start.prompt,
                    open_tasks=open_tasks,
                )
                self._accept(live, reply, "operator" if agent.kind == "human" else "agent")
            case Failure(kind="interrupted" | "lost"):
                cut = AttemptInterrupted(turn=turn, attempt=attempt, reason=result.kind, usage=result.usage)
                self._accept(live, cut)
            case Failure(kind="shortage", reason=reason):
                self._lack(reason)
                self._accept(live, AttemptInterrupted(turn=turn, attempt=attempt, reason="shortage"))
            case Failure():
                self._accept(live, AttemptFailed(turn=turn, attempt=attempt, **msgspec.structs.asdict(result)))

    def _event(self, live: DrivenRun, turn: str, attempt: int, event: Event) -> None:
        """Queue what the journal must say of *event*, and publish it."""
        match event:
            case Launched():
                launched = AttemptLaunched(turn=turn, attempt=attempt, **msgspec.structs.asdict(event))
                agent = live.core.agents[live.core.turns[turn].ask.agent]
                launched = msgspec.structs.replace(launched, confined=self._workspace.confines(agent))
                self._queue.put(0, partial(self._launched, live, launched))
            case Used(usage=usage):
                self._queue.put(0, partial(self._used, live, turn, attempt, usage))
            case SessionOpened():
                self._queue.put(0, partial(self._opened, live, turn, attempt, event))
            case Permission(decision=""):
                self._queue.put(0, partial(self._asked, live, turn, attempt, event))
            case Emitted(event=topic, payload=payload):
                self._emitted(live, Emit(turn=turn, attempt=attempt, event=topic, payload=payload))
            case Quiet():
                self._queue.put(0, partial(self._lacks_signs, live, turn, attempt, event))
                return  # it is no sign of life
        self.events.publish(live.core.ref(turn, attempt), event)

    def _opened(self, live: DrivenRun, turn: str, attempt: int, event: SessionOpened) -> None:
        """Record the agent's session, and whether it is the one in which it was to go on."""
        known = live.core.turns[turn]
        wanted, reason = known.resumes, ""
        if wanted and event.id != wanted:
            reason = "the agent began another one"
        elif wanted and event.turns == 0:
            reason = "it has none of its earlier turns"
        lost = wanted if reason else ""
        if known.session == event.id and not (lost and event.id == wanted):
            return  # an earlier owner recorded it, or `turn.started` names it
        self._accept(live, AttemptSession(turn=turn, attempt=attempt, session=event.id, lost=lost, reason=reason))

    def _asked(self, live: DrivenRun, turn: str, attempt: int, event: Permission) -> None:
        """Record that an attempt needs a person, and let the policy of its agent answer in time."""
        if event.rule and event.rule in self._tree.allowed and live.core.accepts(turn, attempt):
            live.outbox.append(AnswerApproval(turn=turn, question=event.id, allowed=True))
            self._tree.pump(live)
            return
        options = live.core.agents[live.core.turns[turn].ask.agent].options
        asked = AttentionAsked(
            id="",
            turn=turn,
            attempt=attempt,
            question=event.id,
            tool=event.tool,
            detail=event.detail,
            policy=options.get("attention_policy", "deny"),
            rule=event.rule,
        )
        self._request_approval(live, asked, options.get("attention_timeout", ATTENTION_TIMEOUT))

    def _keep(self, ref: AttemptRef, event: Event) -> None:
        """Add *event* to the attempt's file, unless the journal has it."""
        if not isinstance(event, Launched | Emitted):
            try:
                self._files.stream(ref.run, ref.turn, ref.attempt, event)
            except OSError as error:  # watchers see less; only a shortage concerns the run
                if lacks := shortage(error):
                    self._lack(lacks)


def _unless_left(result: Result, attested: TreeAttested | None) -> Result:
    """*result*, or a failure if the attempt answered and has left its work tree."""
    if attested is None or not attested.problem or not isinstance(result, Answer):
        return result
    return Failure(kind="failed", reason=attested.problem, usage=result.usage, text=result.text)


def _waits(live: DrivenRun, turn: str) -> bool:
    """Whether *turn* waits for a person or for its gates."""
    core = live.core
    return turn in core.gated or any(one.turn == turn and one.kind != "stall" for one in core.attention.values())
