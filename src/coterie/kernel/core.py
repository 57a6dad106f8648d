"""One run that is owned: inputs in, records appended, effects out. No I/O, no asyncio, no clock.

1. A journal is a total order; the engine hears one record at a time, in that order.
2. An input is judged (what shall the journal say of it?), written, and stepped (what follows?) in one go.
3. What `pump` returns may leave the process only when all that was written before is durable;
   `coterie.kernel.shell` waits for that.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from coterie.backends.base import AttemptRef
from coterie.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reload, Reply
from coterie.journal import records
from coterie.journal.codec import text_hash
from coterie.journal.records import NO_USAGE, Cause, Record, Usage
from coterie.kernel.commands import AttemptInput, Close, Effect, Gather, Halt, NextAttempt, ReadPlan, Start, Turn, Wait
from coterie.kernel.fold import Coordinator, Fold
from coterie.kernel.retries import LOST, opens_at
from coterie.planning.plan import Limits

Room = Callable[["Core", Ask, bool], bool]
"""`room(core, ask, again)`: whether the turn of *ask* may start now, for the first time or again."""


class CoreDuties(Protocol):
    """What the owner of a run does for its core. By default nothing: a fold that may write needs no more."""

    def append(self, record: Record) -> None:
        """Take the next record of the run. What this raises ends the owner."""

    def render(self, core: Fold, turn: Turn) -> str:
        """The whole prompt of the current attempt of *turn*."""
        return ""

    def outside(self, core: Fold, turn: Turn) -> tuple[str, ...]:
        """The names of the parts of that prompt that the journal does not hold."""
        return ()

    def call_off(self, turn: Turn) -> Usage:
        """Hear nothing more of the child run that *turn* is, whose cancellation is about to be written.

        Returns:
            What that run has used.
        """
        return NO_USAGE

    def is_ending(self) -> bool:
        """Whether a child run that was called off has not ended yet: this run ends after it."""
        return False

    def closes(self) -> bool:
        """Whether there are steps to do between the engine's wish to end the run and its end."""
        return False

    def reserve(self, core: Fold, ask: Ask) -> float:
        """The part of the budget, in US dollars, to set aside for an attempt that is about to start."""
        return 0.0

    def can_resume(self, core: Fold, agent: str) -> bool:
        """Whether *agent* can go on in a session that an earlier attempt began."""
        return False


class Appending(CoreDuties):
    """The duties of what only keeps the records: *append* takes each."""

    def __init__(self, append: Callable[[Record], object]) -> None:
        self._append = append

    def append(self, record: Record) -> None:
        """Keep *record*."""
        self._append(record)


