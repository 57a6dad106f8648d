"""The three values that configure an owner of runs: its ports, its options, and its observers."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from coterie.agents.workspace.base import Workspace
from coterie.agents.workspace.notes import Notes
from coterie.base.clock import Clock
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.execution.kernel.event_queue import MakeTask, lazy_task
from coterie.execution.kernel.kind import MakeKind
from coterie.execution.kernel.project import Observe
from coterie.execution.kernel.run_exit import Finalizers
from coterie.execution.kernel.stall import stall_after
from coterie.execution.kernel.turns import Turns
from coterie.history.journal.base import Store
from coterie.history.journal.records import ConfigAnswer, Record
from coterie.team.planning.plan import AgentPlan, Limits, Plan

if TYPE_CHECKING:
    from coterie.history.views.attention import Attention

Approver = Callable[["Attention"], Awaitable[str]]
"""Shows a request and returns the person's answer, one of its `answers`; cancelled if it is answered elsewhere."""


class RunPorts(Struct, frozen=True, kw_only=True):
    """The stores and services that the runs of one owner use.

    Attributes:
        store: Keeps the journals.
        turns: Starts attempts.
        make_kind: Makes the kind for a plan.
        files: Keeps the files of attempts; *notes* keeps memory and tasks.
        workspace: The files that agents work on; *cwd* is their working directory unless the workspace sets another.
        finalizers: The steps before the root run ends or stops.
        held: Returns the secret values that the plan refers to now; see `coterie.execution.kernel.plan_secrets`.
        reload: Reads a run's plan again, for engines that want this; raises `CoterieError` on failure. Without it a
            plan never changes.
        environment: The environment variables of this process, whose secrets are hidden in all records.
        make_task: See `coterie.execution.kernel.event_queue.EventQueue`.
    """

    store: Store
    turns: Turns
    clock: Clock
    make_kind: MakeKind
    files: AttemptFiles = field(default_factory=AttemptFiles)
    notes: Notes = field(default_factory=Notes)
    workspace: Workspace = field(default_factory=Workspace)
    finalizers: Finalizers = field(default_factory=Finalizers)
    held: Callable[[], Mapping[str, str]] = dict
    reload: Callable[[str, Plan], Awaitable[ConfigAnswer]] | None = None
    environment: Mapping[str, str] = {}
    cwd: Path | None = None
    make_task: MakeTask = lazy_task


class OwnerOptions(Struct, frozen=True, kw_only=True):
    """What one owner allows its runs.

    Attributes:
        limits: The limits of the whole tree.
        park: Stop the run when it waits only for humans and timers.
        listens: Messages may arrive at any time, so the run never stops to wait for a human.
        quota: What to do when all turns wait for a quota: `park` stops the run until it opens, `wait` waits in this
            process. `now` is as `park`, but turns that waited under earlier owners are tried at once.
        allow: Rules for tool use that the operator has allowed for the project.
        stall_after: Seconds without a sign of life after which an attempt of an agent may be stuck; None: it is not
            watched.
    """

    limits: Limits = field(default_factory=Limits)
    park: bool = False
    listens: bool = False
    quota: str = "park"
    allow: tuple[str, ...] = ()
    stall_after: Callable[[AgentPlan], float | None] = stall_after


class Observers(Struct, frozen=True, kw_only=True):
    """Who watches the runs of one owner, and answers for a person.

    Attributes:
        observe: Called one after the other with the run's id and each record, in order, once it is durable. The list
            may change while the run is driven, if there was an observer at its beginning.
        of: As *observe*, and before it, but only with records of one type.
        on_quota: Called when a turn begins to wait for its quota, with its run, the turn, and the opening time in Unix
            seconds.
        approver: Answers requests of attempts that need a person; without it the answer comes by message or from the
            policy.
    """

    observe: list[Observe] = []
    of: dict[type[Record], Observe] = {}
    on_quota: Callable[[str, str, float], object] = lambda run, turn, due: None
    approver: Approver | None = None
