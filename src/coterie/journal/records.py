"""What can happen in a run, one frozen class per topic.

The journal is the truth and everything else a fold of it, so records are small and explain themselves. Fields are
added with defaults; nothing is renamed. Journals of every release stay in `tests/histories/`.
"""

from typing import Any

from msgspec import Struct

from coterie.planning.plan import Limits

SCHEMA = 1
"""The version of the record format that this coterie writes."""

Cause = tuple[int, int]
"""The identity of a command: the seq of the record that caused it, and its index among what that record caused."""


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a turn used.

    Attributes:
        cached_tokens: Those of the input tokens that the provider had in its cache.
        cost: US dollars, when the backend knows.
        unpriced: Answers of models whose price nobody knows: *cost* leaves them out.
        seconds: Time the attempts ran.
        turns: Turns of agents inside, when the turn was a child run.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    cached_tokens: int = 0
    unpriced: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
            seconds=self.seconds + other.seconds,
            turns=self.turns + other.turns,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            unpriced=self.unpriced + other.unpriced,
        )


NO_USAGE = Usage()


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="topic", gc=False):
    """One journal line.

    Attributes:
        seq: From 1 within a run; the writer gives it.
        at: Unix seconds; never goes back within a run.
        source: Who caused it: `harness`, `agent` or `operator`.
        cause: The command that this record carries out.
    """

    seq: int = 0
    at: float = 0.0
    source: str = "harness"
    cause: Cause | None = None


class ForkedFrom(Struct, frozen=True, kw_only=True, gc=False):
    """Where a run was forked from: it shares the records of *run* up to *seq*, that one included."""

    run: str
    seq: int


class RunStarted(Record, frozen=True, kw_only=True, tag="run.started", gc=False):
    """A run began.

    Attributes:
        engine: Which engine decides, and *engine_version* which of its versions.
        plan: The plan as JSON; empty in a child run, whose plan is part of its parent's.
        plan_hash: The plan's content hash.
        input: What the run was asked: `prompt` and further named values.
        parent: The run that asked, when this is a child.
        cwd: The working directory it was started in.
        forked_from: The run whose first records these are, when it is a fork; those behind them are its own.
        snapshots: The files are kept at each turn's end.
    """

    run: str
    engine: str
    engine_version: int = 1
    schema: int = SCHEMA
    topology: str = ""
    plan_hash: str = ""
    plan: str = ""
    input: dict[str, Any] = {}
    parent: str = ""
    cwd: str = ""
    forked_from: ForkedFrom | None = None
    snapshots: bool = False


class RunOwned(Record, frozen=True, kw_only=True, tag="run.owned", gc=False):
    """A process took the run over; what earlier owners still say is stale."""

    epoch: int
    limits: Limits = Limits()


class RunStopped(Record, frozen=True, kw_only=True, tag="run.stopped", gc=False):
    """The owner let go; the run can be resumed. *reason*: `max_turns`, `waiting`, `interrupted`, `forked`,
    `shortage: …` (what the machine lacked), …"""

    reason: str


class RunFinished(Record, frozen=True, kw_only=True, tag="run.finished", gc=False):
    """The run is over for good: *outcome* is `completed` or `failed` (then *reason* says why)."""

    outcome: str
    result: Any = None
    reason: str = ""


class TurnStarted(Record, frozen=True, kw_only=True, tag="turn.started", gc=False):
    """An attempt of a turn is about to start: the intent, durable before the agent hears of it.

    Attributes:
        attempt: From 1.
        inputs: The turns whose results marked it, in the source order of the arrows.
        prompt: SHA-256 of what is asked, in hex; the text itself follows from the journal.
    """

    turn: str
    agent: str
    attempt: int = 1
    inputs: tuple[str, ...] = ()
    prompt: str = ""


class AttemptLaunched(Record, frozen=True, kw_only=True, tag="attempt.launched", gc=False):
    """The attempt has a process. *started* is the kernel's start time of *pid*: it tells namesakes apart.

    An attempt that runs elsewhere has a *handle* instead, which only what started it can read.
    """

    turn: str
    attempt: int
    pid: int = 0
    group: int = 0
    started: str = ""
    handle: str = ""


class AttemptAdopted(Record, frozen=True, kw_only=True, tag="attempt.adopted", gc=False):
    """The owner of *epoch* goes on with an attempt that an earlier owner started: it still runs, or has finished."""

    turn: str
    attempt: int
    epoch: int


