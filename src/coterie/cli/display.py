"""What a command shows of a run while it drives or follows it: nothing, lines, or a live tree."""

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from coterie.backends.base import Request
from coterie.cli.output import say
from coterie.cli.text.progress import Progress
from coterie.journal.records import Record

AskHuman = Callable[[Request], Awaitable[str]]


History = Iterable[tuple[str, Record]]
"""Records, each with the id of its run, those of the root run first."""


class Display:
    """Shows a run as it goes on; this one shows nothing."""

    def recall(self, history: History) -> None:
        """Take in the records that earlier owners wrote."""

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of the root run or of a child run."""

    def aside(self) -> AbstractContextManager[object]:
        """Release the terminal while the context lasts."""
        return nullcontext()


class Lines(Display):
    """Prints one line for each record of interest."""

    def __init__(self) -> None:
        self._progress = Progress()

    def recall(self, history: History) -> None:
        """Start the clock at the run's first record; earlier lines are not printed again."""
        for run, record in history:
            self._progress.line(run, record)
            break

    def observe(self, run: str, record: Record) -> None:
        """Print the line of *record*, if it has one."""
        if line := self._progress.line(run, record):
            say(line)


class Watch:
    """The callbacks that a command passes to the run that it drives.

    Attributes:
        parks: Whether the run ends when only humans can continue it.
        human: Asks a human at the terminal; None if answers come through the inbox.
    """

    def __init__(self, display: Display, parks: bool, at_terminal: bool) -> None:
        self.observe, self.recall = display.observe, display.recall
        self.parks = parks
        self.human: AskHuman | None = None
        if at_terminal and not parks:
            from coterie.cli.terminal import Terminal

            self.human = Terminal(display.aside).ask


@contextmanager
def choose(park: bool | None, as_json: bool) -> Iterator[Watch]:
    """Choose by the standard streams: a tree and questions on a terminal, lines into a pipe."""
    shows = sys.stdout is not None and sys.stdout.isatty()
    at_terminal = shows and sys.stdin is not None and sys.stdin.isatty() and not as_json
    parks = not at_terminal if park is None else park
    if as_json:
        yield Watch(Display(), parks, at_terminal)
    elif shows:
        from coterie.cli.live import LiveTree

        with LiveTree() as tree:
            yield Watch(tree, parks, at_terminal)
    else:
        yield Watch(Lines(), parks, at_terminal)
