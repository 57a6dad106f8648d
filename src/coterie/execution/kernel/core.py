"""One run that is owned: inputs in, records appended, effects out. No I/O, no asyncio, no clock.

1. A journal is a total order; the engine hears one record at a time, in that order.
2. In one go, an input is judged (which record describes it?), written, and stepped (what follows?).
3. The effects that `pump` returns may leave the process only when all earlier records are durable;
   `coterie.execution.kernel.shell` waits for that.
"""

from collections.abc import Callable

import msgspec

from coterie.agents.backends.base import NO_TAIL, AttemptRef, Tail
from coterie.execution.kernel.commands import (
    AttemptInput,
    Close,
    Effect,
    Gather,
    Halt,
    NextAttempt,
    ReadPlan,
    Rest,
    Start,
    Turn,
    Wait,
    gist,
)
from coterie.execution.kernel.fold import Coordinator, Fold
from coterie.execution.kernel.items import hash_of, name_of
from coterie.execution.kernel.retries import LOST, opens_at
from coterie.execution.kernel.threads import session_for
from coterie.history.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reload, Reply, Wake
from coterie.history.journal import records
from coterie.history.journal.codec import text_hash
from coterie.history.journal.records import NO_USAGE, Cause, Record, Usage
from coterie.team.planning.plan import Limits

Room = Callable[["Core", Ask, bool], bool]
"""`room(core, ask, again)`: whether a turn of *ask*, new or repeated, may start now."""


_STARTS = (Ask, NextAttempt)


class CoreDuties:
    """The services that the owner of a run provides to its core. By default all but *append* do nothing.

    Args:
        append: Appends the next record of the run. An exception ends the owner.
    """

    def __init__(self, append: Callable[[Record], object]) -> None:
        self.append = append

    def render(self, core: Fold, turn: Turn) -> tuple[str, Tail]:
        """The whole prompt of the current attempt of *turn*, and the end of it."""
        return "", NO_TAIL

    def hide(self, text: str) -> str:
        """*text* without secrets."""
        return text

    def outside(self, fold: Fold, turn: Turn) -> tuple[str, ...]:
        """The names of the parts of that prompt that the journal does not hold."""
        return ()

    def call_off(self, turn: Turn) -> Usage:
        """Ignore the child run of *turn* from now on; the cancellation of the turn is about to be written.

        Returns:
            The usage of that run.
        """
        return NO_USAGE

    def is_ending(self) -> bool:
        """Whether a child run that was called off has not ended yet; this run ends after it."""
        return False

    def closes(self) -> bool:
        """Whether steps remain between the engine's command to end the run and the end itself."""
        return False

    def reserve(self, core: Fold, ask: Ask) -> float:
        """The part of the budget, in US dollars, to set aside for an attempt that is about to start."""
        return 0.0

    def can_resume(self, core: Fold, agent: str) -> bool:
        """Whether *agent* can continue a session from an earlier attempt."""
        return False


