"""The three values that an owner of runs is made of: its ports, what it allows, and who watches."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.clock import Clock
from coterie.journal.base import Store
from coterie.journal.records import ConfigAnswer
from coterie.kernel.attempt_files import AttemptFiles
from coterie.kernel.event_queue import MakeTask, lazy_task
from coterie.kernel.kind import MakeKind, Observe
from coterie.kernel.run_exit import Finalizers
from coterie.kernel.stall import stall_after
from coterie.kernel.turns import Turns
from coterie.planning.plan import AgentPlan, Limits, Plan
from coterie.values import dataclass
from coterie.workspace.base import Workspace
from coterie.workspace.notes import Notes

if TYPE_CHECKING:
    from coterie.views.attention import Attention

Approver = Callable[["Attention"], Awaitable[str]]
"""Shows what needs a person and returns the answer, one of its `answers`; cancelled when it is answered elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPorts:
    """The stores and services that the runs of one owner use.

    Attributes:
        store: Keeps the journals.
        turns: Starts attempts.
        make_kind: Gives what plays a plan.
        files: Keeps the files of attempts, and *notes* memory and tasks.
        workspace: The files that agents work on; *cwd* is their working directory if it says nothing else.
        finalizers: The steps before the root run ends or stops.
        held: Gives the secret values that the plan refers to now; see `coterie.kernel.plan_secrets`.
        reload: Reads a run's plan again, for engines that ask for it; raises `CoterieError` when it cannot. Without
            it a plan stays what it is.
        environment: The variables of this process, whose secrets are hidden in all that is recorded.
        make_task: See `coterie.kernel.event_queue.EventQueue`.
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
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    make_task: MakeTask = lazy_task


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerOptions:
    """What one owner allows its runs.

    Attributes:
        limits: Of the whole tree.
        park: Let go of the run when nothing runs but humans and timers.
        listens: Messages may come at any time, so the run is never let go of for want of a human.
        quota: When nothing runs but turns that wait for a quota: `park` lets go of the run until it opens, `wait` waits
            for it here. `now`: as `park`, but what waited under earlier owners is tried at once.
        allow: Rules about uses of tools that the operator has allowed for the project.
        stall_after: When an attempt of an agent without a sign of life may be stuck; None: it is not watched.
    """

    limits: Limits = field(default_factory=Limits)
    park: bool = False
    listens: bool = False
    quota: str = "park"
    allow: tuple[str, ...] = ()
    stall_after: Callable[[AgentPlan], float | None] = stall_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """Who watches the runs of one owner, and answers for a person.

    Attributes:
        observe: Called with the run's id and each record, in order, once it is durable.
        on_quota: Called when a turn begins to wait here for its quota, with its run, itself, and Unix seconds.
        approver: Answers what attempts need a person for; without it others answer, or the policy does.
    """

    observe: Observe | None = None
    on_quota: Callable[[str, str, float], object] = lambda run, turn, due: None
    approver: Approver | None = None
