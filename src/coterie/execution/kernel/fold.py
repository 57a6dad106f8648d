"""The fold of a run's journal: its state, and the commands left to do. Readers of a run need nothing else.

A command is identified by (seq of the record that caused it, index). The record that carries it out names this identity
as its `cause`. After a fold, the commands without such a record are exactly what is left to do, in order.

The engine never revokes a decision. Instead, when a failed run is reopened, nothing is decided between the record that
ended it and the reopening: the fold keeps the records of that time, and the engine processes them afterwards.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import msgspec

from coterie.base.ids import attempt_id
from coterie.errors import ReplayMismatch
from coterie.execution.kernel.commands import (
    HeldBack,
    NextAttempt,
    Part,
    Turn,
    carries_out,
    changed_plan,
    describe,
    not_wanted,
    refusal,
    void_sleep,
)
from coterie.execution.kernel.items import Set
from coterie.execution.kernel.project import Project
from coterie.execution.kernel.retries import RetryCount
from coterie.history.engines.commands import INFRASTRUCTURE, Ask, Cancel, Command, Engine, Finish, Note, Reload, Stop
from coterie.history.journal import records as r
from coterie.history.journal.lines import rare
from coterie.history.journal.owned import OwnedTime
from coterie.team.planning.plan import AgentPlan, Limits

_DECIDED = frozenset({r.TurnStarted, r.TurnFailed, r.ConfigChanged, r.ConfigHeld, r.ConfigRejected, r.ConfigKept})
"""Records that are written only to carry out a command."""
_BROUGHT = frozenset(record for record in r.RECORDS if "message" in record.__struct_fields__)
"""Records that a message may cause."""
_MESSAGES_MOST = 10_000
"""How many messages are remembered that did not come from operators: one arrives again only soon after a crash."""

_REPLACED_MOST = 16
"""How many replaced results are in memory before those are let go of that no prompt shows any more."""

_END = r.RunFinished | r.TreesJoined | r.TreeMerged | r.TreeCleared | r.RunNotified
"""The end of a run and the steps before it."""


class Coordinator(Protocol):
    """The part of a run's kind that its fold and its prompts need; see `coterie.execution.kernel.kind.Kind`."""

    project: Project
    turns_kept: int | None

    @property
    def engine(self) -> Engine:
        """The engine of this run."""

    @property
    def agents(self) -> Mapping[str, AgentPlan]:
        """The agents that the engine may call, by name."""

    def outside(self, fold: "Fold", turn: Turn) -> tuple[str, ...]:
        """The names of the parts of a prompt that are not in the journal."""

    def prompt(self, fold: "Fold", turn: Turn) -> list[Part]:
        """The parts of a prompt that the engine did not write."""

    def additions(self, fold: "Fold", turn: Turn) -> list[Part]:
        """The parts to add to a prompt that the engine wrote."""

    def context(self, fold: "Fold", turn: Turn) -> dict[str, Any]:
        """The prompt as data, for programs."""

    def retained(self, result: r.TurnFinished) -> r.TurnFinished:
        """The part of *result* that stays in memory once its turn has ended."""

    def quoted(self, fold: "Fold") -> Collection[str]:
        """The turns and sets whose results later prompts may show, besides the latest of each agent."""


