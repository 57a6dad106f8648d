"""Where commits are made: on the loop's own thread, or in that of a store. A measured choice.

A thread costs two wake-ups and contention for the interpreter's lock: here 100 µs, on top of a sync of 220 µs, for
every turn of a chain. So commits run on the loop's own thread while the disk is fast (`QUICK`). After a slow commit,
further ones go to the thread, which does not block the loop; now and then, ever more rarely, one is tried on the loop
again. What one commit shows holds for all of a state directory: each run and each child run has its own journal,
and many can begin at once.
"""

from functools import lru_cache
from pathlib import Path

QUICK = 0.001
"""Seconds that each sync of a commit may block the loop; after a slower one, the next ones go to the thread."""

_LONGEST = 256
"""The most commits that go to the thread before one is tried on the loop."""


class Pace:
    """How fast the disk of a state directory was lately."""

    def __init__(self) -> None:
        self._left = 0  # how many more commits go to the thread
        self._next = 0  # how many will go there after the next slow one; 0 while the disk is fast

    def on_loop(self) -> bool:
        """Decide whether the next commit is made on the loop's own thread."""
        if self._left:
            self._left -= 1
            return False
        self._left = _LONGEST if self._next else 0  # while one is tried, the others are not
        return True

    def learn(self, seconds: float, syncs: int) -> None:
        """Take note that a commit on the loop's thread, with so many syncs, took so long."""
        is_slow = seconds >= QUICK * syncs
        self._left = max(self._next, 1) if is_slow else 0
        self._next = min(2 * self._left, _LONGEST)


@lru_cache(maxsize=64)
def pace_of(root: Path) -> Pace:
    """The pace of the state directory at the absolute path *root*, in this process."""
    return Pace()
