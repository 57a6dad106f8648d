"""One run of a tree of runs: its view, its plan, its limits, and what its turns waited for."""

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from coterie.journal import records as r
from coterie.planning.plan import Limits, Plan
from coterie.views.plan import NodeState, PlanView
from coterie.views.run import RunView, TurnView


class Owner(Struct, frozen=True, kw_only=True):
    """A process took the run over."""

    epoch: int
    at: float


class RunHalt(Struct, frozen=True, kw_only=True):
    """The run stopped or ended."""

    at: float
    reason: str


class TurnWait(Struct, kw_only=True):
    """A turn waited: for a `person`, for a `quota` to open, or for its next attempt (`retry`); *end* None: it does."""

    begin: float
    why: str
    end: float | None = None


class KnownRun:
    """One run of the tree; feed it the run's records in order.

    Attributes:
        place: Which team it is; see `coterie.views.team.teams`.
        limits: Those that its owner holds it to.
        waits: Of each turn, what it waited for.
        children: The child runs of each turn, by attempt.
    """

    def __init__(self, id: str, above: "KnownRun | None" = None, place: str = "", plan: Plan | None = None) -> None:
        self.id, self.above, self.place = id, above, place
        self.view, self.plan = RunView(keeps_notes=False), PlanView(plan)
        self.limits = Limits()
        self.owners: list[Owner] = []
        self.halts: list[RunHalt] = []
        self.warnings: list[str] = []
        self.waits: dict[str, list[TurnWait]] = defaultdict(list)
        self.children: dict[str, list[KnownRun]] = defaultdict(list)

    def line(self) -> "Iterator[KnownRun]":
        """It, and the runs above it."""
        at: KnownRun | None = self
        while at is not None:
            yield at
            at = at.above

    def apply(self, record: r.Record) -> None:
        """Take the next record in."""
        self.view.apply(record)
        self.plan.apply(record)
        match record:
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
        """The state of *turn*; one that waits, as for a person, is waiting, and so is one whose team does.

        `pending`: it did not begin.
        """
        found, waits, below = self.view.turn(turn), self.waits.get(turn), self.children.get(turn)
        if found is None:
            return "pending"
        if found.finished is not None or found.state != "running":
            return found.state
        waits_below = below and below[-1].id.endswith(f".{found.attempt}") and below[-1].is_waiting
        return "waiting" if waits_below or (waits and waits[-1].end is None) else found.state

    @property
    def is_waiting(self) -> bool:
        """Whether nothing works in it, though it has not ended."""
        if self.view.state != "running":
            return self.view.state in ("stopped", "waiting")
        open = [turn for node in self.plan.nodes.values() for turn in node.open]
        return bool(open) and all(self.state_of(turn) == "waiting" for turn in open)

    def agents(self) -> list[NodeState]:
        """The nodes at which agents work: of one that a team answers for, the turns in its child runs count instead."""
        teams = {*self.plan.teams, *map(self.plan.node_of, self.children)}
        return [node for name, node in self.plan.nodes.items() if name not in teams]

    def counts(self) -> tuple[int, int, float]:
        """How many turns of agents began, child runs included, how many of them ended, and what they cost."""
        below = [child.counts() for several in self.children.values() for child in several]
        own = [(node.starts, node.starts - len(node.open), node.cost) for node in self.agents()]
        turns, done, cost = zip((0, 0, 0.0), *own, *below, strict=True)
        return sum(turns), sum(done), sum(cost)

    def working(self) -> list[TurnView]:
        """The turns at which an agent works now: not those that wait."""
        found = [self.view.turn(id) for node in self.agents() for id in node.open]
        return [turn for turn in found if turn is not None and self.state_of(turn.id) == "running"]

    def first_failed(self) -> "tuple[float, KnownRun, str] | None":
        """The time, run and id of the turn that failed first; None if none did, or all were tried again."""
        return min(self._failed(), key=lambda one: one[0], default=None)

    def _failed(self) -> "Iterator[tuple[float, KnownRun, str]]":
        """The turns that failed, with their times; of a turn that is a child run that failed the turns in it."""
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
