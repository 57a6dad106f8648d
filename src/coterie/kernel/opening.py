"""How runs begin: a new one is written, and one that an earlier owner drove is taken over.

Taking over folds the journal, writes what was cut off, and leaves the rest as it was; `takeover_records` says which
is which. Nothing leaves before that is durable.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from coterie.engines.commands import Ask
from coterie.errors import RunIsFinished, RunIsOwned
from coterie.journal.base import Writer
from coterie.journal.records import AttemptLaunched, PlanReloaded, Record, RunReopened, RunStarted, Usage
from coterie.journal.relocation import Relocation
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.calling_off import CallingOff
from coterie.kernel.commands import Start, Turn
from coterie.kernel.core import Core, CoreDuties
from coterie.kernel.driven_run import Check, DrivenRun
from coterie.kernel.fold import Fold
from coterie.kernel.prompts import outside, render
from coterie.kernel.reopening import reopened_below
from coterie.kernel.run_tree import RunTree
from coterie.kernel.takeover_records import take_over
from coterie.planning.plan import AgentPlan, Limits, Plan, to_json


class RootOpening(msgspec.Struct, frozen=True, kw_only=True):
    """How an owner comes to its root run.

    Attributes:
        warnings: What the run should have on this machine, and goes on without; to be recorded when it is owned.
        begun_by: The attempts in which a new run was begun.
        place: The `project` and `home` of a new run's `RunStarted`.
        relocation: Where the project of a run that is taken over is; *is_copied*: its earlier attempts are another's.
        is_reloaded: It is taken over under another plan than its journal holds.
        reopened: The record by which it is reopened, if it has failed.
        take_waiting: Called with each run that is taken over: what had come for it before its owner died still counts.
    """

    warnings: tuple[str, ...] = ()
    begun_by: tuple[str, ...] = ()
    place: tuple[str, str] = ("", "")
    relocation: Relocation = Relocation()
    is_copied: bool = False
    is_reloaded: bool = False
    reopened: RunReopened | None = None
    take_waiting: Callable[[DrivenRun], object] = lambda live: None


class RunOpening:
    """Begins the runs of *tree* and takes them over.

    Attributes:
        calling_off: Ends those whose turns were cancelled.
    """

    def __init__(self, tree: RunTree, inputs: AttemptInputs) -> None:
        self._tree, self._inputs, self._clock = tree, inputs, tree.ports.clock
        self._root = RootOpening()
        self.calling_off = CallingOff(tree, partial(self._open, given=None, called_off=True))

    def open_root(self, run: str, plan: Plan, given: dict[str, Any] | None, opening: RootOpening) -> DrivenRun:
        """Claim the root *run* and begin or continue it; *given* is its input, None if it must be there already."""
        self._root = opening
        self._tree.learn_secrets(plan)
        return self._open(run, plan, None, None, given)

    def open_child(self, run: str, plan: Plan, parent: DrivenRun, start: Start, given: dict[str, Any]) -> DrivenRun:
        """Claim *run*, which the attempt *start* of *parent* is, and begin or continue it."""
        return self._open(run, plan, parent, start, given)

    def _open(
        self,
        run: str,
        plan: Plan,
        parent: DrivenRun | None,
        start: Start | None,
        given: dict[str, Any] | None,
        called_off: bool = False,
    ) -> DrivenRun:
        tree = self._tree
        kind = tree.ports.make_kind(plan)
        kind.engine  # noqa: B018 - a plan without one is refused before the run is claimed
        writer = tree.ports.store.claim(run)
        core = Core(run, kind, _Duties(tree, self.calling_off, run, writer))
        core.called_off, core.costs = called_off, tree.ledger.costs
        above = (parent, start) if parent is not None and start is not None else None
        tree.runs[run] = live = DrivenRun(
            run, plan, kind, core, writer, above
        )  # whatever comes now, its journal is given up
        if parent is not None:
            parent.children[run] = live
        if writer.last:
            self._take_over(live, plan)
        else:
            if parent is None:
                tree.ledger.limits = tree.ledger.limits.after(Limits())
            limits, given = tree.ledger.limits, given or {}
            if parent is not None:
                limits = msgspec.structs.replace(limits, add_iterations=0)
                if parent.core.started is not None:
                    given = kind.input_below(given, parent.core.started.input)
            warnings = self._root.warnings if parent is None else ()
            core.begin(self._clock.now(), self._first_record(live, given), limits, warnings)
        tree.pump(live)
        return live

    def _take_over(self, live: DrivenRun, plan: Plan) -> None:
        core, now, is_root = live.core, self._clock.now(), live.parent is None
        records = tuple(self._tree.read(live.run))
        reopened = self._reopened(live, records, now)
        core.fold(records if reopened is None else (*records, reopened))
        if reopened is not None:
            core.duties.append(reopened)
        if core.finished is not None:
            if is_root:
                raise RunIsFinished(live.run, core.finished.outcome)
            live.reap = _launched(core)
            return
        if live.writer.repaired is not None:
            core.write(now, live.writer.repaired)
        if self._root.is_reloaded and is_root:
            text = to_json(plan).decode()
            core.write(now, PlanReloaded(plan=text, plan_hash=plan.content_hash()), source="operator")
        if core.plan:
            live.plan = self._root.relocation.plan(live.kind.adopt(core.plan))
        self._root.take_waiting(live)
        live.reap = [] if self._root.is_copied else _launched(core)
        warnings = self._root.warnings if is_root else ()
        if is_root:
            self._tree.ledger.limits = self._tree.ledger.limits.after(core.limits)
        place = self._root.relocation.project if is_root and self._root.relocation.before else ""
        effects = take_over(core, now, self._tree.ledger.limits, partial(self._inputs.used, live), warnings, place)
        if not core.called_off:
            self._tree.take(live, effects)
            live.outbox += [Check(turn=turn) for turn in core.gated]
        self.calling_off.make_up(live)

    def _reopened(self, live: DrivenRun, records: Sequence[Record], now: float) -> RunReopened | None:
        """The record by which *live*, with *records*, is reopened; None: it is not.

        Raises:
            RunIsOwned: If another owner went on with the root meanwhile.
        """
        if live.parent is not None:
            parent, start = live.parent
            above = parent.core.turns.get(start.ask.turn)
            return reopened_below(above, records, now) if above is not None and not live.core.called_off else None
        reopened = self._root.reopened
        if reopened is not None and reopened.seq != records[-1].seq + 1:
            raise RunIsOwned(live.run)
        return reopened

    def _first_record(self, live: DrivenRun, given: dict[str, Any]) -> RunStarted:
        child, engine = live.parent is not None, live.core.engine
        own_plan = live.parent is None or live.parent[0].kind.keeps_child_plans
        return RunStarted(
            run=live.run,
            engine=engine.name,
            engine_version=engine.version,
            topology=live.plan.name,
            plan_hash=live.plan.content_hash() if own_plan else "",
            plan=to_json(live.plan).decode() if own_plan else "",
            input=self._tree.secrets.hide_in(given),
            parent=live.parent[0].run if live.parent else "",
            cwd="" if child or self._tree.ports.cwd is None else str(self._tree.ports.cwd),
            snapshots=not child and self._tree.ports.workspace.saves,
            begun_by=() if child else self._root.begun_by,
            project="" if child else self._root.place[0],
            home="" if child else self._root.place[1],
        )


class _Duties(CoreDuties):
    """What this owner does for the core of one run."""

    def __init__(self, tree: RunTree, calling_off: CallingOff, run: str, writer: Writer) -> None:
        self._tree, self._calling_off, self._run, self._writer = tree, calling_off, run, writer

    @property
    def _live(self) -> DrivenRun:
        return self._tree.runs[self._run]

    def append(self, record: Record) -> None:
        """Append *record* to the journal."""
        self._writer.append((record,))
        if self._tree.is_watched:
            self._tree.appended(self._run, record)

    def render(self, core: Fold, turn: Turn) -> str:
        """The prompt without secrets."""
        prompt, secrets = render(core, turn), self._tree.secrets
        return secrets.hide(prompt) if secrets.values else prompt

    def outside(self, core: Fold, turn: Turn) -> tuple[str, ...]:
        """As the kind says, and how far an interrupted attempt came."""
        return outside(core, turn)

    def call_off(self, turn: Turn) -> Usage:
        """Call the child run off, and those below it."""
        return self._calling_off.call_off(self._live, turn.ask, turn.attempt)

    def is_ending(self) -> bool:
        """Whether a child run that was called off is still driven."""
        return any(child.core.called_off for child in self._live.children.values())

    def closes(self) -> bool:
        """Whether there are finalizers to run; only a root run has them."""
        return self._live.parent is None and self._tree.ports.finalizers.closes(self._live.plan)

    def reserve(self, core: Fold, ask: Ask) -> float:
        """As the ledger of the tree says."""
        return self._tree.ledger.reserve(core, ask)

    def can_resume(self, core: Fold, agent: str) -> bool:
        """As the backend of the agent says."""
        return self._tree.ports.turns.abilities(core.agents.get(agent) or AgentPlan(name=agent)).resume


def _launched(core: Core) -> list[AttemptLaunched]:
    """The processes of *core* that may not have been ended: those of turns without an answer."""
    return [one for turn in core.turns.values() if turn.result is None for one in turn.launched]
