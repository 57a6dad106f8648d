"""The plan of a run with its progress: how often each node ran, and which arrows fired.

The picture itself, which records do not change, is in `coterie.history.views.team`; times and texts of turns are in
`coterie.history.views.run`.
"""

from collections.abc import Iterable
from contextlib import suppress

import msgspec
from msgspec import Struct

from coterie.history.engines.flow import FlowEngine
from coterie.history.journal import records as r
from coterie.history.views.team import TeamPicture, children_of, team
from coterie.history.views.words import shortened
from coterie.team.planning.plan import Plan, from_json
from coterie.team.topology.events import matches

_ENDS = (r.TurnFinished, r.TurnFailed, r.TurnCancelled)
_ASKED = (r.RunStarted, r.RunOwned, r.SetStarted, r.SetEnded, *_ENDS)
"""The records on which the engine of a flow bases its decisions."""
_TROUBLE = (LookupError, TypeError, ValueError, AttributeError)


class LastEvent(Struct, frozen=True, kw_only=True):
    """The last event that routed a loop: *source*, in *turn*, handed over to *target*."""

    event: str
    source: str
    target: str
    turn: str
    at: float


class NodeState(Struct):
    """The progress at one node.

    Attributes:
        starts: How many turns began here; *finished* and *failed* count their ends.
        turn: The latest turn; *open* has those that have not ended, *lost* those that failed.
        items: How many items its sets have; *due* those of each open set that have not begun.
        over: Whether its last set has ended with a result.
    """

    starts: int = 0
    finished: int = 0
    failed: int = 0
    cost: float = 0.0
    turn: str = ""
    open: set[str] = set()
    lost: set[str] = set()
    items: int = 0
    due: dict[str, set[int]] = {}
    over: bool = False

    @property
    def left(self) -> int:
        """The items that have not begun."""
        return sum(map(len, self.due.values()))


class ArrowState(Struct):
    """How often an arrow fired.

    Attributes:
        turn: The turn whose end last fired it, or would have fired it.
        spent: Whether its `max` kept it from firing at the last verdict.
        forced: Whether it last fired because all others had reached their `max`.
    """

    fired: int = 0
    turn: str = ""
    at: float = 0.0
    spent: bool = False
    forced: bool = False


