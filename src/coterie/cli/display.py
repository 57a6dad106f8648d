"""What a command shows of a run while it drives or follows it: nothing, lines, or a live tree."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from coterie.backends.base import AttemptRef, Event
from coterie.cli.output import complain
from coterie.cli.text.progress import Progress
from coterie.journal.records import Record


class Display:
    """Shows a run as it goes on; this one shows nothing.

    Attributes:
        causes: The causes of failures that it has shown.
    """

    causes: Collection[str] = ()

    def recall(self, run: str, record: Record) -> None:
        """Take in a record that an earlier owner wrote."""

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of the root run or of a child run."""

    def heard(self, ref: AttemptRef, event: Event) -> None:
        """Take in what an attempt does while it runs."""

    def aside(self) -> AbstractContextManager[object]:
        """Release the terminal while the context lasts."""
        return nullcontext()


class Lines(Display):
    """Prints one line for each record of interest with *show*."""

    def __init__(self, show: Callable[[str], None] = complain) -> None:
        self._show = show
        self._progress = Progress()
        self.causes = self._progress.causes

    def recall(self, run: str, record: Record) -> None:
        """Take in a record whose line was printed earlier."""
        self._progress.line(run, record)
        self._progress.causes.clear()

    def observe(self, run: str, record: Record) -> None:
        """Print the line of *record*, if it has one."""
        if line := self._progress.line(run, record):
            self._show(line)
