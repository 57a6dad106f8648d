"""A user's function that is called with each record of a run."""

import logging
from asyncio import CancelledError

from coterie.base.user_code import contained, error_line
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import Observe
from coterie.history.journal.records import Record

_LOG = logging.getLogger("coterie")


class UserObserver:
    """Calls a user's function with each durable record of a run; what it raises stops the run, which can be resumed."""

    def __init__(self, observe: Observe) -> None:
        self._observe: Observe | None = observe
        self._shell: Shell | None = None

    def attach(self, shell: Shell) -> None:
        """Stop the run of *shell* if the function raises."""
        self._shell = shell

    def __call__(self, run: str, record: Record) -> None:
        """Call the function."""
        if self._observe is None:
            return
        try:
            with contained():
                self._observe(run, record)
        except (Exception, CancelledError) as error:  # nothing cancels a function without an await
            self._observe = None
            _LOG.warning("observe failed at record %d of %s and is not called again", record.seq, run, exc_info=error)
            if self._shell is not None:
                self._shell.stop(f"observe failed: {error_line(error)}")
