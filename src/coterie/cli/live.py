"""The live tree on a terminal: the run, its turns and their child runs, with state, time and cost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text as Styled

from coterie.backends.base import AttemptRef, Event, Text, Tool
from coterie.cli.display import Display
from coterie.cli.text import progress as text
from coterie.cli.text.words import last_line
from coterie.clock import Clock, SystemClock
from coterie.journal.records import Record
from coterie.planning.plan import Plan, from_json
from coterie.views.run import RunView
from coterie.views.tree import tree

STYLES = {
    "running": "bold",
    "waiting": "yellow",
    "finished": "green",
    "completed": "bold green",
    "failed": "bold red",
    "cancelled": "dim",
    "stopped": "yellow",
    "pending": "dim",
    "note": "yellow",
}
PER_SECOND = 8
_KEPT = 400
"""Characters kept of what an attempt printed last."""
_LAST = 1000
"""Lines of the last picture, which scrolls if it is higher than the terminal."""


class LiveTree(Display):
    """Draws the tree until it is closed, on a separate thread, so that a busy run does not delay it."""

    def __init__(self, console: Console | None = None, clock: Clock | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._runs: dict[str, RunView] = {}
        self._printed: dict[str, str] = {}
        self._plan: tuple[str, Plan | None] = ("", None)
        self._closed = False
        self._live = self._new_live()

    def _new_live(self) -> Live:
        return Live(get_renderable=self._drawn, console=self._console, refresh_per_second=PER_SECOND, transient=False)

    def __enter__(self) -> "LiveTree":
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True
        with suppress(OSError):  # the terminal is closed; a signal has interrupted the run
            self._live.stop()

    def recall(self, run: str, record: Record) -> None:
        """Take in a record that an earlier owner wrote."""
        self.observe(run, record)

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of a run; the root run comes first."""
        with self._lock:
            self._runs.setdefault(run, RunView()).apply(record)

    def heard(self, ref: AttemptRef, event: Event) -> None:
        """Keep the end of what an attempt prints, or the tool that it uses."""
        match event:
            case Text():
                with self._lock:
                    self._printed[ref.marker] = (self._printed.get(ref.marker, "") + event.text[-_KEPT:])[-_KEPT:]
            case Tool():
                with self._lock:
                    self._printed[ref.marker] = f"{event.name} {event.state} {event.detail}\n"

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Release the terminal to a question; the tree continues below it."""
        self._live.stop()
        try:
            yield
        finally:
            self._live = self._new_live()  # the earlier one would erase as many lines as it drew, the question included
            self._live.start()

    def _drawn(self) -> Styled:
        with self._lock:
            root = next(iter(self._runs.values()), None)
            if root is None:
                return Styled()
            printed = {marker: last_line(said) for marker, said in self._printed.items()}
            node = tree(root, self._runs, self._clock.now(), self._obeyed(root), printed)
        lines = text.tree(node, _LAST if self._closed else max(self._console.height - 2, 4))
        shown = Styled("\n").join(Styled(line, style=STYLES.get(state, ""), no_wrap=True) for state, line in lines)
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return shown

    def _obeyed(self, root: RunView) -> Plan | None:
        """The plan that *root* obeys, decoded once; None if it cannot be read."""
        if self._plan[0] != root.plan:
            plan = None
            with suppress(ValueError):
                plan = from_json(root.plan)
            self._plan = (root.plan, plan)
        return self._plan[1]
