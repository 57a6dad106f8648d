"""The state of a run with its turns and their attempts, folded from its journal."""

from collections.abc import Container, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from coterie.base.ids import attempt_id
from coterie.history.journal import records as r
from coterie.history.views.actors import ActorsView
from coterie.history.views.words import path_end, shortened

T = TypeVar("T")

NOTED = frozenset(
    {
        r.AttemptFailed,
        r.AttemptInterrupted,
        r.AttemptMisreported,
        r.AttemptQuiet,
        r.AttentionAnswered,
        r.AttentionAsked,
        r.ConfigChanged,
        r.ConfigHeld,
        r.ConfigRejected,
        r.EventEmitted,
        r.EventInvalid,
        r.EventNoted,
        r.GateChecked,
        r.GuidanceDelivered,
        r.JournalRepaired,
        r.LoopExhausted,
        r.MessageRefused,
        r.OperatorSaid,
        r.RunReopened,
        r.TreeAttested,
        r.TreeMerged,
        r.TreesJoined,
        r.WaveJoined,
        r.WaveStarted,
        r.WaveTimeout,
    }
)
"""Records that a run's view keeps as they are, because they change no state of the view."""
OF_RUNS = frozenset(
    {
        r.ConfigChanged,
        r.ConfigHeld,
        r.ConfigKept,
        r.IterationStarted,
        r.PlanReloaded,
        r.RunFinished,
        r.RunOwned,
        r.RunReopened,
        r.RunStarted,
        r.RunStopped,
    }
)
"""Records that change the state of a run; all others are about an actor or a turn."""
OF_ACTORS = frozenset(
    {
        r.ActorCrashed,
        r.ActorStarted,
        r.ActorStopped,
        r.CorrectionDropped,
        r.CorrectionSent,
        r.EvalReported,
        r.LetterDead,
        r.ReplyEnded,
        r.ReplyPiece,
        r.RestartPlanned,
        r.SupervisorFailed,
        r.WorkerAwaited,
    }
)


class AttemptView(Struct):
    """One attempt of a turn.

    Attributes:
        n: Its number, from 1.
        state: `running`, `finished`, `failed`, `interrupted` or `cancelled`.
        started: Unix seconds; *finished* likewise, None while it runs.
        kind: The kind of its failure, from `coterie.agents.backends.base.FAILURES`.
        reason: Why it failed or was interrupted.
        pid: Its process, if it has one.
        text: Its text when it failed; *log* is the end of its standard error.
        exit_code: The exit status of its program, if it failed; *signal* is the signal that ended it.
        prompt_hash: SHA-256 of its prompt; empty in a loop, whose prompts contain the path of a command of the run.
        usage: What it used; while it runs, what its *steps*, the requests that a model has answered, used.
    """

    n: int
    started: float
    state: str = "running"
    finished: float | None = None
    kind: str = ""
    reason: str = ""
    pid: int | None = None
    usage: r.Usage = r.NO_USAGE
    text: str = ""
    log: str = ""
    exit_code: int | None = None
    signal: str = ""
    prompt_hash: str = ""
    steps: list[r.AttemptStep] = []

    def _end(self, at: float, state: str, kind: str = "", reason: str = "", usage: r.Usage = r.NO_USAGE) -> None:
        self.finished, self.state, self.kind, self.reason, self.usage = at, state, kind, reason, usage


class TurnView(Struct):
    """One turn of an agent.

    Attributes:
        n: The number of this start of *agent* in the run, from 1.
        state: `running`, `waiting` (between two attempts), `finished`, `failed` or `cancelled`.
        inputs: The turns whose results marked it, in the source order of the arrows.
        finished: Unix seconds, None until it ended.
        kind: The kind of its failure; *reason* says why it failed or was cancelled.
        note: Why the flow does not continue after it, and the outputs that its conditions lacked.
        promise_refused: Why the promise in its text did not complete the loop.
        usage: The usage of all its attempts together.
        iteration: The start of its iteration in a loop; None in other runs.
        noted: The records about it that are in `NOTED`.
        asked: The open requests of its attempt, by id.
        item: The number of the item that it works on, and how many its set has; *item_name* is what people call it.
    """

    id: str
    agent: str
    started: float
    inputs: tuple[str, ...] = ()
    state: str = "running"
    attempts: list[AttemptView] = []
    finished: float | None = None
    text: str = ""
    outputs: dict[str, Any] = {}
    usage: r.Usage = r.NO_USAGE
    kind: str = ""
    reason: str = ""
    note: str = ""
    promise_refused: str = ""
    iteration: r.IterationStarted | None = None
    noted: list[r.Record] = []
    asked: dict[str, r.AttentionAsked] = {}
    item: tuple[int, int] | None = None
    item_name: str = ""

    @property
    def n(self) -> int:
        """The number of this start of its agent, from 1; 0 if the id does not have it."""
        number = self.id.rpartition("#")[2]
        return int(number) if number.isdecimal() else 0

    @property
    def attempt(self) -> int:
        """The number of its latest attempt."""
        return self.attempts[-1].n if self.attempts else 0

    def seconds(self, now: float) -> float:
        """How long it has taken by *now*, including pauses between its attempts."""
        return max(0.0, (now if self.finished is None else self.finished) - self.started)


