"""The live tree on a terminal: the run, its turns and their child runs, with state, time and cost."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from coterie.cli.display import Display
from coterie.cli.text import progress as text
from coterie.clock import Clock, SystemClock
from coterie.journal.records import Record
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
}
PER_SECOND = 8


class LiveTree(Display):
    """Draws the tree until it is closed, on a separate thread, so that a busy run does not delay it."""

    def __init__(self, console: Console | None = None, clock: Clock | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._runs: dict[str, RunView] = {}
        self._live = Live(
            get_renderable=self._drawn, console=self._console, refresh_per_second=PER_SECOND, transient=False
        )

    def __enter__(self) -> "LiveTree":
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # the terminal is closed; a signal has interrupted the run
            self._live.stop()

    def recall(self, history: Iterable[tuple[str, Record]]) -> None:
        """Take in the records that earlier owners wrote."""
        for run, record in history:
            self.observe(run, record)

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of a run; the root run comes first."""
        with self._lock:
            self._runs.setdefault(run, RunView()).apply(record)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Release the terminal to a question; the tree continues below it."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _drawn(self) -> Text:
        with self._lock:
            root = next(iter(self._runs.values()), None)
            if root is None:
                return Text()
            node = tree(root, self._runs, self._clock.now())
        lines = text.tree(node, max(self._console.height - 2, 4))
        shown = Text("\n").join(Text(line, style=STYLES.get(state, ""), no_wrap=True) for state, line in lines)
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return shown
