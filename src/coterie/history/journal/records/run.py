"""Records of a run as a whole: its start, its owners, its end, and the repair of its journal."""

from typing import Any

from msgspec import Struct

from coterie.history.journal.records.base import NO_USAGE, SCHEMA, Record, Usage
from coterie.team.planning.plan import Limits


class ForkedFrom(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The origin of a fork: it shares the records of *run* up to and including *seq*.

    Attributes:
        at: When the fork was made, in Unix seconds; 0 in older journals, where it is unknown.
        left_out: The files of the shared attempts that it lacks, and why.
    """

    run: str
    seq: int
    at: float = 0.0
    left_out: tuple[str, ...] = ()


class GivenValues(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What the run above gives the functions of a child run: values, not the text that its models read.

    Attributes:
        prompt: The question of the node that the child run answers for.
        input: The named values of the runs above it.
        answers: The answers before that node, the latest first: each with `agent`, `turn`, `text` and `outputs`,
            and `is_none` if a function gave None.
    """

    prompt: str = ""
    input: dict[str, Any] = {}
    answers: tuple[dict[str, Any], ...] = ()


class ThreadExchange(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An earlier run of a thread: its input as text, and the last answer of each agent that reads the thread."""

    run: str
    prompt: str
    answers: dict[str, str] = {}


class ThreadStart(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a run continues: the run *after* of the thread *name*, or nothing yet.

    Attributes:
        earlier: How many runs came before.
        exchanges: Those that at least one agent is shown, oldest first.
        sessions: The sessions of coding agents that go on, by agent.
        left_out: How many of the earlier runs an agent is not shown, since its `thread-budget` is smaller.
    """

    name: str
    after: str = ""
    earlier: int = 0
    exchanges: tuple[ThreadExchange, ...] = ()
    sessions: dict[str, str] = {}
    left_out: dict[str, int] = {}


class RunStarted(Record, frozen=True, kw_only=True, tag="run.started", gc=False):
    """A run began.

    Attributes:
        engine: The engine that decides; *engine_version* is its version.
        plan: The plan as JSON; empty in a child run, whose plan is part of its parent's.
        plan_hash: The plan's content hash.
        input: The input: `prompt` and further named values.
        parent: The parent of a child run.
        cwd: The working directory of its agents.
        project: The directory where it was started; *home* is its state directory, relative to it. Both are empty if
            the state directory is elsewhere.
        forked_from: For a fork, the run whose first records it shares; the records after them are its own.
        snapshots: Whether a snapshot of the files is kept at each turn's end.
        begun_by: The attempts in which the process that began it ran, the innermost first; a hexadecimal number where
            only a hash is known. Processes of these attempts may act as its operator.
        values: In a child run with functions, what they read besides *input*.
        seed: The seed of random numbers of a program.
        thread: The conversation that the run belongs to.
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
    begun_by: tuple[str, ...] = ()
    project: str = ""
    home: str = ""
    values: GivenValues | None = None
    seed: str = ""
    thread: ThreadStart | None = None


class RunOwned(Record, frozen=True, kw_only=True, tag="run.owned", gc=False):
    """A process took the run over; messages of earlier owners are stale from here on.

    Attributes:
        warnings: Missing facilities of this machine that the run continues without.
        project: The directory of its project, if that was moved or copied since the last owner.
        slept: Seconds for which the machine had been suspended since its start.
    """

    epoch: int
    limits: Limits = Limits()
    warnings: tuple[str, ...] = ()
    project: str = ""
    slept: float = 0.0


class RunSuspended(Record, frozen=True, kw_only=True, tag="run.suspended", gc=False):
    """The machine was suspended for *seconds* during the run; time-outs of its work do not count them."""

    seconds: float


WAITING = "waiting"
"""The reason of a stop by which a run is parked until a person answers."""


class RunStopped(Record, frozen=True, kw_only=True, tag="run.stopped", gc=False):
    """The run stopped; it can be resumed.

    | reason | meaning |
    |---|---|
    | `max_turns` | It has begun the turns that `--max-turns` allows. |
    | `max_cost` | It has used the budget of `--max-cost`. |
    | `max_iterations` | The loop has begun all its iterations. |
    | `max_runtime` | The loop has worked for `event_loop.max_runtime`. |
    | `cost_budget` | The loop has spent `event_loop.max_cost_usd`. |
    | `stalled` | The last iterations of the loop came to the same result. |
    | `waiting` | It waits for a person. |
    | `interrupted` | A person or a signal stopped it. |
    | `forked` | A child run belongs to the run that this one was forked from. |
    | `asleep until …` | Its agent asked to be called again later. |
    | `quota until …` | The quota of a provider is used up. |
    | `shortage …` | The machine lacks the resource that is named. |

    *until*: when the first quota opens that it waits for, in Unix seconds. *by*: `person` (Ctrl-C, or a command),
    `process` (its process got a signal to end), `limit`; empty if the run itself waits, and in older journals.
    """

    reason: str
    until: float = 0.0
    by: str = ""


class RunFinished(Record, frozen=True, kw_only=True, tag="run.finished", gc=False):
    """The run ended: *outcome* is `completed` or `failed` (then *reason* says why); a failed run can be reopened.

    | reason | meaning |
    |---|---|
    | `completion_event` | The loop's completion event was emitted, and its gates passed. |
    | `completion_promise` | An answer contained the loop's promise, and its gates passed. |
    | `merge_conflict` | The work is on a branch that could not be merged. |
    | `auth_failed` | The backend of the loop is not logged in. |
    | `quota_exhausted` | The quota of the loop's backend is used up. |
    | `backend_failed` | `event_loop.max_failures` turns in a row failed, or the loop's program is missing. |
    """

    outcome: str
    result: Any = None
    reason: str = ""


class RunReopened(Record, frozen=True, kw_only=True, tag="run.reopened", gc=False):
    """A failed run continues: the turns that failed it are retried (`coterie resume --retry`).

    Attributes:
        turns: The retried turns: those whose failure ended the run, and those that this failure cancelled.
            `team#1.1/coder#2` is the turn `coder#2` of the child run of the attempt `team#1.1`.
        below: The child runs that are also reopened, each with its *since*; 0: it had completed.
        since: The first record that no longer counts for decisions, namely the one that ended the run. Earlier usage
            still counts.
        reported: Usage that turns whose child runs are reopened had reported, and will report again.
        by: `operator`, or the attempt in whose process the command was called.
        reason: Why the run had failed.
        above: In a child run, the seq of the record that reopened its parent.
    """

    turns: tuple[str, ...] = ()
    below: dict[str, int] = {}
    since: int = 0
    reported: dict[str, Usage] = {}
    by: str = ""
    reason: str = ""
    above: int = 0

    @property
    def usage(self) -> Usage:
        """The total usage that will be reported again."""
        return sum(self.reported.values(), NO_USAGE)

    @property
    def asked(self) -> tuple[str, ...]:
        """The turns of this run that continue: retried turns, and turns whose child runs are reopened."""
        heads = [name for name in self.turns if "/" not in name]
        return tuple(dict.fromkeys([*heads, *(run.rpartition(".")[0] for run in self.below if "/" not in run)]))


class RunNotified(Record, frozen=True, kw_only=True, tag="run.notified", gc=False):
    """`notify.command` was called because the run ends with *status*. *problem*: why that failed."""

    status: str
    problem: str = ""


class JournalRepaired(Record, frozen=True, kw_only=True, tag="journal.repaired", gc=False):
    """A torn last line of *size* bytes was cut off and kept in *file*."""

    file: str
    size: int
