"""The time that a run was owned, without the time between owners and the sleep of the machine."""

from msgspec import Struct

from coterie.history.journal.records import (
    WAITING,
    JournalRepaired,
    PlanReloaded,
    Record,
    RunOwned,
    RunReopened,
    RunStopped,
    RunSuspended,
)

_TAKING_OVER = frozenset({JournalRepaired, PlanReloaded, RunOwned, RunReopened})
"""The first records of a new owner; the time before them does not count."""
_SPECIAL = _TAKING_OVER | {RunSuspended, RunStopped}
"""With all other records, time only passes."""


class OwnedTime(Struct):
    """Counts the seconds that a run was owned, up to the last record that was applied.

    Attributes:
        seconds: What it has come to; *at* is the time of the last record, None before the first.
        waited: The time without an owner.
        limited: What counts for the time-out of a team, since its run began or was last reopened: the time with an
            owner, and the time for which the run was parked for a person. That counts from the next stop on: an answer
            that was given meanwhile is taken first.
        parked: The time for which it was parked and that does not count yet.
        is_parked: Whether the last record parked it.
    """

    seconds: float = 0.0
    waited: float = 0.0
    limited: float = 0.0
    parked: float = 0.0
    is_parked: bool = False
    at: float | None = None

    def apply(self, record: Record) -> None:
        """Add the time up to *record*, unless a new owner begins with it."""
        passed = record.at - self.at if self.at is not None else 0.0
        if passed < 0:
            return  # an engine takes it in after the run was reopened
        was_parked, self.at, self.is_parked = self.is_parked, record.at, False
        if type(record) not in _SPECIAL:
            self.seconds += passed
            self.limited += passed
            return
        if type(record) is RunSuspended:
            passed = max(passed - record.seconds, 0.0)
        if type(record) not in _TAKING_OVER:
            self.seconds += passed
            self.limited += passed
        else:
            self.waited += passed
            self.parked += passed if was_parked else 0.0
        if type(record) is RunStopped:
            self.limited, self.parked, self.is_parked = self.limited + self.parked, 0.0, record.reason == WAITING
        elif type(record) is RunReopened:
            self.limited, self.parked = 0.0, 0.0

    def until(self, now: float) -> float:
        """The total at *now*, if the run is owned until then."""
        return self.seconds + (max(0.0, now - self.at) if self.at is not None else 0.0)
