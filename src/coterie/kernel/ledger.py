"""One ledger for a root run and all its child runs: what was spent, what is reserved, and what that still allows.

Of a budget, an estimate is reserved for each attempt before it starts, and settled when it has ended. An attempt whose
estimate exceeds what is left waits until no other has a reservation; then what is left is reserved for it.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite

from msgspec.structs import asdict

from coterie.backends.base import Abilities
from coterie.backends.prices import estimated_cost
from coterie.engines.commands import Ask
from coterie.journal.records import NO_USAGE, Usage
from coterie.kernel.core import Core
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.fold import Fold
from coterie.planning.plan import AgentPlan, Limits
from coterie.views.words import dollars

_RESTATED = 0.9
"""A backend's estimate may be corrected by the agent's own total to this share of it; otherwise costs only rise."""
_MOST_TIMES = 100


class Ledger:
    """What the runs of one tree have spent together, held against the owner's limits.

    A child run's spending is its own while it lives, and its parent's once the parent has its result or calls it off.

    Args:
        runs: The runs that are driven, by id; looked at anew each time.
        abilities: What the backend of an agent can do.

    Attributes:
        limits: Those of the owner.
        costs: The cost of each agent's most expensive attempt in these runs, in US dollars, if one has ended.
    """

    def __init__(
        self, limits: Limits, runs: Mapping[str, DrivenRun], abilities: Callable[[AgentPlan], Abilities]
    ) -> None:
        self.limits, self._runs, self._abilities = limits, runs, abilities
        self.costs: dict[str, float] = {}

    def spent(self) -> Usage:
        """What the tree has used so far."""
        return sum((live.core.spent for live in self._counted()), NO_USAGE)

    @property
    def busy(self) -> int:
        """How many turns run here now and take a slot."""
        busy = 0
        for live in self._runs.values():
            busy += live.core.busy
        return busy

    def admits(self, core: Core, ask: Ask, again: bool) -> bool:
        """Whether the turn of *ask* may start in *core* now; *again*: it is a further attempt, and no new turn."""
        limits = self.limits
        if limits.max_parallel is not None and core.takes_a_slot(ask.agent) and self.busy >= limits.max_parallel:
            return False
        if limits.max_cost is not None and not self._affords(limits.max_cost, core, ask):
            return False
        if again or limits.max_turns is None or core.kind(ask.agent) == "topology":
            return True
        return self.spent().turns + sum(len(live.core.reserved) for live in self._runs.values()) < limits.max_turns

    def reached(self) -> str:
        """The limit that keeps queued turns from starting, `max_turns` or `max_cost`; empty if none does."""
        if not any(live.core.queued for live in self._runs.values()):
            return ""
        if self.limits.max_turns is not None and self.spent().turns >= self.limits.max_turns:
            return "max_turns"
        return "max_cost" if self.limits.max_cost is not None and self._is_used_up(self.limits.max_cost) else ""

    # -- the budget ---------------------------------------------------------------------------------------------------

    def reserve(self, fold: Fold, ask: Ask) -> float:
        """The dollars to reserve for an attempt of *ask* that may start: its estimate, or else what is left."""
        most = self.limits.max_cost
        return 0.0 if most is None else max(min(self._estimate(fold, ask), most - self._committed()), 0.0)

    def overspends(self, live: DrivenRun, turn: str) -> bool:
        """Whether the running attempt of *turn* has reported more than is reserved for it, and the budget is passed."""
        most, reserved = self.limits.max_cost, live.core.reservations.get(turn, 0.0)
        return most is not None and live.used(turn).cost > reserved and self._committed() > most

    def _affords(self, most: float, core: Core, ask: Ask) -> bool:
        if self._is_used_up(most):
            return False
        return not self._pending() or self._committed() + self._estimate(core, ask) <= most

    def _is_used_up(self, most: float) -> bool:
        """Whether nothing of the budget is left, or an attempt had to be cut off for it."""
        return self._settled() >= most or any(live.overspent for live in self._runs.values())

    def _committed(self) -> float:
        return self._settled() + self._pending()

    def _settled(self) -> float:
        spent = self.spent()
        return spent.cost + spent.unsettled

    def _pending(self) -> float:
        """What running attempts may still cost: their reservations, or what they have reported if that is more."""
        pending = 0.0
        for live in self._counted():
            core = live.core
            pending += sum(turn.reserved for turn in core.reserved.values())
            for turn in {*core.reservations, *core.gated, *live.reported}:
                pending += max(core.reservations.get(turn, 0.0), live.used(turn).cost)
        return pending

    def _counted(self) -> Iterator[DrivenRun]:
        return (live for live in self._runs.values() if not live.core.called_off)

    def _estimate(self, fold: Fold, ask: Ask) -> float:
        """What an attempt may cost: its agent's most expensive one, else by the prices of its model, if it has any."""
        agent = fold.agents.get(ask.agent)
        if agent is None or agent.kind != "agent" or not self._abilities(agent).cost:
            return 0.0
        known = self.costs.get(ask.agent)
        return estimated_cost(agent, _characters(fold, agent, ask)) if known is None else known


def misreport(usage: Usage, earlier: Usage, reserved: float) -> str:
    """Why *usage* cannot be that of an attempt which has reported *earlier*; empty if it can.

    Args:
        reserved: The dollars that are reserved for the attempt; 0: none.
    """
    amounts = [value for value in asdict(usage).values() if isinstance(value, int | float)]
    if not all(map(isfinite, amounts)):
        return "an amount is not finite"
    if min(amounts) < 0:
        return "an amount is negative"
    if usage.cost < earlier.cost * _RESTATED:
        return f"its cost fell from {dollars(earlier.cost)} to {dollars(usage.cost)}"
    if 0 < reserved * _MOST_TIMES < usage.cost:
        reservation = f"the {dollars(reserved)} reserved for it"
        return f"its cost of {dollars(usage.cost)} is more than {_MOST_TIMES} times {reservation}"
    return ""


def _characters(fold: Fold, agent: AgentPlan, ask: Ask) -> int:
    """About how long the prompt of *ask* is."""
    texts = [agent.prompt, agent.role, ask.prompt or "", *(text for _, text in ask.history)]
    texts += [str(value) for value in (fold.started.input if fold.started else {}).values()]
    results = (fold.turns[name].result for name in ask.inputs if name in fold.turns)
    return sum(map(len, texts)) + sum(len(result.text) for result in results if result is not None)