class AttemptFailed(Record, frozen=True, kw_only=True, tag="attempt.failed", gc=False):
    """An attempt failed by itself. *kind* is one of `coterie.backends.base.FAILURES`.

    Attributes:
        wait: Seconds that whoever was asked wants to be left alone.
        text: What the agent had answered or printed; the end of a long output. It is no answer of the turn.
        log: The end of what its program wrote to standard error.
        exit_code: The exit status of its program, as a shell counts it: 128 and the number of a signal.
        signal: The name of the signal that ended its program.
    """

    turn: str
    attempt: int
    kind: str
    reason: str
    usage: Usage = NO_USAGE
    wait: float = 0.0
    text: str = ""
    log: str = ""
    exit_code: int | None = None
    signal: str = ""


class AttemptInterrupted(Record, frozen=True, kw_only=True, tag="attempt.interrupted", gc=False):
    """An attempt was cut off.

    *reason* is `crash` (its owner died), `interrupted` (Ctrl-C, `control interrupt`), `shortage` (the machine lacked
    space, descriptors or memory) or `forked` (it belongs to the run that this one was forked from).
    """

    turn: str
    attempt: int
    reason: str


class TurnFinished(Record, frozen=True, kw_only=True, tag="turn.finished", gc=False):
    """A turn has its result; it is never run again. *message* is the inbox message that brought it, if one did.

    *promised*: it said the text that completes a loop, under all that this takes.
    """

    turn: str
    attempt: int
    text: str = ""
    outputs: dict[str, Any] = {}
    usage: Usage = NO_USAGE
    message: str = ""
    promised: bool = False


class TurnFailed(Record, frozen=True, kw_only=True, tag="turn.failed", gc=False):
    """A turn failed for good, after all its attempts."""

    turn: str
    kind: str
    reason: str


class TurnCancelled(Record, frozen=True, kw_only=True, tag="turn.cancelled", gc=False):
    """A turn was called off; what it still says is too late.

    *usage*: what the child run that it is had used by then, the runs below it included.
    """

    turn: str
    reason: str = ""
    usage: Usage = NO_USAGE


class EventEmitted(Record, frozen=True, kw_only=True, tag="event.emitted", gc=False):
    """An agent emitted an event and it was allowed."""

    turn: str
    event: str
    payload: str = ""
    attempt: int = 0
    message: str = ""


class EventInvalid(Record, frozen=True, kw_only=True, tag="event.invalid", gc=False):
    """An agent emitted an event that was not allowed at that point.

    In a loop *recent* is the event that led to the turn, *suggested* the roles it led to.
    """

    turn: str
    event: str
    allowed: tuple[str, ...] = ()
    reason: str = ""
    attempt: int = 0
    message: str = ""
    recent: str = ""
    suggested: tuple[str, ...] = ()


class EventNoted(Record, frozen=True, kw_only=True, tag="event.noted", gc=False):
    """An agent emitted an event that anyone may emit at any time: it leads nowhere."""

    turn: str
    event: str
    payload: str = ""
    attempt: int = 0
    message: str = ""


class MessageRefused(Record, frozen=True, kw_only=True, tag="message.refused", gc=False):
    """A message to the run could not be used: its turn is over, unknown, or asks nobody."""

    message: str
    reason: str
    turn: str = ""


class MessageSent(Record, frozen=True, kw_only=True, tag="message.sent", gc=False):
    """One agent of a pattern told another, or everybody, something: a trace, which causes nothing.

    Attributes:
        recipient: Empty: everybody.
        type: `request`, `response`, `feedback`, `escalation`, `broadcast` or `system`.
    """

    sender: str
    recipient: str = ""
    type: str = "response"
    content: dict[str, Any] = {}
    round: int = 0


class CallAsked(Record, frozen=True, kw_only=True, tag="call.asked", gc=False):
    """A program asks an agent: its *n*-th call there is the turn `agent#n`.

    Attributes:
        hash: SHA-256 of what it asked, in hex, before anything was added to that: asked again, it must be the same.
        request: What the agent is sent.
        given: The whole input, when a team is asked; then there is no request.
        state: What the agent remembers from here on, when adding to the request changed that.
    """

    turn: str
    agent: str
    hash: str = ""
    request: dict[str, Any] = {}
    given: dict[str, Any] | None = None
    state: dict[str, Any] | None = None


class CallDropped(Record, frozen=True, kw_only=True, tag="call.dropped", gc=False):
    """A program no longer waits for a call of its own, and calls it off."""

    turn: str


class StateChanged(Record, frozen=True, kw_only=True, tag="state.changed", gc=False):
    """What an agent of a program remembers was changed by the reply to a turn; it counts once that has ended.

    Attributes:
        agent: Whose memory it is.
        turn: The turn whose reply changed it.
        state: All that it remembers now.
    """

    agent: str
    turn: str
    state: dict[str, Any]


