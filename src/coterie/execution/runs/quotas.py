"""Wait for the quotas of stopped runs, without owning these runs."""

import time

from coterie.base.clock import LOOK
from coterie.execution.runs.repository import Where, find


def opens(name: str, where: Where) -> float:
    """When the quota opens that the stopped run *name* waits for, in Unix seconds; 0: it waits for none.

    Raises:
        NoSuchRun, UsageError: If *name* matches no run, or several.
    """
    runs, run = find(name, where)
    return runs.store.status(run).until


def sleep_until(due: float) -> None:
    """Sleep until the wall clock reads *due*, in Unix seconds."""
    while (left := due - time.time()) > 0:
        time.sleep(min(left, LOOK))
