"""What the journal of a run says: its fold, and what is left to do. Reading a run needs no more than this.

Every command has the identity (seq of the record that caused it, index). The record that carries it out names it as
`cause`. After a fold, the commands without such a record are exactly what is left to do, in order.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from coterie.engines.commands import INFRASTRUCTURE, Ask, Cancel, Command, Engine, Finish, Note, Reload, Stop
from coterie.errors import ReplayMismatch
from coterie.journal import records as r
from coterie.journal.owned import OwnedTime
from coterie.kernel.commands import HeldBack, NextAttempt, Part, Turn, carries_out, changed_plan, describe, refusal
from coterie.kernel.pending_guidance import Guidance
from coterie.kernel.reopening import Reopenable
from coterie.planning.plan import AgentPlan, Limits

_DECIDED = frozenset({r.TurnStarted, r.TurnFailed, r.ConfigChanged, r.ConfigHeld, r.ConfigRejected, r.ConfigKept})
"""What is never written unless a command wants it."""
_BROUGHT = frozenset(record for record in r.RECORDS if "message" in record.__struct_fields__)
"""What a message may bring."""


class Coordinator(Protocol):
    """The kind of a run, as far as its fold and its prompts need it; see `coterie.kernel.kind.Kind`."""

    keeps_guidance: ClassVar[bool]

    @property
    def engine(self) -> Engine:
        """The engine of this run."""

    @property
    def agents(self) -> Mapping[str, AgentPlan]:
        """The agents that the engine may call, by name."""

    def outside(self, fold: "Fold", turn: Turn) -> tuple[str, ...]:
        """The names of the parts of a prompt that the journal does not hold."""

    def prompt(self, fold: "Fold", turn: Turn) -> list[Part]:
        """The parts of a prompt that the engine has not written."""

    def additions(self, fold: "Fold", turn: Turn) -> list[Part]:
        """The parts that join a prompt which the engine has written."""

    def context(self, fold: "Fold", turn: Turn) -> dict[str, Any]:
        """The prompt as data, for programs."""

    def gates(self, agent: AgentPlan, judged: r.Record) -> tuple[tuple[str, ...], ...]:
        """The commands that must succeed before *judged*, which is about a turn of *agent*, is written."""

    def refused(self, judged: r.Record, gate: r.GateChecked) -> r.Record:
        """The record to write in place of *judged*, since *gate* did not pass."""

    def retained(self, result: r.TurnFinished) -> r.TurnFinished:
        """The part of *result* that stays in memory once its turn has ended."""


class Fold(Reopenable):
    """The state of one run, after the records that were applied.

    Args:
        coordination: The kind of the run; default rules apply to an agent that it does not know.

    Attributes:
        reservations: US dollars of the budget that are reserved for running attempts, by turn.
        costs: The cost of each agent's most expensive attempt, in US dollars, if one has ended.
        until: When the first of the quotas opens that a run which was stopped waits for; 0: it waits for none.
        owned: The seq of the record with which the current owner began.
        turns: By id, in the order they were started.
        latest: Each agent's latest result; a fallback's counts as that of the agent it stood in for.
        messages: The messages that were recorded, by id: why each was refused, empty for those that were not.
        given: The outputs that the current attempt of a turn gave before its answer, by turn.
        held_back: Whether settings are held back, on which no operator has decided.
        attention: What running attempts need a person for, by id; *questions* counts all that ever were.
        allowed: The rules about uses of tools that an operator allowed for the rest of the run.
        parked: The permissions for which turns were parked, by turn, each with the operator's word on it, if there is
            one: it counts when the turn's next attempt asks the same.
        gated: What waits for gates, by turn.
        notes: The changes of memory and tasks, by message.
        guidance: The operator's guidance to its turns; None until there is some, or if its engine keeps it.
        agent_kinds: The kinds of its agents; see `kind`.
        busy: Turns that run here and take a slot: no humans, no child runs.
        called_off: Whether the parent called this run off: messages of its attempts are too late.
        todo: What is decided and not yet carried out, in order.
        stopping: The engine's wish to let go of the run, if it has one.
        ending: The engine's wish to end the run, if it has one, and *at_fault* the turns whose failure ends it.
        closed: The steps of the run's end that are done.
        trees: The paths of the work trees that were made.
        time: How long it was owned.
        plan: The plan it goes on under, as JSON, when it was read again; empty: the one it began with.
        missing: The agents and outputs that a condition read and that had no value.
    """

    def __init__(self, run: str, coordination: Coordinator) -> None:
        super().__init__()
        self.run, self.coordination = run, coordination
        self.engine, self.agents = coordination.engine, coordination.agents
        self.agent_kinds = {agent.kind for agent in self.agents.values()}
        self.seq, self.at, self.epoch, self.owned = 0, 0.0, 0, 0
        self.time = OwnedTime()
        self.plan = ""
        self.missing: dict[tuple[str, str], None] = {}
        self.limits = Limits()
        self.started: r.RunStarted | None = None
        self.finished: r.RunFinished | None = None
        self.stopped, self.until = "", 0.0
        self.called_off = False
        self.turns: dict[str, Turn] = {}
        self.latest: dict[str, r.TurnFinished] = {}
        self.messages: dict[str, str] = {}
        self.given: dict[str, dict[str, Any]] = {}
        self.held_back = False
        self.attention: dict[str, r.AttentionAsked] = {}
        self.questions = 0
        self.parked: dict[str, tuple[r.AttentionAsked, r.OperatorSaid | None]] = {}
        self.allowed: dict[str, None] = {}
        self.gated: dict[str, HeldBack] = {}
        self.notes: dict[str, r.MemoryChanged | r.TaskChanged] = {}
        self.guidance: Guidance | None = None
        self.busy = 0
        self.taken = 0
        self.used = r.NO_USAGE
        self.reservations: dict[str, float] = {}
        self.costs: dict[str, float] = {}
        self.todo: dict[r.Cause, Command | NextAttempt] = {}
        self.stopping: r.Cause | None = None
        self.ending: r.Cause | None = None
        self.at_fault: tuple[str, ...] = ()
        self.closed: list[r.Record] = []
        self.trees: set[str] = set()
        self._at_once: deque[r.Cause] = deque()
        self._asks: deque[r.Cause] = deque()
        self._fresh: list[r.Cause] = []
        self._cancels: dict[str, r.Cause] = {}
        self._waiting: dict[str, r.Cause] = {}
        """What is decided for each turn that does not run: its Ask, its NextAttempt, or the Note of its failure."""

    @property
    def spent(self) -> r.Usage:
        """What this run used, its finished children included."""
        return self.used + r.Usage(turns=self.taken)

    @property
    def is_live(self) -> bool:
        """Whether the owner may still write: the run neither ended nor was let go of."""
        return self.finished is None and not self.stopped

    @property
    def wants_stop(self) -> str:
        """Why the engine wants to let go of the run, or an empty text."""
        command = self.todo.get(self.stopping) if self.stopping is not None else None
        return command.reason if isinstance(command, Stop) else ""

    @property
    def end(self) -> r.RunFinished | None:
        """The end of the run: the written one, or else the one that the engine wants."""
        command = self.todo.get(self.ending) if self.ending is not None else None
        if not isinstance(command, Finish):
            return self.finished
        return r.RunFinished(outcome=command.outcome, result=command.result, reason=command.reason)

    @property
    def queued(self) -> bool:
        """Whether a start is queued."""
        while self._asks and self._asks[0] not in self.todo:
            self._asks.popleft()  # void: its turn has ended
        return bool(self._asks)

    def accepts(self, turn: str, attempt: int) -> bool:
        """Whether what *attempt* of *turn* says still counts."""
        known = self.turns.get(turn)
        if known is None or known.status != "running" or known.attempt != attempt:
            return False
        return self.finished is None and not self.stopped and not self.called_off

    def has_answered(self, turn: str) -> bool:
        """Whether the attempt of *turn* is over: its answer waits for its gates."""
        return turn in self.gated and not self.gated[turn].due.event

    def counts(self, turn: str, attempt: int, epoch: int) -> bool:
        """Whether a message of *attempt* of *turn*, which the owner of *epoch* started, still counts."""
        return self.accepts(turn, attempt) and self.turns[turn].epoch == epoch

    def kind(self, agent: str) -> str:
        """What *agent* is: `agent`, `action`, `gate`, `human` or `topology`."""
        known = self.agents.get(agent)
        return known.kind if known is not None else "agent"

    def role(self, turn: str) -> str:
        """The agent that *turn* calls, or the one that it replaces as a fallback."""
        ask = self.turns[turn].ask
        return ask.instead_of or ask.agent

    def takes_a_slot(self, agent: str) -> bool:
        """Whether a turn of *agent* counts against `max_parallel`; it is cut off by a crash, too."""
        return self.kind(agent) not in ("topology", "human")

    def fold(self, records: Iterable[r.Record]) -> None:
        """Fold a journal in. Where it was reopened, the end of the run and the failure that led to it are void."""
        records = tuple(records)
        self._reopenings += [record for record in records if isinstance(record, r.RunReopened)]
        for record in records:
            self.apply(record)

    def apply(self, record: r.Record) -> None:
        """Fold one record in; the same live, at resume and in a replay.

        Raises:
            ReplayMismatch: If the record carries out a command that was not given, or ends a turn that does not run.
        """
        if record.seq != self.seq + 1:
            raise ReplayMismatch(self.run, record.seq, f"seq {record.seq}", f"seq {self.seq + 1}")
        reopened = self._reopening(record)
        command = self._settle(record) if reopened is None else self.todo.pop(record.cause or (0, 0), None)
        self.seq, self.at = record.seq, record.at
        self.time.apply(record)
        if reopened is None:
            follows = self._take(record, command)
            follows += self.engine.step(record)
        elif isinstance(record, r.RunReopened):
            follows = self._reopen(self._reopenings.popleft())
        else:
            follows = self._take_void(record, reopened)
        if self.finished is not None:
            self.todo.clear()
        elif follows:
            for k, wanted in enumerate(follows):
                self._want((record.seq, k), wanted)

    def _take(self, record: r.Record, command: Command | NextAttempt | None) -> list[Command | NextAttempt]:
        """Take *record*, which carries out *command*, in, and return what follows without the engine."""
        follows: list[Command | NextAttempt] = []
        match record:
            case r.TurnStarted():
                self._begin(record, command)
                if self.guidance is not None and (given := self.guidance.start(record.turn, self.role(record.turn))):
                    follows.append(Note(record=r.GuidanceDelivered(turn=record.turn, messages=given)))
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self._end_turn(record)
            case r.AttemptLaunched():
                self._running(record, record.turn).launched.append(record)
            case r.AttemptAdopted():
                self._running(record, record.turn)
            case r.GatesDue():
                self._running(record, record.turn)
                self.gated[record.turn] = HeldBack(due=record)
            case r.GateChecked() if record.turn in self.gated:
                self.gated[record.turn].checked.append(record)
            case r.EventEmitted() | r.EventInvalid() | r.EventNoted():
                self.gated.pop(record.turn, None)
            case r.AttemptSession():
                self._running(record, record.turn).session = record.session
            case r.AttentionAsked():
                self.attention[record.id] = record
                self.questions += 1
            case r.AttentionAnswered():
                asked = self.attention.pop(record.id, None)
                if asked is not None and record.answer == "park":
                    self.parked[record.turn] = asked, None
                elif asked is not None and self.said_before(asked) is not None:
                    del self.parked[record.turn]
            case r.OperatorSaid(what="allow" | "deny", turn=turn):
                self.parked[turn] = self.parked[turn][0], record
            case r.OperatorSaid(what="retry", turn=turn):
                self.parked.pop(turn, None)
            case r.OperatorSaid(what="always" | "project", text=rule):
                self.allowed[rule] = None
            case r.OutputsGiven():
                self.given[record.turn] = self.given.get(record.turn, {}) | record.outputs
            case r.MemoryChanged() | r.TaskChanged():
                self.notes[record.message] = record
            case r.OperatorSaid(what="guide", turn=turn) if turn and not self.coordination.keeps_guidance:
                self.guidance = self.guidance or Guidance()
                self.guidance.add(turn, record.message, record.text)
            case r.GuidanceDelivered() if self.guidance is not None:
                self.guidance.deliver(record.turn, record.messages)
            case r.AttemptFailed():
                follows.append(self._after_failure(record))
            case r.AttemptInterrupted():
                follows.append(self._after_interruption(record))
            case r.ConditionUnknown():
                self.missing[record.agent, record.field] = None
            case r.RunStarted():
                self.started = record
            case r.ConfigChanged():
                self.plan = changed_plan(self.run, record)
                self.held_back = isinstance(record, r.ConfigHeld) and record.held != ()
            case r.PlanReloaded():
                self.plan, self.held_back = record.plan, False
            case r.OperatorSaid(what="take" | "keep"):
                self.held_back = False
            case r.RunOwned():
                self.epoch, self.limits, self.stopped = record.epoch, record.limits, ""
                self.owned, self.until = record.seq, 0.0
                if self.stopping is not None:  # decided under an earlier owner: the engine decides again
                    self.todo.pop(self.stopping, None)
                    self.stopping = None
                if self.started is not None and (origin := self.started.forked_from) is not None:
                    self._leave_sessions(origin.seq)
            case r.RunStopped():
                self.stopped, self.until = record.reason, record.until
            case r.RunFinished():
                self.finished = record
            case r.TreeMade(path=path):
                self.trees.add(path)
            case r.TreesJoined() | r.TreeMerged() | r.TreeCleared() | r.RunNotified() if self.ending is not None:
                self._close(record, self.ending)
        if type(record) in _BROUGHT and (message := getattr(record, "message", "")):
            self.messages[message] = refusal(record)
        return follows

    def _settle(self, record: r.Record) -> Command | NextAttempt | None:
        """Take the command that *record* carries out off the list of what is left to do."""
        cause = record.cause
        if cause is None:
            if type(record) in _DECIDED:
                raise ReplayMismatch(self.run, record.seq, describe(record), "a cause")
            return None
        command = self.todo.pop(cause, None)
        if command is None or not carries_out(record, command):
            wanted = "nothing" if command is None else describe(command)
            raise ReplayMismatch(self.run, record.seq, f"{describe(record)} (cause {cause})", wanted)
        return command

    def _want(self, cause: r.Cause, command: Command | NextAttempt) -> None:
        self.todo[cause] = command
        match command:
            case Ask():
                self._asks.append(cause)
                self._waiting[command.turn] = cause
            case NextAttempt():
                self._fresh.append(cause)
                self._waiting[command.turn] = cause
            case Reload():
                self._fresh.append(cause)
            case Stop():
                self.stopping = cause
            case Finish():
                if self.ending is None:
                    self.ending, self.at_fault = cause, command.at_fault
                self._at_once.append(cause)
            case Cancel(turn=turn):
                if turn in self.turns and self.turns[turn].status == "ended":
                    del self.todo[cause]  # it ended first: nothing to do
                else:
                    self._at_once.append(cause)
                    self._cancels[turn] = cause
            case Note(record=r.TurnFailed(turn=turn)):
                self._at_once.append(cause)
                self._waiting[turn] = cause
            case _:
                self._at_once.append(cause)

    def _close(self, record: r.Record, ending: r.Cause) -> None:
        """Note a step of the run's end; work that could not be merged makes it a failure."""
        self.closed.append(record)
        end = self.todo.get(ending)
        if isinstance(record, r.TreeMerged) and record.status != "merged" and isinstance(end, Finish):
            result = end.result | {"reason": r.MERGE_CONFLICT} if isinstance(end.result, dict) else end.result
            self.todo[ending] = Finish(outcome="failed", result=result, reason=r.MERGE_CONFLICT)

    def _begin(self, record: r.TurnStarted, command: Command | NextAttempt | None) -> None:
        del self._waiting[record.turn]
        if isinstance(command, Ask):
            self.turns[record.turn] = turn = Turn(ask=command, slot=self.takes_a_slot(command.agent))
            self.taken += turn.slot or self.kind(command.agent) != "topology"  # a child run's own turns count instead
        else:
            turn = self.turns[record.turn]
            self.given.pop(record.turn, None)
        turn.attempt, turn.status, turn.asked, turn.since = record.attempt, "running", record.at, self.time.seconds
        turn.epoch, turn.used = self.epoch, record.used
        if record.reserved:
            self.reservations[record.turn] = record.reserved
        turn.session, turn.resumes, turn.began = record.session, record.session, record.seq
        self.busy += turn.slot

    def _after_failure(self, record: r.AttemptFailed) -> Command | NextAttempt:
        turn = self._pause(record, record.turn)
        self._settle_cost(turn, record.usage)
        if record.kind not in INFRASTRUCTURE:
            turn.failure = record
        agent = self._agent(turn)
        if record.until and agent.on_fail != "fallback":
            return NextAttempt(turn=record.turn, attempt=record.attempt + 1, due=record.until, quota=True)
        turn.session = ""
        wait = turn.retry_count.after_failure(record, agent.retry, agent.attempts, agent.repairs)
        if wait is None:
            return Note(record=r.TurnFailed(turn=record.turn, kind=record.kind, reason=record.reason))
        return NextAttempt(turn=record.turn, attempt=record.attempt + 1, due=record.at + wait)

    def _after_interruption(self, record: r.AttemptInterrupted) -> Command | NextAttempt:
        turn = self._pause(record, record.turn)
        self._settle_cost(turn, record.usage)
        wait = turn.retry_count.after_interruption(record)
        if wait is None:
            reason = f"cut off by {turn.retry_count.crashes} crashes in a row"
            if record.reason == "lost":
                reason = f"what ran it was lost {turn.retry_count.losses} times in a row"
            return Note(record=r.TurnFailed(turn=record.turn, kind="interrupted", reason=reason))
        policy = self._agent(turn).on_interrupt
        if policy != "resume":
            turn.session = ""
        asks = record.reason != "interrupted" and policy == "ask"
        ask = asks or record.reason == r.PARKED
        return NextAttempt(turn=record.turn, attempt=record.attempt + 1, due=record.at + wait, ask=ask)

    def _pause(self, record: r.Record, name: str) -> Turn:
        turn = self._running(record, name)
        turn.status = "between"
        self.busy -= turn.slot
        self.gated.pop(name, None)
        if self.attention:
            self._void_attention(name)
        return turn

    def parked_for(self, turn: str) -> r.AttentionAsked | None:
        """The permission for which *turn* was parked, if it has no answer yet."""
        asked, said = self.parked.get(turn, (None, None))
        return asked if said is None else None

    def said_before(self, asked: r.AttentionAsked) -> r.OperatorSaid | None:
        """The operator's word on *asked*, given while its turn was parked for the same; None if there is none."""
        before, said = self.parked.get(asked.turn, (None, None))
        return said if before is not None and (before.tool, before.detail) == (asked.tool, asked.detail) else None

    def _void_attention(self, turn: str) -> None:
        """Nothing waits for a person any more in *turn*, whose attempt has ended."""
        self.attention = {id: asked for id, asked in self.attention.items() if asked.turn != turn}

    def _end_turn(self, record: r.TurnFinished | r.TurnFailed | r.TurnCancelled) -> None:
        if self._cancels:
            self.todo.pop(self._cancels.pop(record.turn, (0, 0)), None)
        waiting = self._waiting.pop(record.turn, None)
        if waiting is not None:  # a retry that was waiting, or a start that never came, is void
            command = self.todo.pop(waiting, None)
            if isinstance(command, Ask):
                self.turns[record.turn] = Turn(ask=command, status="between")
        turn = self._known(record, record.turn)
        if turn.status == "running":
            self.busy -= turn.slot
            if self.attention:
                self._void_attention(record.turn)
        turn.status, turn.used = "ended", {}
        if self.gated:
            self.gated.pop(record.turn, None)
        if self.parked:
            self.parked.pop(record.turn, None)
        finished, ask = isinstance(record, r.TurnFinished), turn.ask
        if self.guidance is not None:
            self.guidance.end(record.turn, self.role(record.turn), finished=finished)
        if not isinstance(record, r.TurnFailed) and (ask.prompt is not None or ask.whole is not None):
            # only failed turns may be retried, and questions may each quote all that was said before
            turn.ask = msgspec.structs.replace(ask, prompt="", history=(), whole=None)
        if turn.failure is not None:
            turn.failure = msgspec.structs.replace(turn.failure, text="", log="")
        if isinstance(record, r.TurnFailed):
            self._settle_cost(turn, r.NO_USAGE)
            return
        self._settle_cost(turn, record.usage)
        if isinstance(record, r.TurnFinished):
            self.costs.setdefault(ask.agent, 0.0)
            self.latest[ask.instead_of or ask.agent] = record
            turn.result = self.coordination.retained(record)
        else:
            turn.cancelled = True

    def _settle_cost(self, turn: Turn, usage: r.Usage) -> None:
        """Count what an attempt of *turn* that has ended used, in place of what was reserved for it."""
        if self.reservations:
            self.reservations.pop(turn.ask.turn, None)
        if usage is not r.NO_USAGE:
            self.used += usage
            if usage.cost and turn.slot:
                self.costs[turn.ask.agent] = max(usage.cost, self.costs.get(turn.ask.agent, 0.0))

    def _leave_sessions(self, shared: int) -> None:
        """Go on in none of the sessions of the run that this one was forked from, up to the record *shared*."""
        for turn in self.turns.values():
            if turn.began <= shared:
                turn.session = ""

    def _running(self, record: r.Record, name: str) -> Turn:
        turn = self._known(record, name)
        if turn.status != "running":
            raise ReplayMismatch(self.run, record.seq, describe(record), f"nothing of {name}, which is {turn.status}")
        return turn

    def _known(self, record: r.Record, name: str) -> Turn:
        turn = self.turns.get(name)
        if turn is None:
            raise ReplayMismatch(self.run, record.seq, describe(record), f"no turn {name!r} so far")
        return turn

    def _agent(self, turn: Turn) -> AgentPlan:
        return self.agents.get(turn.ask.agent) or AgentPlan(name=turn.ask.agent)
