"""One run of a tree of runs: its view, its plan, its limits, and what its turns waited for."""

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from coterie.journal import records as r
from coterie.planning.plan import Limits, Plan
from coterie.views.plan import PlanView
from coterie.views.run import RunView, TurnView


class Owner(Struct, frozen=True, kw_only=True):
    """A process took the run over."""

    epoch: int
    at: float


class Halt(Struct, frozen=True, kw_only=True):
    """The run stopped or ended."""

    at: float
    reason: str


class Wait(Struct, kw_only=True):
    """A turn waited: for a `person`, for a `quota` to open, or for its next attempt (`retry`); *end* None: it does."""

    begin: float
    why: str
    end: float | None = None


class KnownRun:
    """One run of the tree; feed it the run's records in order.

    Attributes:
        place: Which team it is; see `coterie.views.team.teams`.
        limits: Those that its owner holds it to.
        spent: What it and its child runs used, by the attempts that did.
        turns: Turns of agents in it and its child runs that began, and *done* those that ended.
        waits: Of each turn, what it waited for.
        children: The child runs of each turn.
        teams: The turns that are child runs: their agents count, they do not.
    """

    def __init__(self, id: str, above: "KnownRun | None" = None, place: str = "", plan: Plan | None = None) -> None:
        self.id, self.above, self.place = id, above, place
        self.view, self.plan = RunView(), PlanView(plan)
        self.limits = Limits()
        self.spent = r.NO_USAGE
        self.turns = self.done = 0
        self.owners: list[Owner] = []
        self.halts: list[Halt] = []
        self.warnings: list[str] = []
        self.waits: dict[str, list[Wait]] = defaultdict(list)
        self.children: dict[str, list[KnownRun]] = defaultdict(list)
        self.teams: set[str] = set()

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
            case r.RunStopped(reason=reason) | r.RunFinished(outcome=reason):
                self.halts.append(Halt(at=record.at, reason=reason))
        if (turn := getattr(record, "turn", "")) and self.view.turn(turn) is not None:
            self._follow_waits(turn, record)

    def state_of(self, turn: str) -> str:
        """The state of *turn*; one that waits, as for a person, is waiting. `pending`: it did not begin."""
        found, waits = self.view.turn(turn), self.waits.get(turn)
        if found is None:
            return "pending"
        return "waiting" if found.finished is None and waits and waits[-1].end is None else found.state

    def open_turns(self) -> list[TurnView]:
        """The turns at which an agent works now: not those that wait, and not those that are child runs."""
        found = [self.view.turn(id) for node in self.plan.nodes.values() for id in node.open if id not in self.teams]
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
            waits.append(Wait(begin=record.at, why=why))