class RunView:
    """The view of a run: feed it the run's records in order; after any prefix it shows the state at that time.

        view = fold(store.read(run))
        print(view.state, [turn.id for turn in view.turns])

    Attributes:
        id: The run's id; empty before `run.started`.
        topology: The name of its team.
        input: Its input.
        state: `running`, `stopped`, `waiting` (for a human), `completed` or `failed`. A run whose owner was killed is
            also `running`: only the store knows whether it has an owner.
        reason: Why it stopped or failed.
        result: Its result.
        epoch: Which owner this is, from 1; 0 before the first.
        started: Unix seconds; *finished* likewise, None unless it stopped or ended.
        seq: The number of the last applied record, and *at* its time.
        turns: In start order.
        plan: The current plan as JSON; empty in a child run.
        added: The iterations allowed beyond the plan of a loop.
        noted: The records in `NOTED` that are not about a turn, each with the number of turns before it; only with
            *keeps_notes*, since there may be many. With *answers*, only these turns have whole texts and outputs.
        sets: The starts of mapped nodes, by id; *ended* has those that have ended, and *set_of* the set of each turn
            that works on an item.
        actors: The actors of a supervised system.
    """

    def __init__(self, *, keeps_notes: bool = True, answers: Container[str] | None = None) -> None:
        self._keeps_notes, self._answers = keeps_notes, answers
        self.id = self.topology = self.parent = self.plan = self.cwd = ""
        self.input: dict[str, Any] = {}
        self.state = "running"
        self.reason = ""
        self.result: Any = None
        self.epoch = 0
        self.started: float | None = None
        self.finished: float | None = None
        self.seq, self.at = 0, 0.0
        self.added = 0
        self.noted: list[tuple[int, r.Record]] = []
        self.sets: dict[str, r.SetStarted] = {}
        self.ended: set[str] = set()
        self.set_of: dict[str, str] = {}
        self._items: dict[str, list[TurnView]] = {}
        self.actors = ActorsView()
        self._iteration: r.IterationStarted | None = None
        self._turns: dict[str, TurnView] = {}

    @property
    def turns(self) -> list[TurnView]:
        """The turns in start order."""
        return list(self._turns.values())

    def turn(self, id: str) -> TurnView | None:
        """The turn with that id, or None."""
        return self._turns.get(id)

    def items_of(self, id: str) -> list[TurnView]:
        """The turns that work on the items of a set, in the items' order; without those that have not begun."""
        return sorted(self._items.get(id, ()), key=lambda turn: (turn.item or (0, 0), turn.n))

    def state_of_set(self, id: str) -> str:
        """The state of a set: `running`, `finished`, or `failed` if the run ended or stopped before it did."""
        if id in self.ended:
            return "finished"
        return "running" if self.state in ("running", "waiting") else "failed"

    def seconds(self, now: float) -> float:
        """How long the run has taken by *now*, including times without an owner; 0 before it started."""
        if self.started is None:
            return 0.0
        return max(0.0, (now if self.finished is None else self.finished) - self.started)

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        self.seq, self.at = record.seq, record.at
        kind = type(record)
        if kind in NOTED:
            self._note(record)
        if kind in OF_ACTORS:
            self.actors.apply(record)
            return
        if kind not in OF_RUNS:
            self._apply_to_turn(record)
            return
        match record:
            case r.RunStarted():
                self.id, self.topology, self.input = record.run, record.topology, self._kept(record.input)
                self.parent, self.plan, self.cwd = record.parent, record.plan, record.cwd
                self.started = record.at
            case r.RunOwned():
                self.epoch, self.state, self.reason, self.finished = record.epoch, "running", "", None
                self.added += record.limits.add_iterations
                if record.warnings:
                    self._note(record)
            case r.RunStopped():
                self.state = "waiting" if record.reason == "waiting" else "stopped"
                self.reason, self.finished = record.reason, record.at
            case r.RunFinished():
                self.state, self.reason, self.finished = record.outcome, record.reason, record.at
                self.result = self._kept(record.result)
            case r.RunReopened():
                self._reopen(record)
            case r.ConfigChanged() | r.PlanReloaded():
                self.plan = record.plan
            case r.IterationStarted():
                self._iteration = record
            case r.ConfigKept() if record.warnings:
                self._note(record)

    def _reopen(self, record: r.RunReopened) -> None:
        """Continue the run and its failed turns; turns whose child runs are reopened are running again."""
        self.state, self.reason, self.finished, self.result = "running", "", None, None
        for turn in [self._turns[name] for name in record.asked if name in self._turns]:
            turn.state, turn.finished, turn.kind, turn.reason = "waiting", None, "", ""
            attempt = turn.attempts[-1]
            if attempt_id(turn.id, attempt.n) in record.below:
                turn.state = attempt.state = "running"
                turn.usage -= record.reported.get(turn.id, r.NO_USAGE)
                attempt.finished, attempt.kind, attempt.reason, attempt.usage = None, "", "", r.NO_USAGE

    def _note(self, record: r.Record) -> None:
        """Keep *record* with the turn that it names; the record of a wave is kept between the turns of a loop."""
        turn = None if isinstance(record, r.WaveStarted) else self._turns.get(getattr(record, "turn", ""))
        if turn is not None:
            turn.noted.append(record)
        elif self._keeps_notes:
            self.noted.append((len(self._turns), record))

    def _apply_to_turn(self, record: r.Record) -> None:
        match record:
            case r.SetStarted():
                self.sets[record.set] = record
            case r.SetEnded():
                self.ended.add(record.set)
            case r.TurnStarted():
                fresh = TurnView(
                    record.turn,
                    record.agent,
                    record.at,
                    record.inputs,
                    item=record.item,
                    item_name=record.item_name,
                )
                if self._iteration is not None and fresh.id == f"iteration#{self._iteration.n}":
                    fresh.iteration = self._iteration
                started = self._turns.setdefault(record.turn, fresh)
                if record.set and started is fresh:
                    self.set_of[record.turn] = record.set
                    self._items.setdefault(record.set, []).append(fresh)
                started.state = "running"
                prompt_hash = record.prompt if "tool" not in record.used else ""
                started.attempts.append(AttemptView(record.attempt, record.at, prompt_hash=prompt_hash))
            case r.AttemptLaunched() if attempt := self._attempt(record.turn, record.attempt):
                attempt.pid = record.pid or None
            case r.AttentionAsked() if turn := self._turns.get(record.turn):
                turn.asked[record.id] = record
            case r.AttentionAnswered() if turn := self._turns.get(record.turn):
                turn.asked.pop(record.id, None)
            case r.AttemptStep() if attempt := self._attempt(record.turn, record.attempt):
                attempt.steps.append(record)
                attempt.usage += record.usage
            case r.AttemptFailed() if attempt := self._attempt(record.turn, record.attempt):
                attempt._end(record.at, "failed", record.kind, record.reason, record.usage)
                attempt.text, attempt.log = record.text, record.log
                attempt.exit_code, attempt.signal = record.exit_code, record.signal
                self._pause(record.turn, record.usage)
            case r.AttemptInterrupted() if attempt := self._attempt(record.turn, record.attempt):
                attempt._end(record.at, "interrupted", reason=record.reason, usage=record.usage)
                self._pause(record.turn, record.usage)
            case r.TurnFinished() if turn := self._end(record.turn, "finished", record.at):
                text, outputs = self._kept(record.text, record.turn), self._kept(record.outputs, record.turn)
                turn.text, turn.outputs, turn.usage = text, outputs, turn.usage + record.usage
                turn.promise_refused = record.promise_refused
                if attempt := self._attempt(record.turn, record.attempt):
                    attempt._end(record.at, "finished", usage=record.usage)
            case r.TurnFailed() if turn := self._end(record.turn, "failed", record.at):
                turn.kind, turn.reason = record.kind, record.reason
            case r.ConditionUnknown() if turn := self._turns.get(record.turn):
                turn.note = "; ".join(filter(None, (turn.note, f"{record.agent}.{record.field} has no value")))
            case r.PathEnded() if turn := self._turns.get(record.turn):
                turn.note = "; ".join(filter(None, (turn.note, path_end(record.reason, record.found))))
            case r.TurnCancelled() if turn := self._end(record.turn, "cancelled", record.at):
                turn.reason, turn.usage = record.reason, turn.usage + record.usage
                if turn.attempts and turn.attempts[-1].finished is None:
                    turn.attempts[-1]._end(record.at, "cancelled", reason=record.reason, usage=record.usage)

    def _kept(self, value: T, turn: str = "") -> T:
        """What is kept of *value*, which *turn* or the run itself was given or has given."""
        return value if self._answers is None or turn in self._answers else shortened(value)

    def _attempt(self, turn: str, n: int) -> AttemptView | None:
        attempts = self._turns[turn].attempts if turn in self._turns else []
        return next((attempt for attempt in reversed(attempts) if attempt.n == n), None)

    def _pause(self, turn: str, usage: r.Usage) -> None:
        self._turns[turn].state = "waiting"
        self._turns[turn].asked.clear()
        self._turns[turn].usage += usage

    def _end(self, id: str, state: str, at: float) -> TurnView | None:
        turn = self._turns.get(id)
        if turn is not None:
            turn.state, turn.finished = state, at
            turn.asked.clear()
        return turn


def fold(records: Iterable[r.Record], answers: Container[str] | None = None) -> RunView:
    """The view of *records*, which begin with a run's first record, with the *answers* of some turns, or of all."""
    view = RunView(answers=answers)
    for record in records:
        view.apply(record)
    return view
