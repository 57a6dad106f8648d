"""One ledger for a root run and all its child runs: what was spent, and what that still allows."""

from collections.abc import Mapping

from coterie.journal.records import NO_USAGE, Usage
from coterie.planning.plan import Limits
from coterie.runs.driver.core import Core
from coterie.runs.driver.driven_run import DrivenRun


class Ledger:
    """What the runs of one tree have spent together, held against the owner's limits.

    A child run's spending is its own while it lives, and its parent's once the parent has its result or calls it off.

    Args:
        runs: The runs that are driven, by id; looked at anew each time.
    """

    def __init__(self, limits: Limits, runs: Mapping[str, DrivenRun]) -> None:
        self._limits, self._runs = limits, runs

    def spent(self) -> Usage:
        """What the tree has used so far."""
        return sum((live.core.spent for live in self._runs.values() if not live.core.called_off), NO_USAGE)

    @property
    def busy(self) -> int:
        """How many turns run here now and take a slot."""
        busy = 0
        for live in self._runs.values():
            busy += live.core.busy
        return busy

    def admits(self, core: Core, agent: str, again: bool) -> bool:
        """Whether a turn of *agent* may start in *core* now; *again*: it is a further attempt, and no new turn."""
        limits = self._limits
        if limits.max_parallel is not None and core.takes_a_slot(agent) and self.busy >= limits.max_parallel:
            return False
        if limits.max_turns is None and limits.max_cost is None:
            return True
        spent = self.spent()
        if limits.max_cost is not None and spent.cost >= limits.max_cost:
            return False
        if again or limits.max_turns is None or core.kind(agent) == "topology":
            return True
        return spent.turns + sum(len(live.core.reserved) for live in self._runs.values()) < limits.max_turns

    def reached(self) -> str:
        """The limit that keeps queued turns from starting, `max_turns` or `max_cost`; empty if none does."""
        if not any(live.core.queued for live in self._runs.values()):
            return ""
        spent = self.spent()
        if self._limits.max_turns is not None and spent.turns >= self._limits.max_turns:
            return "max_turns"
        if self._limits.max_cost is not None and spent.cost >= self._limits.max_cost:
            return "max_cost"
        return ""