class Fold:
    """The state of one run after the applied records.

    Args:
        coordination: The kind of the run; default rules apply to an agent that it does not know.

    Attributes:
        costs: The cost of each agent's most expensive attempt, in US dollars, if one has ended.
        until: When the first quota opens that a stopped run waits for; 0: it waits for none.
        owned: The seq of the record with which the current owner began.
        thread: What the run continues, if it is one of a thread.
        turns: By id, in the order they were started, without those that are no longer kept; *open* those that have not
            ended.
        sets: By id, in the order they were started.
        latest: Each agent's latest result, or that of its latest set; a fallback's result counts for the agent that it
            replaced.
        messages: The reason for the refusal, or empty, of each message by id: all of operators, the latest of others.
        asked: The turns whose start is pending; *gated*: the replies and emits that wait for gates, by turn.
        held_back: Whether settings are held back until an operator decides on them.
        allowed: Rules for tool use that an operator allowed for the rest of the run.
        notes: Changes of memory and tasks, by message.
        guidance: The operator's guidance to turns; None until there is some, or if the engine keeps it.
        attention: Open requests of running attempts that need a person, by id; *questions* counts all requests so far.
        agent_kinds: The kinds of its agents; see `kind`.
        busy: The number of running turns that take a slot, so without humans and child runs.
        called_off: Whether the parent called this run off; messages from its attempts are then too late.
        todo: Commands that are not yet carried out, in order.
        stopping: The engine's command to stop the run, if there is one.
        ending: The engine's command to end the run, if there is one; *at_fault* has the turns whose failure ends it.
        closed, trees: The completed steps of the run's end; the paths of the work trees that were made.
        time, plan: How long the run was owned; its plan as JSON, if that was read again.
        unread: The agents and outputs that a condition read but that had no value; *unread_at*: the turns after which
            one did, and whether a path ended there for that.
    """

    def __init__(self, run: str, coordination: Coordinator) -> None:
        self.run, self.coordination = run, coordination
        self.engine, self.agents = coordination.engine, coordination.agents
        self.agent_kinds = {agent.kind for agent in self.agents.values()}
        self.seq, self.at, self.epoch, self.owned, self.slept = 0, 0.0, 0, 0, 0.0
        self.time, self.limits, self.plan = OwnedTime(), Limits(), ""
        self.unread: dict[tuple[str, str], None] = {}
        self.unread_at: dict[str, bool] = {}
        self.started: r.RunStarted | None = None
        self.thread: r.ThreadStart | None = None
        self.finished: r.RunFinished | None = None
        self.stopped, self.until, self.called_off, self.held_back = "", 0.0, False, False
        self.turns: dict[str, Turn] = {}
        self.open: dict[str, Turn] = {}
        self._finished: deque[str] = deque()
        """The turns that have finished, if only the latest of them are kept."""
        self.sets: dict[str, Set] = {}
        self.latest: dict[str, r.TurnFinished] = {}
        self.messages: dict[str, str] = {}
        self._of_others: deque[str] = deque()
        self.allowed: dict[str, None] = {}
        self.notes: dict[str, r.MemoryChanged | r.TaskChanged] = {}
        self.guidance: Guidance | None = None
        self.attention: dict[str, r.AttentionAsked] = {}
        self.questions = 0
        self.busy = self.taken = 0
        self.used = r.NO_USAGE
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
        self.gated: dict[str, HeldBack] = {}
        self.asked: dict[str, Turn] = {}
        self._reopenings: deque[r.RunReopened] = deque()
        """Reopenings still to come in the journal that is being folded."""
        self._replaced: list[str] = []
        """The turns and sets with a result that is not their agent's latest and is still in memory."""
        self._let_go_at = _REPLACED_MOST
        self._late: list[r.Record] = []
        """Records between a failure that ended the run and its reopening."""

    @property
    def spent(self) -> r.Usage:
        """The usage of this run, including its finished child runs."""
        return self.used + r.Usage(turns=self.taken)

    @property
    def is_live(self) -> bool:
        """Whether the owner may still write: the run has neither ended nor stopped."""
        return self.finished is None and not self.stopped

    @property
    def wants_stop(self) -> str:
        """Why the engine wants to stop the run, or an empty text."""
        command = self.todo.get(self.stopping) if self.stopping is not None else None
        return command.reason if isinstance(command, Stop) else ""

    @property
    def end(self) -> r.RunFinished | None:
        """The end of the run as recorded, or else as the engine wants it."""
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
        """Whether inputs from *attempt* of *turn* still count."""
        known = self.turns.get(turn)
        if known is None or known.status != "running" or known.attempt != attempt:
            return False
        return self.finished is None and not self.stopped and not self.called_off

    def has_answered(self, turn: str) -> bool:
        """Whether the attempt of *turn* is over and its answer waits for its gates."""
        held = self.turns[turn].gated
        return held is not None and not held.due.event

    def counts(self, turn: str, attempt: int, epoch: int) -> bool:
        """Whether a message of *attempt* of *turn*, which the owner of *epoch* started, still counts."""
        return self.accepts(turn, attempt) and self.turns[turn].epoch == epoch

    def kind(self, agent: str) -> str:
        """What *agent* is: `agent`, `action`, `gate`, `human` or `topology`."""
        known = self.agents.get(agent)
        return known.kind if known is not None else "agent"

    def work(self, name: str) -> Turn | Set:
        """The turn or the set *name*."""
        return self.turns.get(name) or self.sets[name]

    def is_part(self, turn: str, name: str) -> bool:
        """Whether *turn* is meant by *name*: itself, the set whose item it works on, or empty for all."""
        item = self.turns[turn].ask.item if turn in self.turns else None
        return name in ("", turn) or (item is not None and item.set == name)

    def takes_a_slot(self, agent: str) -> bool:
        """Whether a turn of *agent* counts against `max_parallel`; such a turn is also cut off by a crash."""
        return self.kind(agent) not in ("topology", "human")

    def parked_for(self, turn: str) -> r.AttentionAsked | None:
        """The permission request for which *turn* was parked, if it has no answer yet."""
        asked, said = self.turns[turn].parked or (None, None)
        return asked if said is None else None

    def said_before(self, asked: r.AttentionAsked) -> r.OperatorSaid | None:
        """The operator's answer to *asked* that was given while its turn was parked for the same request, if any."""
        before, said = self.turns[asked.turn].parked or (None, None)
        return said if before is not None and (before.tool, before.detail) == (asked.tool, asked.detail) else None

    def fold(self, records: Sequence[r.Record], reopened: r.RunReopened | None = None) -> None:
        """Apply a whole journal, and the record that reopens the run after it.

        Where the run was reopened, its end and the failure that caused it are void.
        """
        more = (reopened,) if reopened is not None else ()
        self._reopenings += [one for one in (*rare(records), *more) if isinstance(one, r.RunReopened)]
        for record in chain(records, more):
            self.apply(record)

    def apply(self, record: r.Record) -> None:
        """Apply one record, in the same way live, at resume and in a replay.

        Raises:
            ReplayMismatch: If the record carries out a command that was not given, or ends a turn that does not run.
        """
        if record.seq != self.seq + 1:
            raise ReplayMismatch(self.run, record.seq, f"seq {record.seq}", f"seq {self.seq + 1}")
        reopened = self._reopenings[0] if self._reopenings and record.seq >= self._reopenings[0].since else None
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
            return
        for k, wanted in enumerate(follows):
            self._want((record.seq, k), wanted)

    def _take(self, record: r.Record, command: Command | NextAttempt | None) -> list[Command | NextAttempt]:
        """Apply *record*, which carries out *command*, and return the commands that follow without the engine."""
        follows: list[Command | NextAttempt] = []
        match record:
            case r.TurnStarted():
                self._begin(record, command)
                if self.guidance is not None and (
                    given := self.guidance.start(record.turn, self.turns[record.turn].ask.role)
                ):
                    follows.append(Note(record=r.GuidanceDelivered(turn=record.turn, messages=given)))
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self._end_turn(record)
            case r.SleepEnded(sleep=name, early=True):
                void_sleep(self.todo, name)
            case r.SetStarted():
                self.sets[record.set] = Set.of(record)
            case r.SetEnded():
                its = self.sets[record.set]
                self._replace(its.ask.agent, its.end(record))
            case r.AttemptLaunched():
                self._running(record, record.turn).launched.append(record)
            case r.AttemptAdopted():
                self._running(record, record.turn)
            case r.GatesDue():
                self._running(record, record.turn).gated = self.gated[record.turn] = HeldBack(due=record)
            case r.GateChecked() if record.turn in self.gated:
                self.gated[record.turn].checked.append(record)
            case r.EventEmitted() | r.EventInvalid() | r.EventNoted():
                self._end_gates(record.turn)
            case r.AttemptSession():
                self._running(record, record.turn).session = record.session
            case r.AttemptStep():
                turn = self._running(record, record.turn)
                turn.steps, turn.stepped = record.n, turn.stepped + record.usage
            case r.AttentionAsked():
                self.attention[record.id] = record
                self.questions += 1
            case r.AttentionAnswered():
                asked = self.attention.pop(record.id, None)
                if asked is not None and record.answer == "park":
                    self.turns[record.turn].parked = asked, None
                elif asked is not None and self.said_before(asked) is not None:
                    self.turns[record.turn].parked = None
            case r.OperatorSaid(what="allow" | "deny", turn=turn):
                asked, _ = self.turns[turn].parked or (None, None)
                self.turns[turn].parked = (asked, record) if asked is not None else None
            case r.OperatorSaid(what="retry", turn=turn):
                self.turns[turn].parked = None
            case r.OperatorSaid(what="always" | "project", text=rule):
                self.allowed[rule] = None
            case r.OutputsGiven():
                turn = self._known(record, record.turn)
                turn.given = turn.given | record.outputs
            case r.MemoryChanged() | r.TaskChanged():
                self.notes[record.message] = record
            case r.OperatorSaid(what="guide", turn=turn) if turn and not self.coordination.project.keeps_guidance:
                self.guidance = self.guidance or Guidance()
                self.guidance.add(turn, record.message, record.text)
            case r.GuidanceDelivered() if self.guidance is not None:
                self.guidance.deliver(record.turn, record.messages)
            case r.AttemptFailed():
                follows.append(self._after_failure(record))
            case r.AttemptInterrupted():
                follows.append(self._after_interruption(record))
            case r.ConditionUnknown():
                self.unread[record.agent, record.field] = None
                self.unread_at[record.turn] = False
            case r.PathEnded(reason="no_match", turn=turn) if turn in self.unread_at:
                self.unread_at[turn] = True
            case r.RunStarted():
                self.started, self.thread = record, record.thread
            case r.ConfigChanged():
                self.plan = changed_plan(self.run, record)
                self.held_back = isinstance(record, r.ConfigHeld) and record.held != ()
            case r.PlanReloaded():
                self.plan, self.held_back = record.plan, False
            case r.OperatorSaid(what="take" | "keep"):
                self.held_back = False
            case r.RunOwned():
                self.epoch, self.limits, self.stopped = record.epoch, record.limits, ""
                self.owned, self.until, self.slept = record.seq, 0.0, record.slept
                if self.stopping is not None:  # decided under an earlier owner: the engine decides again
                    self.todo.pop(self.stopping, None)
                    self.stopping = None
                if self.started is not None and (origin := self.started.forked_from) is not None:
                    self._leave_sessions(origin.seq)
            case r.RunSuspended():
                self.slept += record.seconds
            case r.RunStopped():
                self.stopped, self.until = record.reason, record.until
            case r.RunFinished():
                self.finished = record
            case r.TreeMade(path=path):
                self.trees.add(path)
            case r.TreesJoined() | r.TreeMerged() | r.TreeCleared() | r.RunNotified() if self.ending is not None:
                self._close(record, self.ending)
        if type(record) in _BROUGHT and (message := getattr(record, "message", "")):
            if message not in self.messages and record.source != "operator":
                self._of_others.append(message)
            self.messages[message] = refusal(record)
            if len(self._of_others) > _MESSAGES_MOST:
                del self.messages[self._of_others.popleft()]
        return follows

    def _settle(self, record: r.Record) -> Command | NextAttempt | None:
        """Remove the command that *record* carries out from the commands left to do, and return it."""
        cause = record.cause
        if cause is None:
            if type(record) in _DECIDED:
                raise ReplayMismatch(self.run, record.seq, describe(record), "a cause")
            return None
        command = self.todo.pop(cause, None)
        if command is None or not carries_out(record, command):
            raise not_wanted(self.run, record, command)
        return command

    def _want(self, cause: r.Cause, command: Command | NextAttempt) -> None:
        self.todo[cause] = command
        match command:
            case Ask():
                self._asks.append(cause)
                self.asked[command.turn] = Turn(ask=command, attempt=1, status="between", waiting=cause)
            case NextAttempt():
                self._fresh.append(cause)
                self.turns[command.turn].waiting = cause
            case Reload():
                self._fresh.append(cause)
            case Stop():
                self.stopping = cause
            case Finish():
                if self.ending is None:
                    self.ending, self.at_fault = cause, command.at_fault
                self._at_once.append(cause)
            case Cancel(turn=turn):
                known = self.asked.get(turn) or self.turns.get(turn)
                if known is not None and known.status == "ended":
                    del self.todo[cause]  # it ended first: nothing to do
                    return
                self._at_once.append(cause)
                if known is not None:
                    known.cancelling = cause
            case Note(record=r.TurnFailed(turn=turn)):
                self._at_once.append(cause)
                self.turns[turn].waiting = cause
            case _:
                self._at_once.append(cause)

    def _close(self, record: r.Record, ending: r.Cause) -> None:
        """Store a step of the run's end; work that could not be merged turns it into a failure."""
        self.closed.append(record)
        end = self.todo.get(ending)
        if isinstance(record, r.TreeMerged) and record.status != "merged" and isinstance(end, Finish):
            result = end.result | {"reason": r.MERGE_CONFLICT} if isinstance(end.result, dict) else end.result
            self.todo[ending] = Finish(outcome="failed", result=result, reason=r.MERGE_CONFLICT)

    def _begin(self, record: r.TurnStarted, command: Command | NextAttempt | None) -> None:
        if isinstance(command, Ask):
            self.turns[record.turn] = self.open[record.turn] = turn = self.asked.pop(record.turn)
            turn.slot = self.takes_a_slot(command.agent)
            self.taken += turn.slot or self.kind(command.agent) != "topology"  # a child run's own turns count instead
        else:
            turn = self.turns[record.turn]
            turn.given = {}
        turn.attempt, turn.status, turn.asked = record.attempt, "running", record.at
        turn.slept = self.slept
        turn.epoch, turn.used, turn.stepped = self.epoch, record.used, r.NO_USAGE
        turn.reserved, turn.waiting = record.reserved, None
        turn.session, turn.resumes, turn.began = record.session, record.session, record.seq
        self.busy += turn.slot

    def _after_failure(self, record: r.AttemptFailed) -> Command | NextAttempt:
        turn = self._pause(record, record.turn)
        self._settle_cost(turn, record.usage)
        if record.kind not in INFRASTRUCTURE:
            turn.failure = record
        turn.was_cut, turn.continues = False, True
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
        turn.was_cut, turn.continues = True, policy == "resume" and record.reason != "lost"
        if policy != "resume":
            turn.session = ""
        asks = record.reason != "interrupted" and policy == "ask"
        ask = asks or record.reason == r.PARKED
        return NextAttempt(turn=record.turn, attempt=record.attempt + 1, due=record.at + wait, ask=ask)

    def _pause(self, record: r.Record, name: str) -> Turn:
        turn = self._running(record, name)
        turn.status = "between"
        self.busy -= turn.slot
        self._end_gates(name)
        self._void_attention(name)
        return turn

    def _end_gates(self, turn: str) -> None:
        """Let *turn* wait for gates no longer."""
        if self.gated.pop(turn, None) is not None:
            self.turns[turn].gated = None

    def _void_attention(self, turn: str) -> None:
        """Drop the open requests of *turn*, whose attempt has ended."""
        if self.attention:
            self.attention = {id: asked for id, asked in self.attention.items() if asked.turn != turn}

    def _end_turn(self, record: r.TurnFinished | r.TurnFailed | r.TurnCancelled) -> None:
        if (asked := self.asked.pop(record.turn, None)) is not None:  # its start never came
            self.turns[record.turn] = asked
        turn = self.open.pop(record.turn, None) or self._known(record, record.turn)
        if turn.waiting is not None:  # a start or a retry that was waiting is void
            self.todo.pop(turn.waiting, None)
        if turn.cancelling is not None:
            self.todo.pop(turn.cancelling, None)
        if turn.status == "running":
            self.busy -= turn.slot
            self._void_attention(record.turn)
        turn.status, turn.used = "ended", {}
        turn.waiting = turn.parked = None
        if turn.gated is not None:
            self._end_gates(record.turn)
        ask, usage = turn.ask, r.NO_USAGE if isinstance(record, r.TurnFailed) else record.usage
        self._settle_cost(turn, usage)
        if self.guidance is not None:
            self.guidance.end(record.turn, ask.role, finished=isinstance(record, r.TurnFinished))
        if turn.failure is not None:
            turn.failure = msgspec.structs.replace(turn.failure, text="", log="")
        if isinstance(record, r.TurnFailed):
            return
        if ask.prompt is not None or ask.whole is not None:
            # only failed turns may be retried, and each prompt may quote all earlier text
            turn.ask = msgspec.structs.replace(ask, prompt="", history=(), whole=None)
        if isinstance(record, r.TurnFinished):
            self.costs.setdefault(ask.agent, 0.0)
            turn.result = self.coordination.retained(record)
            if (most := self.coordination.turns_kept) is not None:
                self._finished.append(record.turn)
                if len(self._finished) > most:
                    self.turns.pop(self._finished.popleft(), None)
            if ask.item is None:
                self._replace(ask.role, record)
            else:
                self.sets[ask.item.set].finish(ask.item, record)
        else:
            turn.cancelled = True

    def _replace(self, role: str, result: r.TurnFinished) -> None:
        """Note the latest *result* of *role*; now and then, let go of the results that no prompt shows any more."""
        if (before := self.latest.get(role)) is not None:
            self._replaced.append(before.turn)
        self.latest[role] = result
        if len(self._replaced) < self._let_go_at or self._reopenings:
            return
        quoted, replaced = self.coordination.quoted(self), self._replaced
        for name in replaced:
            if name not in quoted and (work := self.turns.get(name) or self.sets.get(name)) is not None:
                work.let_go()
        self._replaced = [name for name in replaced if name in quoted]
        self._let_go_at = 2 * len(self._replaced) + _REPLACED_MOST

    def _settle_cost(self, turn: Turn, usage: r.Usage) -> None:
        """Replace the reservation of an ended attempt of *turn* with its usage."""
        turn.reserved = 0.0
        if usage is not r.NO_USAGE:
            self.used += usage
            if usage.cost and turn.slot:
                self.costs[turn.ask.agent] = max(usage.cost, self.costs.get(turn.ask.agent, 0.0))

    def _leave_sessions(self, shared: int) -> None:
        """Do not continue what the run that this one was forked from began, up to the record *shared*."""
        for turn in self.turns.values():
            if turn.began <= shared:
                turn.session, turn.continues = "", False

    # -- a failed run that goes on -------------------------------------------------------------------------------------

    def _take_void(self, record: r.Record, reopened: r.RunReopened) -> list[Command | NextAttempt]:
        """Apply *record*, which came between the failure that ended the run and *reopened*.

        Turns that the failure cancelled count as cut off.
        """
        if isinstance(record, _END):
            return []
        if isinstance(record, r.TurnFinished) and record.seq == reopened.since and record.turn in reopened.asked:
            void = r.AttemptFailed(
                seq=record.seq,
                at=record.at,
                turn=record.turn,
                attempt=record.attempt,
                kind="invalid_output",
                reason=reopened.reason,
                usage=record.usage,
                text=record.text,
            )
            return self._take(void, None)  # the list that it gave could not be mapped
        if not isinstance(record, r.TurnFailed | r.TurnCancelled) or record.turn not in reopened.asked:
            self._late.append(record)
            return self._take(record, None)
        turn = self.turns.get(record.turn)
        if isinstance(record, r.TurnFailed):
            self._void(record.turn)
        elif turn is not None and turn.status == "running":
            attempt, usage = turn.attempt, record.usage
            cut = r.AttemptInterrupted(
                seq=record.seq, at=record.at, turn=record.turn, attempt=attempt, reason="interrupted", usage=usage
            )
            self._late.append(cut)
            if turn.slot:
                return self._take(cut, None)
            self._settle_cost(turn, usage)
            turn.status = "between"  # a question to a human, or a team: neither had side effects by itself
        return []

    def _reopen(self, record: r.RunReopened) -> list[Command | NextAttempt]:
        """Let the run go on: its failed turns get their next attempts, or their child runs are reopened."""
        follows: list[Command | NextAttempt] = []
        for name in record.asked:
            turn = self.turns.get(name)
            if turn is None:
                continue  # it was cancelled before its start, which is still pending
            if attempt_id(name, turn.attempt) in record.below:
                self._void(name)
                turn.status, turn.asked, turn.failure, turn.reopened = "running", record.at, None, record
            elif not isinstance(waiting := self.todo.get(turn.waiting or (0, 0)), NextAttempt) or waiting.ask:
                self._void(name)
                turn.status, turn.parked = "between", None
                follows.append(NextAttempt(turn=name, attempt=turn.attempt + 1, due=record.at))
            turn.retry_count, turn.cancelled = RetryCount(interrupted=turn.retry_count.interrupted), False
            turn.spared = turn.steps
        self.open = {name: turn for name, turn in self.turns.items() if turn.status != "ended"}
        self.used -= record.usage
        follows += self.engine.step(record)
        late, self._late = self._late, []
        for one in late:
            follows += self.engine.step(one)
        return follows

    def _void(self, turn: str) -> None:
        """Drop the pending command of *turn*, which is not running."""
        if (known := self.turns.get(turn)) is not None and known.waiting is not None:
            self.todo.pop(known.waiting, None)
            known.waiting = None

    # -- the turn of a record ------------------------------------------------------------------------------------------

    def _running(self, record: r.Record, name: str) -> Turn:
        turn = self.turns.get(name) or self._known(record, name)
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


