"""One thread that does what blocks."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Syncer:
    """Do jobs in a separate thread, one at a time, in the order given. The thread exists while there is a use."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] | None = None

    def submit(self, job: Job) -> None:
        """Have *job*, which must not raise, done after those before it."""
        if self._jobs is None:
            self._jobs = SimpleQueue()
            threading.Thread(target=_work, args=(self._jobs,), name="coterie-journal", daemon=True).start()
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread after the jobs given so far; a later `submit` starts another."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _work(jobs: "SimpleQueue[Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job()
