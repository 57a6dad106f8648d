"""Records of a run as a whole: its start, its owners, its end, and the repair of its journal."""

from typing import Any

from msgspec import Struct

from coterie.journal.records.base import NO_USAGE, SCHEMA, Record, Usage
from coterie.planning.plan import Limits


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
        input: The input: `prompt` and further named values.
        parent: The parent of a child run.
        cwd: The working directory of its agents.
        project: The directory it was started in, and *home* its state directory, relative to it; both are empty if the
            state directory lies elsewhere.
        forked_from: The run whose first records these are, when it is a fork; those behind them are its own.
        snapshots: A snapshot of the files is kept at each turn's end.
        begun_by: The attempts in which the process that began it ran, the innermost first; a number in hexadecimal
            where only the hash of one is known. Their processes may do to it what an operator may.
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


class RunOwned(Record, frozen=True, kw_only=True, tag="run.owned", gc=False):
    """A process took the run over; messages of earlier owners are stale from here on.

    Attributes:
        warnings: What the run should have on this machine, or had, and goes on without.
        project: The directory of its project, if that was moved or copied after the last owner.
    """

    epoch: int
    limits: Limits = Limits()
    warnings: tuple[str, ...] = ()
    project: str = ""


class RunStopped(Record, frozen=True, kw_only=True, tag="run.stopped", gc=False):
    """The owner gave the run up; it can be resumed. *reason*: `max_turns`, `waiting`, `interrupted`, `forked`,
    `shortage: …` (what the machine lacked), `quota until …`, …

    *until*: when the first of the quotas that it waits for opens, in Unix seconds.
    """

    reason: str
    until: float = 0.0


class RunFinished(Record, frozen=True, kw_only=True, tag="run.finished", gc=False):
    """The run ended: *outcome* is `completed` or `failed` (then *reason* says why); a failed run can be reopened."""

    outcome: str
    result: Any = None
    reason: str = ""


class RunReopened(Record, frozen=True, kw_only=True, tag="run.reopened", gc=False):
    """A failed run goes on: what failed it is retried (`coterie resume --retry`).

    Attributes:
        turns: The turns that are retried: those whose failure ended the run, and those that this failure cancelled.
            `team#1.1/coder#2` is the turn `coder#2` of the child run of the attempt `team#1.1`.
        below: The child runs that are reopened, too, each with its *since*; 0: it had completed.
        since: The first record that no longer counts for what is decided: it ended the run. What was used up to its
            end still counts.
        reported: Usage that turns whose child runs are reopened had reported; they report it again.
        by: `operator`, or the attempt in whose process the command was called.
        reason: Why the run had failed.
        above: In a child run, the seq of the record by which its parent was reopened.
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
        """All that is reported again."""
        return sum(self.reported.values(), NO_USAGE)

    @property
    def asked(self) -> tuple[str, ...]:
        """The turns of this run that go on: those that are retried, and those whose child runs are reopened."""
        heads = [name for name in self.turns if "/" not in name]
        return tuple(dict.fromkeys([*heads, *(run.rpartition(".")[0] for run in self.below if "/" not in run)]))


class RunNotified(Record, frozen=True, kw_only=True, tag="run.notified", gc=False):
    """`notify.command` was called because the run ends with *status*. *problem*: why the call failed."""

    status: str
    problem: str = ""


class JournalRepaired(Record, frozen=True, kw_only=True, tag="journal.repaired", gc=False):
    """A torn last line was cut off and kept in *file*, *size* bytes."""

    file: str
    size: int
