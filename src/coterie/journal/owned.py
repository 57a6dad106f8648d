"""How long a run has been owned: time without an owner does not count."""

from coterie.journal.records import JournalRepaired, PlanReloaded, Record, RunOwned, RunReopened
from coterie.values import dataclass

_TAKING_OVER = frozenset({JournalRepaired, PlanReloaded, RunOwned, RunReopened})
"""The first records of a new owner: the time before them had no owner."""


@dataclass(slots=True)
class OwnedTime:
    """Counts the seconds that a run was owned, up to the last record that was applied.

    Attributes:
        seconds: What it has come to; *at* is the time of the last record, None before the first.
        waited: The time without an owner.
    """

    seconds: float = 0.0
    waited: float = 0.0
    at: float | None = None

    def apply(self, record: Record) -> None:
        """Let the time up to *record* count, unless it is one that a new owner begins with."""
        if self.at is not None and record.at < self.at:
            return  # an engine takes it in after the run was reopened
        if self.at is not None:
            if type(record) not in _TAKING_OVER:
                self.seconds += record.at - self.at
            else:
                self.waited += record.at - self.at
        self.at = record.at

    def until(self, now: float) -> float:
        """What it will have come to at *now*, if the run is owned until then."""
        return self.seconds + (max(0.0, now - self.at) if self.at is not None else 0.0)