class Guidance:
    """Guidance that later prompts of a run must show.

    Each attempt of a turn receives the guidance to that turn. When the turn ends, the agent's next turn receives the
    guidance that no attempt received, or all of it if the turn did not finish.
    """

    def __init__(self) -> None:
        self._by_turn: dict[str, dict[str, str]] = {}
        self._by_agent: dict[str, dict[str, str]] = {}
        self._delivered: set[tuple[str, str]] = set()

    def add(self, turn: str, message: str, text: str) -> None:
        """Add the *text* of an operator's *message* to *turn*."""
        self._by_turn.setdefault(turn, {})[message] = text

    def shown(self, turn: str, agent: str) -> list[str]:
        """The texts in the prompt of the next attempt of *turn*, which calls *agent*."""
        return list((self._by_agent.get(agent, {}) | self._by_turn.get(turn, {})).values())

    def start(self, turn: str, agent: str) -> tuple[str, ...]:
        """Deliver the `shown` guidance to an attempt that starts now; return the messages that are new to *turn*."""
        shown = self._by_agent.pop(agent, {}) | self._by_turn.get(turn, {})
        if shown:
            self._by_turn[turn] = shown
        return tuple(self.undelivered(turn))

    def deliver(self, turn: str, messages: Iterable[str]) -> None:
        """Note that an attempt of *turn* received *messages*."""
        self._delivered.update((turn, message) for message in messages)

    def undelivered(self, turn: str) -> dict[str, str]:
        """The texts by message that no attempt of *turn* received."""
        given = self._by_turn.get(turn, {})
        return {message: text for message, text in given.items() if (turn, message) not in self._delivered}

    def end(self, turn: str, agent: str, *, finished: bool) -> None:
        """Pass the guidance that *turn* did not follow to the next turn of *agent*; *turn* has ended."""
        left = self.undelivered(turn) if finished else self._by_turn.get(turn, {})
        if left:
            self._by_agent[agent] = self._by_agent.get(agent, {}) | left
        self._delivered -= {(turn, message) for message in self._by_turn.pop(turn, ())}