class Core(Fold):
    """One run, live: the only one that appends to its journal.

    Attributes:
        reserved: The turns whose start waits for parts of their prompts; they keep their slots.
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

    def begin(self, now: float, started: records.RunStarted, limits: Limits, warnings: tuple[str, ...] = ()) -> None:
        """Write the first records of a new run."""
        self.write(now, started)
        self.write(now, records.RunOwned(epoch=1, limits=limits, warnings=warnings))

    def accept(self, now: float, said: AttemptInput, source: str = "agent") -> Record | None:
        """Turn what an attempt says into a record. None: it is too late, and nothing was written."""
        if not self.accepts(said.turn, said.attempt):
            return None
        if isinstance(said, Record):
            if isinstance(said, records.AttemptInterrupted):
                return self.cut_off(now, said.turn, said.reason, said.usage)
            if isinstance(said, records.AttemptFailed):
                said = msgspec.structs.replace(said, until=opens_at(said, max(now, self.at)))
            return self.write(now, said)
        judged = self._judge(said)
        agent = self.agents.get(self.turns[said.turn].ask.agent)
        if agent is not None and (gates := self.coordination.gates(agent, judged)):
            judged = _due(said, gates)
        return self.write(now, judged, source=source)

    def cut_off(self, now: float, turn: str, reason: str, usage: Usage = NO_USAGE) -> Record:
        """Write that the running attempt of *turn* was cut off after it had reported *usage*.

        The rest of what was reserved for an attempt that was lost stays reserved: it may have been spent unseen.
        """
        rest = self.reservations.get(turn, 0.0) - usage.cost
        if reason in LOST and rest > 0:
            usage = msgspec.structs.replace(usage, unsettled=rest)
        attempt = self.turns[turn].attempt
        return self.write(now, records.AttemptInterrupted(turn=turn, attempt=attempt, reason=reason, usage=usage))

    def settle(self, now: float, turn: str) -> Record | None:
        """Write the verdict on what *turn* said, whose gates were run. None: it is too late."""
        held = self.gated.get(turn)
        if held is None or held.next is not None or not self.accepts(turn, held.due.attempt):
            return None
        judged = self._judge(held.said)
        if (failed := held.failed) is not None:
            judged = self.coordination.refused(judged, failed)
        return self.write(now, judged, source=held.due.source)

    def _judge(self, said: Reply | Emit) -> Record:
        if self.given and isinstance(said, Reply) and (given := self.given.get(said.turn)):
            said = msgspec.structs.replace(said, given=given)
        return self.engine.judge(said)

    def pump(self, now: float, room: Room) -> list[Effect]:
        """Carry out what is decided: write each intent, and return the effects to perform once these are durable.

        The starts that find no *room* stay in line, and so does the end while child runs that were called off have not
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
            if self.stopping is not None or not self.queued or not self._has_room(self.todo[self._asks[0]], room):
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

    def _has_room(self, start: Command | NextAttempt, room: Room) -> bool:
        if isinstance(start, Ask):
            return room(self, start, False)
        return isinstance(start, NextAttempt) and room(self, self.turns[start.turn].ask, True)

    def _carry_out(self, now: float, cause: Cause, command: Command | NextAttempt, effects: list[Effect]) -> None:
        match command:
            case Note():
                self.write(now, command.record, cause)
            case Cancel():
                effects += self._cancel(now, command.turn, command.reason, cause)
            case Finish() if self.duties.closes():
                self._closing = True
                effects.append(Close())
            case Finish():
                self.finish(now)

    def finish(self, now: float) -> None:
        """End the run as its engine wants; nothing happens if it was let go of before."""
        if self.is_live and self.end is not None:
            self.write(now, self.end, self.ending)

    def _start(self, now: float, cause: Cause) -> Effect:
        command = self.todo[cause]
        if isinstance(command, Ask):
            turn = Turn(ask=command, attempt=1)
        else:
            assert isinstance(command, NextAttempt)
            known = self.turns[command.turn]
            resumes = known.session if known.session and self.duties.can_resume(self, known.ask.agent) else ""
            turn = msgspec.structs.replace(known, attempt=command.attempt, used={}, resumes=resumes)
        turn.reserved = self.duties.reserve(self, turn.ask)
        if names := self.duties.outside(self, turn):
            self.reserved[cause] = turn
            self.busy += self.takes_a_slot(turn.ask.agent)
            return Gather(turn=turn.ask.turn, attempt=turn.attempt, names=names, cause=cause)
        return self._write_start(now, cause, turn)

    def gathered(self, now: float, asked: Gather, used: dict[str, str | None], may_start: bool) -> list[Effect]:
        """Answer a `Gather`: start the turn, unless it was voided meanwhile or none *may_start* any more."""
        if asked.cause is None:
            if not self.accepts(asked.turn, asked.attempt):
                return []
            self.turns[asked.turn].used = used
            return [self.resumed(self.turns[asked.turn])]
        turn = self.reserved.pop(asked.cause)
        self.busy -= self.takes_a_slot(turn.ask.agent)
        if asked.cause not in self.todo or not may_start or self._closing or self.called_off or not self.is_live:
            return []
        turn.used = used
        return [self._write_start(now, asked.cause, turn)]

    def _write_start(self, now: float, cause: Cause, turn: Turn) -> Start:
        ask, prompt = turn.ask, self.duties.render(self, turn)
        intent = records.TurnStarted(
            turn=ask.turn,
            agent=ask.agent,
            attempt=turn.attempt,
            inputs=ask.inputs,
            prompt=text_hash(prompt),
            used=turn.used,
            session=turn.resumes,
        )
        if turn.reserved:
            intent = msgspec.structs.replace(intent, reserved=turn.reserved)
        self.write(now, intent, cause)
        return Start(ask=ask, attempt=turn.attempt, prompt=prompt)

    def resumed(self, turn: Turn) -> Start:
        """The start of the current attempt of *turn*, which began under an earlier owner."""
        return Start(ask=turn.ask, attempt=turn.attempt, prompt=self.duties.render(self, turn), resumed=True)

    def due(self, cause: Cause) -> None:
        """Queue a retry whose time has come; nothing happens if it was voided meanwhile."""
        if cause in self.todo:
            self._asks.append(cause)

    def cancel(self, now: float, turn: str, reason: str, source: str = "operator") -> list[Effect]:
        """Call a turn off on somebody's word, not the engine's; nothing happens if it ended first."""
        if self.finished is not None or self.turns[turn].status == "ended":
            return []
        return self._cancel(now, turn, reason, None, source)

    def _cancel(self, now: float, name: str, reason: str, cause: Cause | None, source: str = "harness") -> list[Effect]:
        turn = self.turns.get(name)
        is_running = turn is not None and turn.status == "running"
        usage = self.duties.call_off(turn) if turn is not None and is_running else NO_USAGE
        self.write(now, records.TurnCancelled(turn=name, reason=reason, usage=usage), cause, source)
        return [Halt(turn=name)] if is_running else []

    def stop(self, now: float, reason: str, until: float = 0.0) -> None:
        """Let go of the run, which can be resumed; no attempt may run any more but those of humans and child runs."""
        if self.finished is None and not self.stopped:
            cause, self.stopping = self.stopping, None
            self.write(now, records.RunStopped(reason=reason, until=until), cause)

    def reloaded(self, now: float, cause: Cause, answer: records.ConfigAnswer) -> None:
        """Answer a `ReadPlan`."""
        if cause in self.todo:
            self.write(now, answer, cause)

    def ref(self, turn: str, attempt: int) -> AttemptRef:
        """The name of *attempt*, the current one of *turn*."""
        return AttemptRef(run=self.run, turn=turn, attempt=attempt, epoch=self.turns[turn].epoch)


def _due(said: Reply | Emit, gates: tuple[tuple[str, ...], ...]) -> records.GatesDue:
    due = records.GatesDue(turn=said.turn, attempt=said.attempt, gates=gates, brought_by=said.message)
    if isinstance(said, Emit):
        return msgspec.structs.replace(due, event=said.event, payload=said.payload)
    return msgspec.structs.replace(due, text=said.text, outputs=said.outputs, usage=said.usage)
