"""Start processes with the mark of an attempt, as the spawner does."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

from coterie.agents.backends.processes import marks_for


@contextmanager
def marked(marker: str) -> Iterator[None]:
    """What this process starts in the block bears *marker* in its limits."""
    before = {limit: resource.getrlimit(limit) for limit in marks_for(marker)}
    for limit, mark in marks_for(marker).items():
        resource.setrlimit(limit, (mark, before[limit][1]))
    try:
        yield
    finally:
        for limit, values in before.items():
            resource.setrlimit(limit, values)
