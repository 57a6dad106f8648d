"""What a command shows of a run while it drives or follows it: nothing, lines, or a live tree."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from coterie.backends.base import AttemptRef, Event
from coterie.cli.output import complain
from coterie.cli.text.progress import Progress
from coterie.journal.records import Record

if TYPE_CHECKING:
    from coterie.cli.json_log import JsonLog

_NAMED = ("turn", "agent", "attempt", "reason", "outcome", "child", "name")
"""Fields of records that become fields of the line."""


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

    def on_event(self, ref: AttemptRef, event: Event) -> None:
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


class JsonLines(Display):
    """Writes one event for each record of interest to *log*."""

    def __init__(self, log: "JsonLog") -> None:
        self._log, self._progress = log, Progress()
        self.causes = self._progress.causes

    def recall(self, run: str, record: Record) -> None:
        """Take in a record that was written earlier."""
        self._progress.said(run, record)
        self._progress.causes.clear()

    def observe(self, run: str, record: Record) -> None:
        """Write the event of *record*, if it is one of interest."""
        level, message = self._progress.said(run, record)
        if not message:
            return
        fields: dict[str, Any] = {"run": run, "seq": record.seq}
        fields |= {name: value for name in _NAMED if (value := getattr(record, name, None))}
        self._log.line(
            record.at, {"warn": "warning"}.get(level, level), str(record.__struct_config__.tag), message, fields
        )
