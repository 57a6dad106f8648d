"""What every store holds to: which runs a claim covers, how records follow one another, when a journal is at rest."""

from collections.abc import Sequence

from coterie.errors import RunIsOwned
from coterie.journal.records import Record, RunFinished, RunStopped


def root_of(run: str) -> str:
    """The root run that *run* is, or is nested in."""
    return run.partition("/")[0]


class Claims:
    """Which runs of a store are claimed: to let go of one costs what lies below it, not a look at all."""

    def __init__(self) -> None:
        self._claimed: set[str] = set()
        self._below: dict[str, dict[str, None]] = {}
        """The runs right below each, claimed or only above one that is."""

    def add(self, run: str) -> None:
        """*run* is claimed."""
        self._claimed.add(run)
        while (parent := _parent_of(run)) and run not in (below := self._below.setdefault(parent, {})):
            below[run] = None
            run = parent

    def let_go(self, run: str) -> list[str]:
        """*run* is claimed no more, nor is what lies below it; the runs there that were."""
        self._claimed.discard(run)
        self._below.get(_parent_of(run), {}).pop(run, None)
        left, found = [run], list[str]()
        while left:
            below = self._below.pop(left.pop(), {})
            found += [name for name in below if name in self._claimed]
            left += below
        self._claimed.difference_update(found)
        return found


def check_claim(run: str, owned: bool, root_owned: bool) -> None:
    """Make sure that *run* may be claimed in a store that owns it or not, and its root or not.

    Raises:
        RunIsOwned: If it has an owner.
        ValueError: If it is a child whose root was not claimed here; a child is guarded by its root's claim.
    """
    if owned:
        raise RunIsOwned(run)
    if root_of(run) != run and not root_owned:
        raise ValueError(f"{run!r} is a child run: claim {root_of(run)!r} first, in the same store")


def check_next(last: int, records: Sequence[Record]) -> int:
    """Make sure that *records* continue a journal whose last seq is *last*, and return the new last seq.

    Raises:
        ValueError: If they do not: a defect of the caller, nothing was appended.
    """
    for record in records:
        if record.seq != last + 1:
            raise ValueError(f"record {last + 1} comes next, not {record.seq} ({record.__struct_config__.tag})")
        last = record.seq
    return last


def at_rest(last: Record | None, owned: bool) -> bool:
    """Whether nothing comes after *last* for now: the run has finished, or has stopped and has no owner."""
    return isinstance(last, RunFinished) or (isinstance(last, RunStopped) and not owned)


def _parent_of(run: str) -> str:
    """The run right above *run*; empty above a root."""
    return run.rpartition("/")[0]