class Core(Fold):
    """A run with an owner; only this class appends to its journal.

    Attributes:
        reserved: Turns whose start waits for parts of their prompts; they keep their slots.
    """

    def __init__(self, run: str, coordination: Coordinator, duties: CoreDuties) -> None:
        super().__init__(run, coordination)
        self.duties, self._append = duties, duties.append
        self.reserved: dict[Cause, Turn] = {}
        self._closing = False

    def write(self, now: float, record: Record, cause: Cause | None = None, source: str = "harness") -> Record:
        """Give *record* its place in the journal, append it and fold it in."""
        at = now if now > self.at else self.at
        record = msgspec.structs.replace(record, seq=self.seq + 1, at=at, cause=cause, source=source)
        self._append(record)
        self.apply(record)
        return record

    def begin(
        self,
        now: float,
        started: records.RunStarted,
        limits: Limits,
        warnings: tuple[str, ...] = (),
        slept: float = 0.0,
    ) -> None:
        """Write the first records of a new run."""
        self.write(now, started)
        self.write(now, records.RunOwned(epoch=1, limits=limits, warnings=warnings, slept=slept))

    def accept(self, now: float, said: AttemptInput, source: str = "agent") -> Record | None:
        """Turn an input of an attempt into a record. None: it came too late, and nothing was written."""
        if not self.accepts(said.turn, said.attempt):
            return None
        if isinstance(said, Record):
            if isinstance(said, records.AttemptInterrupted):
                return self.cut_off(now, said.turn, said.reason, said.usage, said.abandoned)
            if isinstance(said, records.AttemptFailed):
                said = msgspec.structs.replace(said, until=opens_at(said, max(now, self.at)))
            return self.write(now, said)
        judged = self._judge(said)
        agent = self.agents.get(self.turns[said.turn].ask.agent)
        if agent is not None and (gates := self.coordination.project.gates(agent, judged)):
            judged = _due(said, gates)
        return self.write(now, judged, source=source)

    def cut_off(self, now: float, turn: str, reason: str, usage: Usage = NO_USAGE, abandoned: bool = False) -> Record:
        """Write that the running attempt of *turn* was cut off after it had reported *usage*.

        The rest of a lost attempt's reservation stays reserved, since it may have been spent without a report.
        """
        rest = self.turns[turn].reserved - usage.cost
        if reason in LOST and rest > 0:
            usage = msgspec.structs.replace(usage, unsettled=rest)
        attempt = self.turns[turn].attempt
        cut = records.AttemptInterrupted(turn=turn, attempt=attempt, reason=reason, usage=usage, abandoned=abandoned)
        return self.write(now, cut)

    def settle(self, now: float, turn: str) -> Record | None:
        """Write the verdict on *turn*, whose gates have run. None: it is too late."""
        held = self.turns[turn].gated
        if held is None or held.next is not None or not self.accepts(turn, held.due.attempt):
            return None
        judged = self._judge(held.said)
        if (failed := held.failed) is not None:
            judged = self.coordination.project.refused(judged, failed)
        return self.write(now, judged, source=held.due.source)

    def _judge(self, said: Reply | Emit) -> Record:
        if isinstance(said, Reply) and (given := self.turns[said.turn].given):
            said = msgspec.structs.replace(said, given=given)
        return self.engine.judge(said)

    def pump(self, now: float, room: Room) -> list[Effect]:
        """Carry out pending commands: write each intent, and return the effects to perform once these are durable.

        Starts without *room* stay queued, and so does the end of the run while child runs that were called off have not
        ended.
        """
        effects: list[Effect] = []
        while self.finished is None and not self._closing:
            if self._at_once:
                command = self.todo.get(cause := self._at_once[0])
                if isinstance(command, Finish) and self.duties.is_ending():
                    break
                self._at_once.popleft()
                if command is not None:
                    self._carry_out(now, cause, command, effects)
                continue
            if self.stopping is not None or not self.queued:
                break
            start = self.todo[self._asks[0]]
            assert isinstance(start, _STARTS)
            ask = start if isinstance(start, Ask) else self.turns[start.turn].ask
            if not room(self, ask, start is not ask):
                break
            effects.append(self._start(now, self._asks.popleft()))
        if self._fresh:
            for cause in self._fresh if not self._closing else ():
                match self.todo.get(cause):
                    case NextAttempt() as again:
                        effects.append(Wait(cause=cause, again=again))
                    case Reload():
                        effects.append(ReadPlan(cause=cause))
            self._fresh.clear()
        return effects

    @property
    def next_takes_a_slot(self) -> bool:
        """Whether the queued start takes a slot."""
        start = self.todo[self._asks[0]]
        assert isinstance(start, Ask | NextAttempt)
        return self.takes_a_slot(start.agent if isinstance(start, Ask) else self.turns[start.turn].ask.agent)

    def _carry_out(self, now: float, cause: Cause, command: Command | NextAttempt, effects: list[Effect]) -> None:
        match command:
            case Note():
                self.write(now, command.record, cause)
            case Cancel():
                effects += self._cancel(now, command.turn, command.reason, cause)
            case Wake():
                effects.append(Rest(cause=cause, wake=command))
            case Finish() if self.duties.closes():
                self._closing = True
                effects.append(Close())
            case Finish():
                self.finish(now)

    def finish(self, now: float) -> None:
        """End the run as its engine decided; do nothing if it was already stopped."""
        if self.is_live and self.end is not None:
            self.write(now, self.end, self.ending)

    def _start(self, now: float, cause: Cause) -> Effect:
        command = self.todo[cause]
        if isinstance(command, Ask):
            session = session_for(self, command) if self.thread is not None else ""
            resumes = session if session and self.duties.can_resume(self, command.agent) else ""
            turn = self.asked[command.turn]
            turn.resumes = resumes
        else:
            assert isinstance(command, NextAttempt)
            known = self.turns[command.turn]
            resumes = known.session if known.session and self.duties.can_resume(self, known.ask.agent) else ""
            kept = {name: text for name, text in known.used.items() if name != "said"} if known.goes_on else {}
            turn = msgspec.structs.replace(known, attempt=command.attempt, used=kept, resumes=resumes)
        turn.reserved = self.duties.reserve(self, turn.ask)
        names = self.duties.outside(self, turn)
        if names and (names := tuple(name for name in names if name not in turn.used)):
            self.reserved[cause] = turn
            self.busy += self.takes_a_slot(turn.ask.agent)
            return Gather(turn=turn.ask.turn, attempt=turn.attempt, names=names, cause=cause)
        return self._write_start(now, cause, turn)

    def gathered(self, now: float, asked: Gather, used: dict[str, str | None], may_start: bool) -> list[Effect]:
        """Answer a `Gather`: start the turn, unless it was voided meanwhile or *may_start* is false."""
        if asked.cause is None:
            if not self.accepts(asked.turn, asked.attempt):
                return []
            self.turns[asked.turn].used = used
            return [self.resumed(self.turns[asked.turn])]
        turn = self.reserved.pop(asked.cause)
        self.busy -= self.takes_a_slot(turn.ask.agent)
        if asked.cause not in self.todo or not may_start or self._closing or self.called_off or not self.is_live:
            return []
        turn.used = turn.used | used
        return [self._write_start(now, asked.cause, turn)]

    def _write_start(self, now: float, cause: Cause, turn: Turn) -> Start:
        ask, (prompt, tail) = turn.ask, self.duties.render(self, turn)
        intent = records.TurnStarted(
            turn=ask.turn,
            agent=ask.agent,
            attempt=turn.attempt,
            inputs=ask.inputs,
            prompt=text_hash(prompt),
            used=turn.used,
            session=turn.resumes,
        )
        if ask.asked and turn.attempt == 1:
            asked = gist(self.duties.hide(ask.prompt or ""))
            intent = msgspec.structs.replace(intent, asked=ask.asked, question=asked)
        if (item := ask.item) is not None:
            of = {"set": item.set, "item": (item.k, item.of), "item_hash": hash_of(item)}
            intent = msgspec.structs.replace(intent, **of, item_name=name_of(item, self.duties.hide))
        if turn.reserved:
            intent = msgspec.structs.replace(intent, reserved=turn.reserved)
        self.write(now, intent, cause)
        return Start(ask=ask, attempt=turn.attempt, prompt=prompt, tail=tail)

    def resumed(self, turn: Turn) -> Start:
        """Return the effect that continues the current attempt of *turn*, which began under an earlier owner."""
        return Start(ask=turn.ask, attempt=turn.attempt, prompt=self.duties.render(self, turn)[0], resumed=True)

    def due(self, cause: Cause) -> None:
        """Queue a retry whose time has come; do nothing if it was voided meanwhile."""
        if cause in self.todo:
            self._asks.append(cause)

    def woke(self, now: float, cause: Cause) -> None:
        """Write the end of a sleep whose time has come; do nothing if it ended earlier."""
        if isinstance(wake := self.todo.get(cause), Wake) and self.is_live:
            self.write(now, records.SleepEnded(sleep=wake.sleep), cause)

    def cancel(self, now: float, turn: str, reason: str, source: str = "operator") -> list[Effect]:
        """Cancel a turn for a reason other than the engine's decision; do nothing if it ended first."""
        if self.finished is not None or self.turns[turn].status == "ended":
            return []
        return self._cancel(now, turn, reason, None, source)

    def _cancel(self, now: float, name: str, reason: str, cause: Cause | None, source: str = "harness") -> list[Effect]:
        turn = self.turns.get(name)
        is_running = turn is not None and turn.status == "running"
        usage = self.duties.call_off(turn) if turn is not None and is_running else NO_USAGE
        self.write(now, records.TurnCancelled(turn=name, reason=reason, usage=usage), cause, source)
        return [Halt(turn=name)] if is_running else []

    def stop(self, now: float, reason: str, until: float = 0.0, by: str = "") -> None:
        """Stop the run, which can be resumed; only attempts of humans and child runs may still run."""
        if self.finished is None and not self.stopped:
            cause, self.stopping = self.stopping, None
            is_limit = cause is not None or reason.startswith("max_")  # an engine stops a run for a limit, too
            by = by or ("limit" if is_limit else "")
            self.write(now, records.RunStopped(reason=reason, until=until, by=by), cause)

    def reloaded(self, now: float, cause: Cause, answer: records.ConfigAnswer) -> None:
        """Answer a `ReadPlan`."""
        if cause in self.todo:
            self.write(now, answer, cause)

    def ref(self, turn: str) -> AttemptRef:
        """The name of the current attempt of *turn*."""
        known = self.turns[turn]
        return AttemptRef(run=self.run, turn=turn, attempt=known.attempt, epoch=known.epoch)


def _due(said: Reply | Emit, gates: tuple[tuple[str, ...], ...]) -> records.GatesDue:
    due = records.GatesDue(turn=said.turn, attempt=said.attempt, gates=gates, brought_by=said.message)
    if isinstance(said, Emit):
        return msgspec.structs.replace(due, event=said.event, payload=said.payload)
    return msgspec.structs.replace(due, text=said.text, outputs=said.outputs, usage=said.usage)
