"""The live tree on a terminal: the run, its turns and their child runs, with state, time and cost."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text as Styled

from coterie.agents.backends.base import AttemptRef, Event, Permission, Text, Tool
from coterie.base.clock import Clock, SystemClock
from coterie.base.ids import child_run_id
from coterie.history.journal.records import AttemptFailed, AttemptInterrupted, Record, TurnFailed, TurnFinished
from coterie.history.views.run import RunView
from coterie.history.views.tree import tree
from coterie.history.views.words import plural
from coterie.interfaces.cli.display import Display
from coterie.interfaces.cli.text import progress as text
from coterie.interfaces.cli.text.logs import deed
from coterie.interfaces.cli.text.words import last_line
from coterie.team.planning.plan import Plan, from_json

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


class _Activity:
    """The activity of an attempt in one line: its last output or its tool, and the number of tools used so far."""

    def __init__(self) -> None:
        self._said = self._deed = ""
        self._tools = 0

    def add(self, event: Text | Tool | Permission) -> None:
        """Receive an event of the attempt."""
        if isinstance(event, Text):
            self._said = (self._said + event.text[-_KEPT:])[-_KEPT:]
            self._deed = "" if event.text.strip() else self._deed
            return
        self._tools += isinstance(event, Tool) and event.state == "started"
        self._deed = deed(event) or self._deed

    @property
    def line(self) -> str:
        """The line; tools before the current one are only counted."""
        before = self._tools - bool(self._deed)
        done = f"({plural(before, 'tool')}) " if before > 0 else ""
        return f"{done}{last_line(self._deed or self._said)}"


class _Screen(Console):
    """A terminal whose cursor stays visible: a process that is killed could not show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        return False


class LiveTree(Display):
    """Draws the tree until it is closed, on a separate thread, so that a busy run does not delay it."""

    def __init__(self, console: Console | None = None, clock: Clock | None = None, *, on_stderr: bool = False) -> None:
        self._console = console or _Screen(highlight=False, stderr=on_stderr)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._runs: dict[str, RunView] = {}
        self.causes: set[str] = set()
        self._activities: dict[str, _Activity] = {}
        self._plan: tuple[str, Plan | None] = ("", None)
        self._closed = False
        self._live = self._new_live()

    def _new_live(self) -> Live:
        return Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=PER_SECOND,
            transient=False,
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),  # what it prints into a pipe stays there
        )

    def __enter__(self) -> "LiveTree":
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True
        with suppress(OSError):  # the terminal is closed; a signal has interrupted the run
            self._live.stop()

    def recall(self, run: str, record: Record) -> None:
        """Receive a record that an earlier owner wrote."""
        self.observe(run, record)

    def observe(self, run: str, record: Record) -> None:
        """Receive a record of a run; the root run comes first."""
        with self._lock:
            self._runs.setdefault(run, RunView(answers=())).apply(record)
            if isinstance(record, TurnFailed):
                self.causes.add(record.reason)
            elif isinstance(record, TurnFinished | AttemptFailed | AttemptInterrupted):
                self._activities.pop(child_run_id(run, record.turn, record.attempt), None)

    def on_event(self, ref: AttemptRef, event: Event) -> None:
        """Keep the end of what an attempt prints, and the tool that it uses."""
        match event:
            case Text() | Tool() | Permission():
                with self._lock:
                    self._activities.setdefault(ref.marker, _Activity()).add(event)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Release the terminal to a question; the tree continues below it."""
        self._live.stop()
        try:
            yield
        finally:
            self._live = self._new_live()  # the earlier one would erase as many lines as it drew, the question included
            self._live.start()

    def _drawn(self) -> RenderableType:
        with self._lock:
            root = next(iter(self._runs.values()), None)
            if root is None:
                return Styled()
            printed = {marker: activity.line for marker, activity in self._activities.items()}
            node = tree(root, self._runs, self._clock.now(), self._obeyed(root), printed)
        most = _LAST if self._closed else max(self._console.height - 2, 4)
        lines = text.tree(node, most, self._console.width)
        return Group(*(self._row(state, line) for state, line in lines))

    def _row(self, state: str, line: str) -> Styled:
        """A line of the picture; the last picture has the whole cause of a failure, on several lines if necessary."""
        folds = self._closed and state == "failed"
        return Styled(line, STYLES.get(state, ""), no_wrap=not folds, overflow="fold" if folds else "ellipsis")

    def _obeyed(self, root: RunView) -> Plan | None:
        """The current plan of *root*, decoded once; None if it cannot be read."""
        if self._plan[0] != root.plan:
            plan = None
            with suppress(ValueError):
                plan = from_json(root.plan)
            self._plan = (root.plan, plan)
        return self._plan[1]
