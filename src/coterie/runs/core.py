"""One run: the fold of its journal, and what is left to do. No I/O, no asyncio, no clock.

1. A journal is a total order; the engine hears one record at a time, in that order.
2. An input is judged (what shall the journal say of it?), written, and stepped (what follows?) in one go.
3. Every command has the identity (seq of the record that caused it, index). The record that carries it out names it as
   `cause`. After a fold, the commands without such a record are exactly what is left to do, in order.
4. What `pump` returns may leave the process only when all that was written before is durable: `coterie.runs.shell`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from coterie.engines.commands import Ask, Cancel, Command, Emit, Engine, Failed, Finish, Note, Reload, Reply, Stop
from coterie.errors import ReplayMismatch
from coterie.journal.records import (
    NO_USAGE,
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    Cause,
    ConfigChanged,
    ConfigRejected,
    Record,
    RunFinished,
    RunOwned,
    RunStarted,
    RunStopped,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.planning.plan import AgentPlan, Limits
from coterie.runs.commands import Again, Effect, Halt, ReadPlan, Start, Turn, Wait, carries_out, describe


class Core:
    """One run, live or being read: the only caller of *append*.

    Args:
        agents: The plan's agents by name; one the plan does not know is asked under default rules.
        append: Takes each new record, in order. What it raises ends this owner.
        render: The whole question of an attempt; called once per attempt, before its intent is written.
        digest: A hash of that question, for the intent.
    """

    def __init__(
        self,
        run: str,
        engine: Engine,
        agents: Mapping[str, AgentPlan],
        append: Callable[[Record], None],
        render: Callable[["Core", Turn], str],
        digest: Callable[[str], str],
    ) -> None:
        self.run, self.engine, self.agents = run, engine, agents
        self._append, self._render, self._digest = append, render, digest
        self.seq, self.at, self.epoch = 0, 0.0, 0
        self.limits = Limits()
        self.started: RunStarted | None = None
        self.finished: RunFinished | None = None
        self.stopped = ""
        self.turns: dict[str, Turn] = {}
        self.latest: dict[str, TurnFinished] = {}
        """Each agent's latest result; a fallback's counts as that of the agent it stood in for."""
        self.messages: set[str] = set()
        self.busy = 0
        """Turns that run here and take a place: no humans, no child runs."""
        self.spent = NO_USAGE
        """What this run used, its finished children included."""
        self.todo: dict[Cause, Command | Again] = {}
        self._at_once: deque[Cause] = deque()
        self._asks: deque[Cause] = deque()
        self._fresh: list[Cause] = []
        self._waiting: dict[str, Cause] = {}
        """What is decided for each turn that does not run: its Ask, its Again, or the Note of its failure."""
        self.stopping: Cause | None = None

    # -- the fold ---------------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Fold one record in; the same live, at resume and in a replay.

        Raises:
            ReplayMismatch: If the record carries out what nobody wanted, or ends a turn that does not run.
        """
        if record.seq != self.seq + 1:
            raise ReplayMismatch(self.run, record.seq, f"seq {record.seq}", f"seq {self.seq + 1}")
        command = self._settle(record)
        self.seq, self.at = record.seq, record.at
        follows: list[Command | Again] = []
        match record:
            case TurnStarted():
                self._begin(record, command)
            case AttemptLaunched():
                self._running(record, record.turn).launched.append(record)
            case AttemptFailed():
                follows.append(self._after_failure(record))
            case AttemptInterrupted():
                follows.append(self._after_interruption(record))
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self._end_turn(record)
            case RunStarted():
                self.started = record
            case RunOwned():
                self.epoch, self.limits, self.stopped = record.epoch, record.limits, ""
                self._void_stops()
            case RunStopped():
                self.stopped = record.reason
            case RunFinished():
                self.finished = record
        if message := getattr(record, "message", ""):
            self.messages.add(message)
        follows.extend(self.engine.step(record))
        if self.finished is not None:
            self.todo.clear()
            return
        for k, wanted in enumerate(follows):
            self._want((record.seq, k), wanted)

    def _settle(self, record: Record) -> Command | Again | None:
        """Take the command that *record* carries out off the list of what is left to do."""
        cause = record.cause
        if cause is None:
            if isinstance(record, TurnStarted | TurnFailed | ConfigChanged | ConfigRejected):
                raise ReplayMismatch(self.run, record.seq, describe(record), "a cause")
            return None
        command = self.todo.pop(cause, None)
        if command is None or not carries_out(record, command):
            wanted = "nothing there" if command is None else describe(command)
            raise ReplayMismatch(self.run, record.seq, f"{describe(record)} (cause {cause})", wanted)
        return command

    def _want(self, cause: Cause, command: Command | Again) -> None:
        self.todo[cause] = command
        match command:
            case Ask():
                self._asks.append(cause)
                self._waiting[command.turn] = cause
            case Again():
                self._fresh.append(cause)
                self._waiting[command.turn] = cause
            case Reload():
                self._fresh.append(cause)
            case Stop():
                self.stopping = cause
            case Note(record=TurnFailed(turn=turn)):
                self._at_once.append(cause)
                self._waiting[turn] = cause
            case _:
                self._at_once.append(cause)

    def _begin(self, record: TurnStarted, command: Command | Again | None) -> None:
        del self._waiting[record.turn]
        if isinstance(command, Ask):
            self.turns[record.turn] = turn = Turn(ask=command)
            if self.takes_place(command.agent):
                self.spent += Usage(turns=1)
        else:
            turn = self.turns[record.turn]
        turn.attempt, turn.status, turn.asked = record.attempt, "running", record.at
        self.busy += self.takes_a_slot(turn.ask.agent)

    def _after_failure(self, record: AttemptFailed) -> Command | Again:
        turn = self._pause(record, record.turn)
        self.spent += record.usage
        turn.failure = record
        wait = turn.tally.after_failure(record, self._agent(turn).retry)
        if wait is None:
            return Note(record=TurnFailed(turn=record.turn, kind=record.kind, reason=record.reason))
        return Again(turn=record.turn, attempt=record.attempt + 1, due=record.at + wait)

    def _after_interruption(self, record: AttemptInterrupted) -> Command | Again:
        turn = self._pause(record, record.turn)
        wait = turn.tally.after_interruption(record)
        if wait is None:
            reason = f"cut off by {turn.tally.crashes} crashes in a row"
            return Note(record=TurnFailed(turn=record.turn, kind="interrupted", reason=reason))
        ask = record.reason == "crash" and self._agent(turn).on_interrupt == "ask"
        return Again(turn=record.turn, attempt=record.attempt + 1, due=record.at + wait, ask=ask)

    def _pause(self, record: Record, name: str) -> Turn:
        turn = self._running(record, name)
        turn.status = "between"
        self.busy -= self.takes_a_slot(turn.ask.agent)
        return turn

    def _end_turn(self, record: TurnFinished | TurnFailed | TurnCancelled) -> None:
        waiting = self._waiting.pop(record.turn, None)
        if waiting is not None:  # a retry that was waiting, or a start that never came, is void
            command = self.todo.pop(waiting, None)
            if isinstance(command, Ask):
                self.turns[record.turn] = Turn(ask=command, status="between")
        turn = self._known(record, record.turn)
        if turn.status == "running":
            self.busy -= self.takes_a_slot(turn.ask.agent)
        turn.status = "ended"
        turn.cancelled = isinstance(record, TurnCancelled)
        if isinstance(record, TurnFinished):
            turn.result = self.latest[turn.ask.instead_of or turn.ask.agent] = record
            self.spent += record.usage

    def _void_stops(self) -> None:
        """A limit was decided under an earlier owner: the engine decides again, under this one's."""
        if self.stopping is not None:
            self.todo.pop(self.stopping, None)
            self.stopping = None

    def _running(self, record: Record, name: str) -> Turn:
        turn = self._known(record, name)
        if turn.status != "running":
            raise ReplayMismatch(self.run, record.seq, describe(record), f"nothing of {name}, which is {turn.status}")
        return turn

    def _known(self, record: Record, name: str) -> Turn:
        turn = self.turns.get(name)
        if turn is None:
            raise ReplayMismatch(self.run, record.seq, describe(record), f"no turn {name!r} so far")
        return turn

    # -- what the world says ----------------------------------------------------------------------------------------

    def write(self, now: float, record: Record, cause: Cause | None = None, source: str = "harness") -> Record:
        """Give *record* its place in the journal, append it and fold it in."""
        record = msgspec.structs.replace(record, seq=self.seq + 1, at=max(now, self.at), cause=cause, source=source)
        self._append(record)
        self.apply(record)
        return record

    def begin(self, now: float, started: RunStarted, limits: Limits) -> None:
        """Write the first records of a new run."""
        self.write(now, started)
        self.write(now, RunOwned(epoch=1, limits=limits))

    def hears(self, turn: str, attempt: int) -> bool:
        """Whether what *attempt* of *turn* says still counts."""
        known = self.turns.get(turn)
        return known is not None and known.status == "running" and known.attempt == attempt and self.is_live

    @property
    def is_live(self) -> bool:
        """Whether this owner may still write: the run neither ended nor was let go of."""
        return self.finished is None and not self.stopped

    def accept(self, now: float, said: Reply | Failed | Emit | AttemptLaunched, source: str = "agent") -> Record | None:
        """Turn what an attempt says into a record. None: it is too late, and nothing was written."""
        if not self.hears(said.turn, said.attempt):
            return None
        match said:
            case Reply() | Emit():
                return self.write(now, self.engine.judge(said), source=source)
            case Failed(kind="interrupted"):
                cut = AttemptInterrupted(turn=said.turn, attempt=said.attempt, reason="interrupted")
                return self.write(now, cut)
            case Failed():
                failed = AttemptFailed(
                    turn=said.turn, attempt=said.attempt, kind=said.kind, reason=said.reason, usage=said.usage
                )
                return self.write(now, failed)
            case AttemptLaunched():
                return self.write(now, said)

    # -- what is left to do -----------------------------------------------------------------------------------------

    def pump(self, now: float, room: Callable[[str, bool], bool]) -> list[Effect]:
        """Carry out what is decided: write each intent, and return the effects to perform once these are durable.

        Args:
            room: `room(agent, again)`: whether a turn of *agent* may start now, for the first time or again. The
                starts that find none stay in line.
        """
        effects: list[Effect] = []
        while self.finished is None:
            if self._at_once:
                cause = self._at_once.popleft()
                if (command := self.todo.get(cause)) is not None:
                    self._carry_out(now, cause, command, effects)
                continue
            if self.stopping is not None or not self._next_start(room):
                break
            effects.append(self._start(now, self._asks.popleft()))
        for cause in self._fresh:
            match self.todo.get(cause):
                case Again() as again:
                    effects.append(Wait(cause=cause, again=again))
                case Reload():
                    effects.append(ReadPlan(cause=cause))
        self._fresh.clear()
        return effects

    def _next_start(self, room: Callable[[str, bool], bool]) -> bool:
        while self._asks:
            match self.todo.get(self._asks[0]):
                case Ask(agent=agent):
                    return room(agent, False)
                case Again(turn=turn):
                    return room(self.turns[turn].ask.agent, True)
                case _:
                    self._asks.popleft()  # void: its turn has ended
        return False

    def _carry_out(self, now: float, cause: Cause, command: Command | Again, effects: list[Effect]) -> None:
        match command:
            case Note():
                self.write(now, command.record, cause)
            case Cancel():
                turn = self.turns.get(command.turn)
                if turn is not None and turn.status == "ended":
                    del self.todo[cause]  # it ended first: nothing to do
                    return
                effects += self._halt(turn, command.turn)
                self.write(now, TurnCancelled(turn=command.turn, reason=command.reason), cause)
            case Finish():
                finished = RunFinished(outcome=command.outcome, result=command.result, reason=command.reason)
                self.write(now, finished, cause)

    def _start(self, now: float, cause: Cause) -> Start:
        command = self.todo[cause]
        if isinstance(command, Ask):
            turn = Turn(ask=command, attempt=1)
        else:
            assert isinstance(command, Again)
            turn = msgspec.structs.replace(self.turns[command.turn], attempt=command.attempt)
        ask = turn.ask
        prompt = self._render(self, turn)
        intent = TurnStarted(
            turn=ask.turn, agent=ask.agent, attempt=turn.attempt, inputs=ask.inputs, prompt=self._digest(prompt)
        )
        self.write(now, intent, cause)
        return Start(ask=ask, attempt=turn.attempt, prompt=prompt)

    def due(self, cause: Cause) -> None:
        """The time of a retry has come: it stands in line from now on. Nothing happens if it was voided meanwhile."""
        if cause in self.todo:
            self._asks.append(cause)

    @property
    def queued(self) -> bool:
        """Whether a start stands in line."""
        while self._asks and self._asks[0] not in self.todo:
            self._asks.popleft()
        return bool(self._asks)

    @property
    def wants_stop(self) -> str:
        """Why the engine wants to let go of the run, or an empty text."""
        command = self.todo.get(self.stopping) if self.stopping is not None else None
        return command.reason if isinstance(command, Stop) else ""

    def is_human(self, agent: str) -> bool:
        """Whether *agent* is a person."""
        return self._kind(agent) == "human"

    def cancel(self, now: float, turn: str, reason: str) -> list[Effect]:
        """Call a turn off on somebody's word, not the engine's; nothing happens if it ended first."""
        known = self.turns.get(turn)
        if self.finished is not None or known is None or known.status == "ended":
            return []
        effects = self._halt(known, turn)
        self.write(now, TurnCancelled(turn=turn, reason=reason), source="operator")
        return effects

    def cancel_run(self, now: float, reason: str) -> list[Effect]:
        """End this run because its parent does not want it any more."""
        effects: list[Effect] = []
        for name, turn in list(self.turns.items()):
            if turn.status != "ended" and self.finished is None:
                effects += self._halt(turn, name)
                self.write(now, TurnCancelled(turn=name, reason=reason))
        if self.finished is None:
            self.write(now, RunFinished(outcome="cancelled", reason=reason))
        return effects

    def stop(self, now: float, reason: str) -> None:
        """Let go of the run, which can be resumed; no attempt may run any more but those of humans and child runs."""
        if self.finished is None and not self.stopped:
            cause, self.stopping = self.stopping, None
            self.write(now, RunStopped(reason=reason), cause)

    def reloaded(self, now: float, cause: Cause, answer: ConfigChanged | ConfigRejected) -> None:
        """Answer a `ReadPlan`."""
        if cause in self.todo:
            self.write(now, answer, cause)

    # -- resuming ---------------------------------------------------------------------------------------------------

    def fold(self, records: Iterable[Record]) -> None:
        """Fold a journal in."""
        for record in records:
            self.apply(record)

    def own(self, now: float, limits: Limits) -> list[Effect]:
        """Take over a folded run: a new epoch, attempts that were cut off, and what goes on as it was.

        A child run is continued under its id and a human's question stands; any other attempt in flight was cut off
        and is to be asked again.
        """
        self.write(now, RunOwned(epoch=self.epoch + 1, limits=limits))
        effects: list[Effect] = []
        for name, turn in list(self.turns.items()):
            if turn.status != "running":
                continue
            if self._goes_on(turn.ask.agent):
                effects.append(Start(ask=turn.ask, attempt=turn.attempt, prompt=self._render(self, turn), resumed=True))
            else:
                self.write(now, AttemptInterrupted(turn=name, attempt=turn.attempt, reason="crash"))
        return effects

    def _goes_on(self, agent: str) -> bool:
        return self._kind(agent) in ("topology", "human")

    def _halt(self, turn: Turn | None, name: str) -> list[Effect]:
        return [Halt(turn=name)] if turn is not None and turn.status == "running" else []

    def _kind(self, agent: str) -> str:
        known = self.agents.get(agent)
        return known.kind if known is not None else "agent"

    def takes_place(self, agent: str) -> bool:
        """Whether a turn of *agent* counts as a turn; a child run's own turns do instead."""
        return self._kind(agent) != "topology"

    def takes_a_slot(self, agent: str) -> bool:
        """Whether a turn of *agent* counts against `max_parallel`."""
        return not self._goes_on(agent)

    def _agent(self, turn: Turn) -> AgentPlan:
        return self.agents.get(turn.ask.agent) or AgentPlan(name=turn.ask.agent)
