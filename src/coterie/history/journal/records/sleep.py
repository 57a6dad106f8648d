"""Records of sleeps, in which a program waits for a time."""

from coterie.history.journal.records.base import Record


class SleepStarted(Record, frozen=True, kw_only=True, tag="sleep.started", gc=False):
    """A program waits until the time *until*, in Unix seconds. A run that only sleeps is parked until then."""

    sleep: str
    until: float


class SleepEnded(Record, frozen=True, kw_only=True, tag="sleep.ended", gc=False):
    """A sleep has ended; *early*: before its time, since another answer came first."""

    sleep: str
    early: bool = False
