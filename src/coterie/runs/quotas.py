"""Runs that were stopped until a provider's quota opens: when that is, and waiting for it without owning them."""

import time

from coterie.runs.repository import Where, find

LOOK = 30.0
"""Seconds of sleep after which the wall clock is read again: a suspended machine does not count them."""


def opens(name: str, where: Where) -> float:
    """When the quota opens until which the run that *name* names was stopped, in Unix seconds; 0: it was not.

    Raises:
        NoSuchRun, UsageError: If *name* names no run, or several.
    """
    runs, run = find(name, where)
    return runs.store.status(run).until


def sleep_until(due: float) -> None:
    """Sleep until the wall clock reads *due*, in Unix seconds."""
    while (left := due - time.time()) > 0:
        time.sleep(min(left, LOOK))
