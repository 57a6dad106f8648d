"""Rules for every store: which runs a claim covers, how records follow one another, when a journal is at rest."""

from collections.abc import Sequence

from coterie.errors import RunIsOwned
from coterie.history.journal.records import Record, RunFinished, RunStopped


def root_of(run: str) -> str:
    """The root run of *run*, possibly itself."""
    return run.partition("/")[0]


class Claims:
    """The claimed runs of a store; releasing one takes time in proportion to the runs below it, not to all runs."""

    def __init__(self) -> None:
        self._claimed: set[str] = set()
        self._below: dict[str, dict[str, None]] = {}
        """The direct children of each run, either claimed or above a claimed run."""

    def add(self, run: str) -> None:
        """Add a claim on *run*."""
        self._claimed.add(run)
        while (parent := _parent_of(run)) and run not in (below := self._below.setdefault(parent, {})):
            below[run] = None
            run = parent

    def let_go(self, run: str) -> list[str]:
        """Remove the claims on *run* and on all runs below it; return these runs."""
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
    """Check that *run* can be claimed in a store, given whether it and its root are owned there.

    Raises:
        RunIsOwned: If it has an owner.
        ValueError: If it is a child whose root is not claimed here; the claim of the root guards the child.
    """
    if owned:
        raise RunIsOwned(run)
    if root_of(run) != run and not root_owned:
        raise ValueError(f"{run!r} is a child run: claim {root_of(run)!r} first, in the same store")


def check_next(last: int, records: Sequence[Record]) -> int:
    """Check that *records* continue a journal whose last seq is *last*, and return the new last seq.

    Raises:
        ValueError: If they do not, which is a bug of the caller; nothing was appended.
    """
    for record in records:
        if record.seq != last + 1:
            raise ValueError(f"record {last + 1} comes next, not {record.seq} ({record.__struct_config__.tag})")
        last = record.seq
    return last


def at_rest(last: Record | None, owned: bool) -> bool:
    """Whether nothing follows *last* for now: the run has finished, or has stopped and has no owner."""
    return isinstance(last, RunFinished) or (isinstance(last, RunStopped) and not owned)


def _parent_of(run: str) -> str:
    """The parent of *run*; empty for a root."""
    return run.rpartition("/")[0]
