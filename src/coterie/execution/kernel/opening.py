"""Open runs: begin a new one, or take one over from an earlier owner.

A takeover folds the journal, records which attempts were cut off, and leaves the others as they were;
`takeover_records` decides which. Nothing leaves before these records are durable.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from coterie.agents.backends.base import NO_TAIL, Tail
from coterie.base.ids import attempt_id
from coterie.errors import RunIsFinished, RunIsOwned
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.calling_off import CallingOff
from coterie.execution.kernel.commands import Start, Turn
from coterie.execution.kernel.core import Core, CoreDuties
from coterie.execution.kernel.driven_run import Check, DrivenRun
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.prompts import outside, render
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.takeover_records import take_over
from coterie.history.engines.commands import Ask
from coterie.history.journal.base import Writer
from coterie.history.journal.lines import rare
from coterie.history.journal.records import (
    NO_USAGE,
    AttemptFailed,
    AttemptLaunched,
    GivenValues,
    PlanReloaded,
    Record,
    RunFinished,
    RunReopened,
    RunStarted,
    ThreadStart,
    TurnCancelled,
    Usage,
)
from coterie.history.journal.relocation import Relocation
from coterie.team.planning.plan import AgentPlan, Limits, Plan, to_json


class RootOpening(msgspec.Struct, frozen=True, kw_only=True):
    """How an owner opens its root run.

    Attributes:
        warnings: Missing facilities of this machine that the run continues without; recorded with its ownership.
        begun_by: The attempts from within which a new run was begun.
        place: The `project` and `home` of a new run's `RunStarted`.
        relocation: The present location of the project of a run that is taken over; *is_copied*: the earlier attempts
            belong to the original run.
        is_reloaded: Whether it is taken over under another plan than that of its journal.
        reopened: The record that reopens it, if it has failed.
        thread: What a new run continues.
        take_waiting: Called with each run that is taken over, to accept messages that arrived before its owner died.
    """

    warnings: tuple[str, ...] = ()
    begun_by: tuple[str, ...] = ()
    place: tuple[str, str] = ("", "")
    relocation: Relocation = Relocation()
    is_copied: bool = False
    is_reloaded: bool = False
    reopened: RunReopened | None = None
    thread: ThreadStart | None = None
    take_waiting: Callable[[DrivenRun], object] = lambda live: None


class RunOpening:
    """Begins the runs of *tree* and takes them over.

    Attributes:
        calling_off: Ends child runs whose turns were cancelled.
    """

    def __init__(self, tree: RunTree, inputs: AttemptInputs) -> None:
        self._tree, self._inputs, self._clock = tree, inputs, tree.ports.clock
        self._root = RootOpening()
        self.calling_off = CallingOff(tree, partial(self._open, given=None, called_off=True))

    def open_root(self, run: str, plan: Plan, given: dict[str, Any] | None, opening: RootOpening) -> DrivenRun:
        """Claim the root *run* and begin or continue it; *given* is its input, or None if the run must exist."""
        self._root = opening
        self._tree.learn_secrets(plan)
        return self._open(run, plan, None, None, given)

    def open_child(self, run: str, plan: Plan, parent: DrivenRun, start: Start, given: dict[str, Any]) -> DrivenRun:
        """Claim *run*, the child run for the attempt *start* of *parent*, and begin or continue it."""
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
        core = Core(run, kind, duties := _Duties(tree, self.calling_off, writer))
        core.called_off, core.costs = called_off, tree.ledger.costs
        above = (parent, start) if parent is not None and start is not None else None
        live = DrivenRun(run, plan, kind, core, writer, tree.ports.files, above, tree.changed)
        tree.add(live)  # from here on its journal is closed, whatever happens
        duties.drive(live)
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
            core.begin(self._clock.now(), self._first_record(live, given), limits, warnings, self._clock.slept() or 0.0)
        tree.pump(live)
        return live

    def _take_over(self, live: DrivenRun, plan: Plan) -> None:
        core, now, is_root = live.core, self._clock.now(), live.parent is None
        records = self._tree.load(live.run)
        reopened = self._reopened(live, records, now)
        core.fold(records, reopened)
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
            live.plan = self._root.relocation.plan(live.kind.project.adopt(live.plan, core.plan))
        self._root.take_waiting(live)
        live.reap = [] if self._root.is_copied else _launched(core)
        warnings = self._root.warnings if is_root else ()
        if is_root:
            self._tree.ledger.limits = self._tree.ledger.limits.after(core.limits)
        place = self._root.relocation.project if is_root and self._root.relocation.before else ""
        slept, used = self._clock.slept() or 0.0, partial(self._inputs.used, live)
        effects = take_over(core, now, self._tree.ledger.limits, used, warnings, place, slept)
        if not core.called_off:
            self._tree.take(live, effects)
            live.send(*(Check(turn=turn) for turn in core.gated))
        self.calling_off.make_up(live)

    def _reopened(self, live: DrivenRun, records: Sequence[Record], now: float) -> RunReopened | None:
        """The record that reopens *live*, whose journal has *records*; None: it is not reopened.

        Raises:
            RunIsOwned: If another owner continued the root meanwhile.
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
        own_plan = live.parent is None or live.parent[0].kind.project.changes
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
            values=self._values(live),
            seed=live.run if live.kind.has_randomness else "",
            thread=None if child else self._root.thread,
        )

    def _values(self, live: DrivenRun) -> GivenValues | None:
        """What the turn that *live* answers for is given, if functions of *live* may read it."""
        if live.parent is None or not live.plan.has_functions:
            return None
        parent, start = live.parent
        data = parent.core.coordination.context(parent.core, parent.core.turns[start.ask.turn])
        given = data.get("given") or {"prompt": data["task"], "input": data["input"]}
        named = {name: value for name, value in given["input"].items() if name != "prompt"}
        answers = [*reversed(data["inputs"]), *data["reads"], *given.get("answers", ())]
        hidden = self._tree.secrets.hide_in({**given, "input": named, "answers": answers})
        return msgspec.convert(hidden, GivenValues)


