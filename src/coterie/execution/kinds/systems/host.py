"""The actors of a system beside its run: their lifecycle becomes records, and their requests become turns."""

import asyncio
from collections.abc import Mapping
from contextvars import copy_context
from functools import partial
from typing import Any

from coterie.agents.actors.classes import importable
from coterie.agents.actors.dead_letters import TEXTS
from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import IN_HAND, TURN_FAILED, Asker, Message
from coterie.agents.actors.plain import plain
from coterie.agents.actors.reply_streams import ReplyRecord, ReplyStreams
from coterie.agents.actors.system import make_system
from coterie.agents.actors.turns import ActorBackend
from coterie.agents.backends.base import AttemptRef, Event, Text
from coterie.base.ids import turn_id
from coterie.base.user_code import contained
from coterie.execution.kernel.kind import RunServices
from coterie.execution.kernel.turns import InProcess
from coterie.execution.kinds.systems.questions import Questions, identity
from coterie.execution.kinds.systems.turn_actor import Say, TurnActor, TurnEnd
from coterie.history.engines.system import SystemEngine
from coterie.history.journal.records import (
    CallAsked,
    CallDropped,
    Record,
    ReplyEnded,
    ReplyPiece,
    RunFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)
from coterie.team.planning.system import SystemPlan


class SystemHost:
    """Runs the actors of a system beside its run.

    Records of actors are written behind: nothing waits until they are durable. A turn that an actor requests is durable
    before it starts, like every turn, and continues when the run is resumed after a kill.

    A run with an input passes it to the system's entry and ends with the answer; a run without one continues until it
    is stopped.

    Args:
        plan: The plan of the system; *folder* is that of its file.
        services: The services of the owner of its run.

    Attributes:
        system: The actors.
    """

    def __init__(self, plan: SystemPlan, folder: str, services: RunServices) -> None:
        started = services.core.started
        self._given: Mapping[str, Any] = started.input if started else {}
        self._entry, self._run, self._services, self._core = plan.entry, services.run, services, services.core
        self._stopping = asyncio.Event()
        self._calls: dict[str, asyncio.Future[TurnEnd]] = {}
        self._questions, self._epoch = Questions(), self._core.epoch
        self._reading: asyncio.Task[None] | None = None
        turns_before = services.core.turns.values()
        self._orphans = {turn.ask.turn: turn.ask for turn in turns_before if turn.status != "ended"}
        """Open turns of an earlier owner, whose actors died with it."""
        self._unclaimed: dict[str, TurnEnd] = {}
        """The results of those turns that have ended and were not requested again."""
        make = partial(TurnActor, call=self.call, agents=services.core.agents)
        importable(folder)
        self._reply_streams = ReplyStreams(self._past)
        self.system = make_system(
            plan,
            SystemPorts(
                clock=services.clock,
                sink=self._record,
                turn_actor=make,
                keep_plugins=True,
                reply_streams=self._reply_streams,
                folder=folder,
            ),
        )
        self._asked = services.turns.backend("actor") if isinstance(services.turns, InProcess) else None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if isinstance(self._asked, ActorBackend):
            self._asked.join(self._run, self.system.node, self._ready)
        services.expect()  # the run never stops while the actors live
        self._main = asyncio.get_running_loop().create_task(self._live())

    def observe(self, run: str, record: Record) -> None:
        """Handle a durable record: pass the end of a turn to its asker; the end of the run ends the actors."""
        self.system.plugins.tracer.observe(run, record)
        if run != self._run:
            return
        self._reply_streams.take(record)
        match record:
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self._questions.ended(record)
                call = self._calls.pop(record.turn, None)
                if record.turn in self._orphans:
                    self._unclaimed[record.turn] = record
                if call is not None and not call.done():
                    call.set_result(record)
            case RunFinished(outcome="cancelled"):
                self._main.cancel()

    def stop(self) -> bool:
        """Stop the actors in order, then complete the run; one that answers a question is interrupted instead."""
        if not self._given:
            self._stopping.set()
        return not self._given

    async def close(self) -> None:
        """Cancel the actors if they still run, wait for them, and close the plugins. Idempotent."""
        if not self._main.done():
            self._main.cancel()
            await asyncio.wait([self._main])
        await self.system.plugins.close()

    async def _live(self) -> None:
        """Start the actors, wait for their end or their answer, stop them, and end the run."""
        try:
            with contained():
                finished = await self._play()
        except Exception as error:  # what `on_start` of a user's agent raises ends the run
            finished = RunFinished(outcome="failed", reason=f"{type(error).__name__}: {error}")
        finally:
            if isinstance(self._asked, ActorBackend):
                self._asked.leave(self._run)
            self._ready.cancel()
        self._services.finish(self._services.secrets.hide_fields(finished, *TEXTS), "the system stopped")
        self._services.arrived()

    async def _play(self) -> RunFinished:
        if not await self._start():
            return RunFinished(outcome="completed", reason="stopped")
        self._ready.set_result(None)
        loop = asyncio.get_running_loop()
        gave_up, ended = loop.create_task(self.system.gave_up()), loop.create_task(self._answer_or_stop())
        try:
            await asyncio.wait((gave_up, ended), return_when=asyncio.FIRST_COMPLETED)
            return RunFinished(outcome="failed", reason=gave_up.result()) if gave_up.done() else ended.result()
        finally:
            gave_up.cancel()
            ended.cancel()
            await self.system.stop()

    async def _start(self) -> bool:
        """Start the actors; False if the system was stopped first, which cancels an `on_start` that takes long."""
        loop = asyncio.get_running_loop()
        started, stopped = loop.create_task(self.system.start()), loop.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait((started, stopped), return_when=asyncio.FIRST_COMPLETED)
            if started in done:
                started.result()
            return started in done
        finally:
            stopped.cancel()
            started.cancel()
            await asyncio.gather(started, return_exceptions=True)

    async def _answer_or_stop(self) -> RunFinished:
        if not self._given:
            await self._stopping.wait()
            return RunFinished(outcome="completed", reason="stopped")
        reply = await self.system.node.ask(self._entry, dict(self._given), timeout=None, asker=Asker(origin="input"))
        return _outcome(reply)

    # -- what actors do -----------------------------------------------------------------------------------------------

    async def call(self, agent: str, given: Mapping[str, Any], say: Say | None = None) -> TurnEnd:
        """Run *agent* of the plan as a new turn, and return how that ended.

        If a message is handled again after a kill, a repeated question gets the recorded answer, or the turn that an
        earlier owner began for the same input: nothing is paid for twice. Cancelling this call cancels the turn.

        Args:
            say: Called with each text of the turn's attempts, and of the team that it runs: the attempt and the text.
        """
        inputs: dict[str, Any] = self._services.secrets.hide_in(dict(given))
        turn, asker, held = "", copy_context(), IN_HAND.get()
        origin, asking = ("", "") if held is None else (held.origin, held.reply_to or "")
        if origin and self._epoch > 1:
            await self._read_questions()
        ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()

        def ask() -> None:
            nonlocal turn
            if ended.done():
                return
            known = self._questions.again(origin, asking, agent, inputs)
            if known is not None and known.end is not None:
                ended.set_result(known.end)
            elif turn := self._begun(agent, inputs, "" if known is None else known.turn):
                if (before := self._unclaimed.pop(turn, None)) is not None:
                    ended.set_result(before)
                else:
                    self._calls[turn] = ended
            else:
                turn = self._next(agent)
                asker.run(self.system.plugins.tracer.link, self._run, turn)
                self._calls[turn] = ended
                call = CallAsked(turn=turn, agent=agent, given=inputs, origin=origin)
                self._questions.asked(call, asking)
                self._services.write(call, source="agent")

        def drop() -> None:
            if self._calls.pop(turn, None) is not None:
                self._services.write(CallDropped(turn=turn), source="agent")

        def on_event(ref: AttemptRef, event: Event) -> None:
            if say is None or not isinstance(event, Text) or event.channel != "answer":
                return
            if turn and ref.marker.startswith(f"{self._run}/{turn}."):
                say(ref.marker.removeprefix(f"{self._run}/"), event.text)

        self._services.post(ask, ended.cancel)
        unsubscribe = self._services.events.subscribe(on_event)
        try:
            return await ended
        except asyncio.CancelledError:
            self._services.post(drop)
            raise
        finally:
            unsubscribe()

    async def _past(self, ask: str) -> list[ReplyRecord]:
        """The records of a streamed reply in the journal."""

        def read() -> list[ReplyRecord]:
            of_replies = (one for one in self._services.read() if isinstance(one, ReplyPiece | ReplyEnded))
            return [one for one in of_replies if one.ask == ask]

        return await asyncio.to_thread(read)

    async def _read_questions(self) -> None:
        """Read the questions of earlier owners and their answers, once."""
        if self._reading is None:
            read = partial(self._questions.read, self._services.read(), self._epoch)
            self._reading = asyncio.get_running_loop().create_task(asyncio.to_thread(read))
        await asyncio.shield(self._reading)

    def _begun(self, agent: str, given: Mapping[str, Any], known: str) -> str:
        """The turn in which an earlier owner asked *agent* the same; empty: none. Each turn is returned once.

        Args:
            known: That turn, if the question has been identified.
        """
        asked = agent, identity(given)
        same = (turn for turn, ask in self._orphans.items() if (ask.agent, identity(ask.whole)) == asked)
        turn = known if known in self._orphans else next(same, "")
        self._orphans.pop(turn, None)
        return turn

    def _next(self, agent: str) -> str:
        engine = self._core.engine
        assert isinstance(engine, SystemEngine)
        return turn_id(agent, engine.numbers.get(agent, 0) + 1)

    def _record(self, record: Record) -> None:
        said = self._services.secrets.hide_fields(record, *TEXTS)
        self._services.post(lambda: self._services.write(said))


def _outcome(reply: Message) -> RunFinished:
    """The end of a run with *reply*: its payload is the result, unless it is a failed turn or not JSON."""
    payload = reply.payload
    if reply.type == TURN_FAILED:
        return RunFinished(outcome="failed", reason=str(payload["reason"]))
    if not isinstance(payload, Mapping):
        return RunFinished(outcome="completed", result={"text": "" if payload is None else str(payload)})
    try:
        result = plain(payload, f"the answer of {reply.sender}")
    except ValueError as error:
        return RunFinished(outcome="failed", reason=str(error))
    return RunFinished(outcome="completed", result={**result, "text": str(result.get("text", ""))})
