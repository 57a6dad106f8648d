"""A thread for blocking jobs."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Syncer:
    """Runs jobs in a separate thread, one at a time and in order. The thread exists only while it is needed."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] | None = None

    def submit(self, job: Job) -> None:
        """Queue *job*, which must not raise."""
        if self._jobs is None:
            self._jobs = SimpleQueue()
            threading.Thread(target=_work, args=(self._jobs,), name="coterie-journal", daemon=True).start()
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread after the queued jobs; a later `submit` starts another."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _work(jobs: "SimpleQueue[Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job()