class _Duties(CoreDuties):
    """The services of this owner to the core of one run."""

    _live: DrivenRun
    """The run, once it is driven."""
    outside = staticmethod(outside)

    def __init__(self, tree: RunTree, calling_off: CallingOff, writer: Writer) -> None:
        super().__init__(self._write)
        self._tree, self._calling_off, self._writer = tree, calling_off, writer
        self._observers, self._watchers = tree.observers, tree.watchers

    def drive(self, live: DrivenRun) -> None:
        """Serve *live* from now on."""
        self._live = live

    def _write(self, record: Record) -> None:
        """Append *record* to the journal, and show it to watchers at once; observers see it once it is durable."""
        self._writer.append((record,))
        self._tree.changed(self._live)
        if self._observers.observe or type(record) in self._observers.of:
            self._live.unseen.append(record)
        for watcher in self._watchers:
            watcher(self._live.run, record)

    def render(self, core: Fold, turn: Turn) -> tuple[str, Tail]:
        """The prompt and its end, without secrets."""
        (prompt, tail), secrets = render(core, turn), self._tree.secrets
        if secrets.values:
            prompt = secrets.hide(prompt)
            tail = secrets.hide_fields(tail, *tail.__struct_fields__) if tail is not NO_TAIL else tail
        return prompt, tail

    def hide(self, text: str) -> str:
        """*text* without the secrets of the tree."""
        secrets = self._tree.secrets
        return secrets.hide(text) if secrets.values else text

    def call_off(self, turn: Turn) -> Usage:
        """Call off the child run and the runs below it."""
        return self._calling_off.call_off(self._live, turn.ask, turn.attempt)

    def is_ending(self) -> bool:
        """Whether a child run that was called off is still driven."""
        return any(child.core.called_off for child in self._live.children.values())

    def closes(self) -> bool:
        """Whether there are finalizers to run; only a root run has them."""
        return self._live.parent is None and self._tree.ports.finalizers.closes(self._live.plan)

    def reserve(self, core: Fold, ask: Ask) -> float:
        """Ask the ledger of the tree."""
        return self._tree.ledger.reserve(core, ask)

    def can_resume(self, core: Fold, agent: str) -> bool:
        """Ask the backend of the agent."""
        return self._tree.ports.turns.abilities(core.agents.get(agent) or AgentPlan(name=agent)).resume


def _launched(core: Core) -> list[AttemptLaunched]:
    """The processes of *core* that may still run: those of turns without an answer."""
    return [one for turn in core.turns.values() if turn.result is None for one in turn.launched]


def reported(records: Sequence[Record], below: Iterable[str]) -> dict[str, Usage]:
    """The usage that *records* count for turns whose child runs are reopened, by turn.

    Args:
        below: The attempts whose child runs are reopened; attempts inside child runs are ignored.
    """
    found: dict[str, Usage] = {}
    attempts = {attempt.rpartition(".")[0]: attempt for attempt in below if "/" not in attempt}
    for record in records:
        match record:
            case RunReopened():
                found.clear()  # an earlier reopening has already subtracted it
            case AttemptFailed(turn=turn, attempt=n, usage=usage) if attempts.get(turn) == attempt_id(turn, n):
                found[turn] = usage
            case TurnCancelled(turn=turn, usage=usage) if turn in attempts:
                found[turn] = usage
    return {turn: usage for turn, usage in found.items() if usage != NO_USAGE}


def reopened_below(above: Turn, records: Sequence[Record], now: float) -> RunReopened | None:
    """The record that reopens the child run of the turn *above*, whose journal has *records*; None: it stays closed."""
    record, last = above.reopened, records[-1] if records else None
    key = attempt_id(above.ask.turn, above.attempt)
    if record is None or last is None or not record.below.get(key):
        return None
    if any(isinstance(one, RunReopened) and one.above == record.seq for one in rare(records)):
        return None
    start = f"{key}/"
    below = {name[len(start) :]: since for name, since in record.below.items() if name.startswith(start)}
    return RunReopened(
        seq=last.seq + 1,
        at=max(now, last.at),
        source=record.source,
        turns=tuple(name[len(start) :] for name in record.turns if name.startswith(start)),
        below=below,
        since=record.below[key],
        reported=reported(records, below),
        by=record.by,
        reason=last.reason if isinstance(last, RunFinished) else "",
        above=record.seq,
    )