class ResultRecorded(Record, frozen=True, kw_only=True, tag="result.recorded", gc=False):
    """A program recorded a result of its own making for an agent; those of turns are in `turn.finished`.

    Attributes:
        id: `agent+n`, the n-th of the agent.
        agent: For whom.
        output: What came of it.
        confidence: How sure that is, from 0 to 1.
        reasoning: What led there.
        tokens: What it used.
    """

    id: str
    agent: str
    output: dict[str, Any] = {}
    confidence: float | None = None
    reasoning: str | None = None
    tokens: dict[str, int] | None = None


class OperatorSaid(Record, frozen=True, kw_only=True, tag="operator.said", gc=False):
    """An operator's word to the run: *what* is `interrupt`, `retry`, `cancel` or `guide`; an empty *turn* means all."""

    message: str
    what: str
    turn: str = ""
    text: str = ""


class GuidanceDelivered(Record, frozen=True, kw_only=True, tag="guidance.delivered", gc=False):
    """The prompt of *turn* holds the guidance of the operator's *messages*.

    Attributes:
        attempt: This attempt was given it while it worked, and the next iteration is given it too; 0: in the prompt.
    """

    turn: str
    messages: tuple[str, ...]
    attempt: int = 0


class OutputsGiven(Record, frozen=True, kw_only=True, tag="outputs.given", gc=False):
    """An agent gave outputs of its turn before it answered; they count unless its answer says otherwise."""

    turn: str
    outputs: dict[str, Any]
    attempt: int = 0
    message: str = ""


class MemoryChanged(Record, frozen=True, kw_only=True, tag="memory.changed", gc=False):
    """What is remembered was changed by these entries: of the run's own memory, and of the project's."""

    message: str
    turn: str = ""
    entries: tuple[dict[str, Any], ...] = ()
    project: tuple[dict[str, Any], ...] = ()


class TaskChanged(Record, frozen=True, kw_only=True, tag="task.changed", gc=False):
    """The tasks were changed by these entries: of the run's own tasks, and of the project's."""

    message: str
    turn: str = ""
    entries: tuple[dict[str, Any], ...] = ()
    project: tuple[dict[str, Any], ...] = ()


class LoopExhausted(Record, frozen=True, kw_only=True, tag="loop.exhausted", gc=False):
    """Every group that would have fired was spent.

    Attributes:
        turn: The turn whose end was judged.
        exhausted: The spent groups, as (source, targets).
        forced: The forward group that fired instead, or None: the path ended.
    """

    turn: str
    exhausted: tuple[tuple[str, tuple[str, ...]], ...]
    forced: tuple[str, tuple[str, ...]] | None = None


class PathEnded(Record, frozen=True, kw_only=True, tag="path.ended", gc=False):
    """A turn ended, its node has arrows, and none fired. *reason*: `no_match`, `failed`, or what `on-max` decided."""

    turn: str
    reason: str = "no_match"


class ConditionUnknown(Record, frozen=True, kw_only=True, tag="condition.unknown", gc=False):
    """A condition read an output that was never produced; it counted as false."""

    turn: str
    agent: str
    field: str


class ConfigChanged(Record, frozen=True, kw_only=True, tag="config.changed", gc=False):
    """The plan was read again.

    Attributes:
        plan: The new plan as JSON text.
        keys: What differs, by the name of the setting where it has one.
        diff: The same line by line, for people.
    """

    plan: str
    plan_hash: str = ""
    keys: tuple[str, ...] = ()
    diff: str = ""


class ConfigRejected(Record, frozen=True, kw_only=True, tag="config.rejected", gc=False):
    """The plan could not be read again; the last good one stays."""

    reason: str


class ConfigKept(Record, frozen=True, kw_only=True, tag="config.kept", gc=False):
    """The plan was read again and is what it was."""


ConfigAnswer = ConfigChanged | ConfigRejected | ConfigKept
"""What answers the wish to read the plan again."""


class PlanReloaded(Record, frozen=True, kw_only=True, tag="plan.reloaded", gc=False):
    """An operator had the run carried on under another *plan*, as JSON; it agrees with all that was decided before."""

    plan: str
    plan_hash: str = ""


class IterationStarted(Record, frozen=True, kw_only=True, tag="iteration.start", gc=False):
    """A loop began its *n*-th iteration, from 1, for *role*.

    *event* led there, *roles* are those it suggests, *allowed* is what they may emit.
    """

    n: int
    role: str = ""
    event: str = ""
    roles: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