class PlanView:
    """Shows one run on its plan; feed it the run's records in order.

    Args:
        plan: Its plan, if its own records have none, as those of most child runs.

    Attributes:
        teams: The plans of the teams at its nodes.
        team: The picture; None without a plan.
        nodes: All nodes of the team by name, from the start.
        arrows: The arrows that fired or reached their `max`, by index.
        stages: The turns that began together, in order; only for a pattern.
        last_event: The last event of a loop.
        changed: The names of nodes, and the indices of arrows and (as `-1 - n`) of stages that changed; the reader
            clears it.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan: Plan | None = None
        self.teams: dict[str, Plan] = {}
        self.team: TeamPicture | None = None
        self.nodes: dict[str, NodeState] = {}
        self.arrows: dict[int, ArrowState] = {}
        self.stages: list[list[str]] = []
        self.last_event: LastEvent | None = None
        self.changed: dict[str | int, None] = {}
        self._inherited = plan
        self._node_of: dict[str, str] = {}
        self._node_of_set: dict[str, str] = {}
        self._roles: list[str] = []
        self._stage_at: dict[int, int] = {}
        """The stage of the turn that ended with a record, by the record's number, and of the turns it requested."""
        self._stage_of: dict[str, int] = {}
        self._engine: FlowEngine | None = None
        self._heard: list[r.Record] = []

    @property
    def iteration(self) -> int:
        """The last iteration of a loop that began; 0 for other kinds."""
        return len(self._roles)

    def node_of(self, turn: str) -> str:
        """The node at which *turn* began; empty if it did not begin."""
        return self._node_of.get(turn, "")

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        match record:
            case r.RunStarted(plan=text) | r.ConfigChanged(plan=text) | r.PlanReloaded(plan=text):
                self._read(text, again=isinstance(record, r.PlanReloaded))
        if self._engine is not None and isinstance(record, _ASKED):
            heard = _heard(record)
            self._heard.append(heard)
            self._step(heard)
        match record:
            case r.RunReopened():
                self._reopen(record)
            case r.IterationStarted():
                self._iterate(record)
            case r.SetStarted(node=name):
                node = self.nodes.setdefault(name, NodeState())
                node.items += record.items
                node.due[record.set] = set(range(1, record.items + 1))
                node.over, self.changed[name] = False, None
                self._node_of_set[record.set] = name
            case r.SetEnded() if record.set in self._node_of_set:
                name = self._node_of_set[record.set]
                self.nodes[name].due.pop(record.set, None)
                self.nodes[name].over, self.changed[name] = record.done > 0, None
            case r.TurnStarted():
                self._start(record)
            case r.AttemptFailed() | r.AttemptInterrupted():
                self._count(record.turn, record.usage)
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self._end(record)

    def _read(self, text: str, *, again: bool) -> None:
        """Use the plan *text*; if it was read *again*, it agrees with all earlier decisions."""
        plan = self._inherited if not text else None
        with suppress(ValueError):
            plan = from_json(text) if text else plan
        if plan is None:
            return
        self.plan, self.teams = plan, children_of(plan)
        with suppress(*_TROUBLE):  # a pattern whose module is not installed
            self.team = team(plan)
        for box in self.team.boxes if self.team is not None else ():
            self.nodes.setdefault(box.name, NodeState())
            self.changed[box.name] = None
        if plan.flow is not None:
            self._engine = FlowEngine(plan.flow, plan.agents)
            if again:
                self._step_again()

    def _step_again(self) -> None:
        """Start the flow's engine anew and repeat all its decisions."""
        for index in self.arrows:
            self.arrows[index], self.changed[index] = ArrowState(), None
        for record in self._heard:
            self._step(record)

    def _reopen(self, record: r.RunReopened) -> None:
        """Void the failure that ended the run and its consequences; the turns are open again."""
        asked = record.asked
        for turn in (turn for turn in asked if turn in self._node_of):
            node = self.nodes[self._node_of[turn]]
            node.open.add(turn)
            node.failed -= turn in node.lost
            node.lost.discard(turn)
            node.cost -= record.reported.get(turn, r.NO_USAGE).cost
            self.changed[self._node_of[turn]] = None
        self._heard = [one for one in self._heard if one.seq < record.since or getattr(one, "turn", "") not in asked]
        if self._engine is not None and self.plan is not None and self.plan.flow is not None:
            self._engine = FlowEngine(self.plan.flow, self.plan.agents)
            self._step_again()

    def _step(self, record: r.Record) -> None:
        """Step the flow's engine, and note which arrows fire."""
        if self._engine is None:
            return
        try:
            self._engine.step(record)
        except _TROUBLE:  # the present engine disagrees with the journal: leave the arrows unchanged
            self._engine = None
            return
        decided = self._engine.decision
        if decided is None or self.team is None:
            return
        for arrow in self.team.arrows:
            if arrow.group in decided.fired_at or arrow.group in decided.exhausted_at:
                fired = arrow.group in decided.fired_at
                self._fire(arrow.index, decided.turn, record.at, fired, forced=fired and decided.forced is not None)

    def _fire(self, index: int, turn: str, at: float, fired: bool = True, *, forced: bool = False) -> None:
        state = self.arrows.setdefault(index, ArrowState())
        state.fired += fired
        state.turn, state.at, state.spent, state.forced = turn, at, not fired, forced
        self.changed[index] = None

    def _fire_between(self, sources: Iterable[str], target: str, turn: str, at: float, event: str = "") -> None:
        for arrow in self.team.arrows if self.team is not None else ():
            if arrow.target == target and arrow.source in sources and (not event or matches(arrow.event, event)):
                self._fire(arrow.index, turn, at)

    def _iterate(self, record: r.IterationStarted) -> None:
        source, turn = (self._roles[-1], f"iteration#{len(self._roles)}") if self._roles else ("", "")
        self._fire_between([source], record.role, turn, record.at, record.event)
        self.last_event = LastEvent(event=record.event, source=source, target=record.role, turn=turn, at=record.at)
        self._roles.append(record.role)

    def _start(self, record: r.TurnStarted) -> None:
        if record.turn not in self._node_of:
            self._node_of[record.turn] = name = self._name(record)
            node = self.nodes.setdefault(name, NodeState())
            node.starts += 1
            node.turn = record.turn
            if record.item is not None and record.set in self._node_of_set:
                self.nodes[self._node_of_set[record.set]].due.get(record.set, set()).discard(record.item[0])
            if self.team is not None and self.team.kind == "pattern" and record.cause is not None:
                self._join_stage(record, name, record.cause[0])
        name = self._node_of[record.turn]
        node = self.nodes[name]
        node.open.add(record.turn)
        self.changed[name] = None

    def _name(self, record: r.TurnStarted) -> str:
        """The node at which *record* begins a turn: the role in a loop, for a fallback the node that it replaces."""
        if self._roles and record.turn == f"iteration#{len(self._roles)}":
            return self._roles[-1] or record.agent
        return (self._engine.node_of(record.turn) if self._engine is not None else "") or record.agent

    def _join_stage(self, record: r.TurnStarted, name: str, cause: int) -> None:
        """Add a turn to those caused by the same record; their stage follows that of the turn that ended with it."""
        before = self._stage_at.get(cause)
        if before is not None:
            turns = self.stages[before]
            self._fire_between({self._node_of[turn] for turn in turns}, name, turns[-1], record.at)
        begun = -1 - cause
        if begun not in self._stage_at:
            self._stage_at[begun] = len(self.stages)
            self.stages.append([])
        n = self._stage_at[begun]
        self._stage_of[record.turn] = n
        self.stages[n].append(record.turn)
        self.changed[-1 - n] = None

    def _count(self, turn: str, usage: r.Usage) -> None:
        if (name := self._node_of.get(turn)) is not None:
            self.nodes[name].cost += usage.cost
            self.changed[name] = None

    def _end(self, record: r.TurnFinished | r.TurnFailed | r.TurnCancelled) -> None:
        name = self._node_of.get(record.turn)
        if name is None:
            return
        if record.turn in self._stage_of:
            self._stage_at[record.seq] = self._stage_of[record.turn]
        node = self.nodes[name]
        node.open.discard(record.turn)
        node.finished += isinstance(record, r.TurnFinished)
        if isinstance(record, r.TurnFailed):
            node.failed += 1
            node.lost.add(record.turn)
        else:
            node.cost += record.usage.cost
        self.changed[name] = None


def _heard(record: r.Record) -> r.Record:
    """*record* without the long texts on which no arrow depends."""
    match record:
        case r.RunStarted():
            return msgspec.structs.replace(record, input=shortened(record.input), plan="", values=None)
        case r.TurnFinished():
            return msgspec.structs.replace(record, text="")
    return record
