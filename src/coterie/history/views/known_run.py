"""One run of a tree of runs: its view, its plan, its limits, and the waits of its turns."""

from collections import defaultdict
from collections.abc import Container, Iterator
from typing import NamedTuple

from msgspec import Struct

from coterie.history.journal import records as r
from coterie.history.views.plan import NodeState, PlanView
from coterie.history.views.run import RunView, TurnView
from coterie.team.planning.plan import Limits, Plan

CUT_OFF = "cut off"
"""The state of a run without an owner that has neither stopped nor ended, and of what was at work in it."""


class Owner(Struct, frozen=True, kw_only=True):
    """A process took the run over."""

    epoch: int
    at: float


class RunHalt(Struct, frozen=True, kw_only=True):
    """The run stopped or ended."""

    at: float
    reason: str


class TurnWait(Struct, kw_only=True):
    """A wait of a turn: for a `person`, a `quota`, or its next attempt (`retry`); *end* is None while it waits."""

    begin: float
    why: str
    end: float | None = None


class RunCounts(NamedTuple):
    """Turns of agents that began, *done* have ended and *failed* failed; *left*: see `RunRow`."""

    turns: int = 0
    done: int = 0
    failed: int = 0
    left: int = 0
    cost: float = 0.0


class KnownRun:
    """One run of the tree; feed it the run's records in order.

    Attributes:
        place: The place of its team; see `coterie.history.views.team.teams`.
        limits: The limits set by its owner.
        waits: The waits of each turn.
        children: The child runs of each turn, by attempt.
        is_owned: Of a root run, whether a process drives it; the records do not tell.
        thread: The thread whose message it is.
    """

    def __init__(
        self,
        id: str,
        above: "KnownRun | None" = None,
        place: str = "",
        plan: Plan | None = None,
        answers: Container[str] | None = (),
    ) -> None:
        self.id, self.above, self.place = id, above, place
        self.view, self.plan = RunView(keeps_notes=False, answers=answers), PlanView(plan)
        self.limits = Limits()
        self.owners: list[Owner] = []
        self.halts: list[RunHalt] = []
        self.warnings: list[str] = []
        self.waits: dict[str, list[TurnWait]] = defaultdict(list)
        self.children: dict[str, list[KnownRun]] = defaultdict(list)
        self.is_owned = True
        self.thread = ""

    def line(self) -> "Iterator[KnownRun]":
        """This run, then the runs above it."""
        at: KnownRun | None = self
        while at is not None:
            yield at
            at = at.above

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        self.view.apply(record)
        self.plan.apply(record)
        match record:
            case r.RunStarted(thread=r.ThreadStart(name=thread)):
                self.thread = thread
            case r.RunOwned():
                self.limits = record.limits.after(self.limits)
                self.owners.append(Owner(epoch=record.epoch, at=record.at))
                self.warnings += record.warnings
            case r.RunReopened():
                for turn in set(record.asked) & {turn.id for turn in self.view.turns if turn.state == "waiting"}:
                    self.waits[turn].append(TurnWait(begin=record.at, why="retry"))
            case r.RunStopped(reason=reason) | r.RunFinished(outcome=reason):
                self.halts.append(RunHalt(at=record.at, reason=reason))
        if (turn := getattr(record, "turn", "")) and self.view.turn(turn) is not None:
            self._follow_waits(turn, record)

    def state_of(self, turn: str) -> str:
        """The state of *turn*: `waiting` also if it or its team waits for a person, `pending` if it did not begin."""
        found, waits, below = self.view.turn(turn), self.waits.get(turn), self.children.get(turn)
        if found is None:
            return "pending"
        if found.finished is not None or found.state != "running":
            return found.state
        if self.is_cut_off:
            return CUT_OFF
        waits_below = below and below[-1].id.endswith(f".{found.attempt}") and below[-1].is_waiting
        return "waiting" if waits_below or (waits and waits[-1].end is None) else found.state

    @property
    def is_cut_off(self) -> bool:
        """Whether the process that drove its root run is gone without a word, so that nothing in it works."""
        *_, root = self.line()
        return not root.is_owned and root.view.state == "running"

    @property
    def is_waiting(self) -> bool:
        """Whether nothing in it works although it has not ended."""
        if self.view.state != "running":
            return self.view.state in ("stopped", "waiting")
        open = [turn for node in self.plan.nodes.values() for turn in node.open]
        return bool(open) and all(self.state_of(turn) == "waiting" for turn in open)

    def agents(self) -> list[NodeState]:
        """The nodes at which agents work; for a node with a team, the turns in its child runs count instead."""
        teams = {*self.plan.teams, *map(self.plan.node_of, self.children)}
        return [node for name, node in self.plan.nodes.items() if name not in teams]

    def counts(self) -> RunCounts:
        """The numbers of this run and its child runs."""
        parts = [child.counts() for several in self.children.values() for child in several]
        for node in self.agents():
            parts.append(RunCounts(node.starts, node.starts - len(node.open), node.failed, 0, node.cost))
        if (
            self.view.state != "completed"
            and self.plan.team is not None
            and self.plan.team.kind.startswith(("flow", "pattern"))
        ):
            nodes = [self.plan.nodes[box.name] for box in self.plan.team.boxes if box.stage >= 0]  # no fallbacks
            left = sum(node.left + (node.starts == 0 == node.items) for node in nodes)
            parts.append(RunCounts(left=left))
        return RunCounts(*map(sum, zip(RunCounts(), *parts, strict=True)))

    def working(self) -> list[TurnView]:
        """The turns at which an agent works now, without those that wait."""
        found = [self.view.turn(id) for node in self.agents() for id in node.open]
        return [turn for turn in found if turn is not None and self.state_of(turn.id) == "running"]

    def first_failed(self) -> "tuple[float, KnownRun, str] | None":
        """The time, run and id of the turn that failed first; None if none failed, or all were retried."""
        return min(self._failed(), key=lambda one: one[0], default=None)

    def _failed(self) -> "Iterator[tuple[float, KnownRun, str]]":
        """The failed turns with their times; a failed child run yields the failed turns inside it."""
        for turn in self.view.turns:
            if turn.state == "failed":
                inner = [one for child in self.children.get(turn.id, ())[-1:] for one in child._failed()]
                yield from inner or [(turn.finished or 0.0, self, turn.id)]

    def _follow_waits(self, turn: str, record: r.Record) -> None:
        why = ""
        match record:
            case r.TurnStarted(agent=agent):
                plan = self.plan.plan.agents.get(agent) if self.plan.plan is not None else None
                why = "person" if plan is not None and plan.kind == "human" else ""
            case r.AttentionAsked(kind="permission"):
                why = "person"
            case r.AttemptFailed():
                why = "quota" if record.until else "retry"
            case r.AttemptInterrupted():
                why = "person" if record.reason == r.PARKED else "retry"
            case r.AttentionAnswered() | r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                pass
            case _:
                return
        waits = self.waits[turn]
        if waits and waits[-1].end is None:
            waits[-1].end = record.at
        if why:
            waits.append(TurnWait(begin=record.at, why=why))
