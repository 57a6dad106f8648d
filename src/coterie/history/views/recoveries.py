"""How often a run was taken over without getting further."""

from coterie.history.journal import records as r

MOST = 3
"""How often a run is recovered without getting further."""
_FURTHER = (r.TurnFinished, r.TurnFailed, r.TurnCancelled, r.AttemptFailed, r.EventEmitted, r.OperatorSaid)
"""Records by which a run gets further; those of being taken over, and of beginning again, are none."""


class Recoveries:
    """Counts the owners of a root run since it, or a child run of it, got further; feed it their records."""

    def __init__(self) -> None:
        self._owned: list[float] = []
        self._further = float("-inf")
        self._last: r.RunOwned | r.RunStopped | None = None

    def apply(self, run: str, record: r.Record) -> None:
        """Apply the next record of *run*; those of different runs come in any order."""
        if isinstance(record, _FURTHER):
            self._further = max(self._further, record.at)
        elif "/" in run:
            return
        elif isinstance(record, r.RunOwned):
            self._owned.append(record.at)
            self._last = record
        elif isinstance(record, r.RunStopped):
            self._last = record

    @property
    def were_enough(self) -> bool:
        """Whether it was cut off again after `MOST` recoveries: another one would end like them."""
        cut_off = not isinstance(self._last, r.RunStopped) or self._last.by == "process"
        return cut_off and sum(at > self._further for at in self._owned) > MOST