class WaveStarted(Record, frozen=True, kw_only=True, tag="wave.start", gc=False):
    """The event *event* of *turn* opened the *wave*-th wave of the run: a branch for each of its *objectives*.

    *turns* are the branches' turns, each a child run.
    """

    wave: int
    turn: str
    event: str
    objectives: tuple[str, ...]
    turns: tuple[str, ...]


class WaveTimeout(Record, frozen=True, kw_only=True, tag="wave.timeout", gc=False):
    """Branches of a wave took too long; *turns* are theirs."""

    wave: int
    turns: tuple[str, ...]


class WaveJoined(Record, frozen=True, kw_only=True, tag="wave.join", gc=False):
    """All branches of a wave have ended, and the harness joins them.

    *event* is what the loop is routed by from here on; *outcomes* says of each branch's turn how it ended.
    """

    wave: int
    event: str
    outcomes: tuple[tuple[str, str], ...] = ()


class TreeSaved(Record, frozen=True, kw_only=True, tag="tree.saved", gc=False):
    """What the files were when an attempt of a turn had ended, before anything followed from it.

    Attributes:
        commit: The git commit that holds them; empty: they could not be kept.
        problem: Why not, or why some are not in it.
        apart: They are those of a wave's branch, which has its own.
    """

    turn: str
    attempt: int
    commit: str = ""
    problem: str = ""
    apart: bool = False


class KeptTree(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The work of the branch *turn* of a wave, which stays where it is: at *path*, on a git *branch*.

    *files* are those in which it disagrees with what its loop has.
    """

    turn: str
    path: str
    branch: str
    reason: str = ""
    files: tuple[str, ...] = ()


class TreesJoined(Record, frozen=True, kw_only=True, tag="trees.joined", gc=False):
    """The files of a wave's branches came back to those of its loop: those of *turns* did, *kept* did not.

    *problem*: why git could do nothing.
    """

    turns: tuple[str, ...] = ()
    kept: tuple[KeptTree, ...] = ()
    problem: str = ""


class TreeMade(Record, frozen=True, kw_only=True, tag="tree.made", gc=False):
    """The git work tree of *run* is ready: its files in *path*, on the git *branch*, begin at the commit *base*."""

    run: str
    path: str
    branch: str
    base: str = ""


MERGE_CONFLICT = "merge_conflict"
"""The reason of a run that failed because its work, which is complete, could not be merged."""


class TreeMerged(Record, frozen=True, kw_only=True, tag="tree.merged", gc=False):
    """A run that completes merged its work tree, or could not.

    Attributes:
        status: `merged`, `conflict` or `blocked`; the last two end the run with `merge_conflict`.
        path: The files of the work tree, and *branch* its git branch.
        into: The branch that receives the work, and *commit* where it was moved to.
        files: The files in conflict.
        reason: Why the work is not merged.
    """

    status: str
    path: str
    branch: str
    into: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    reason: str = ""


class TreeCleared(Record, frozen=True, kw_only=True, tag="tree.cleared", gc=False):
    """The files of the run's work tree were removed, and its *branch* too unless it is *kept*.

    *problem*: why they could not be removed.
    """

    path: str
    branch: str
    kept: bool = False
    problem: str = ""


class RunNotified(Record, frozen=True, kw_only=True, tag="run.notified", gc=False):
    """`notify.command` was called because the run ends with *status*. *problem*: why the call failed."""

    status: str
    problem: str = ""


class JournalRepaired(Record, frozen=True, kw_only=True, tag="journal.repaired", gc=False):
    """A torn last line was cut off and kept in *file*, *size* bytes."""

    file: str
    size: int


AnyRecord = (
    RunStarted
    | RunOwned
    | RunStopped
    | RunFinished
    | TurnStarted
    | AttemptLaunched
    | AttemptAdopted
    | AttemptFailed
    | AttemptInterrupted
    | TurnFinished
    | TurnFailed
    | TurnCancelled
    | EventEmitted
    | EventInvalid
    | EventNoted
    | MessageRefused
    | MessageSent
    | CallAsked
    | CallDropped
    | StateChanged
    | ResultRecorded
    | OperatorSaid
    | GuidanceDelivered
    | OutputsGiven
    | MemoryChanged
    | TaskChanged
    | LoopExhausted
    | PathEnded
    | ConditionUnknown
    | ConfigChanged
    | ConfigRejected
    | ConfigKept
    | PlanReloaded
    | IterationStarted
    | WaveStarted
    | WaveTimeout
    | WaveJoined
    | TreeSaved
    | TreesJoined
    | TreeMade
    | TreeMerged
    | TreeCleared
    | RunNotified
    | JournalRepaired
)
