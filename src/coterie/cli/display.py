"""What is shown of a run while it goes on: nothing, lines, or a live tree; and who is asked at the terminal."""

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from coterie.backends.base import Request
from coterie.cli.output import say
from coterie.cli.text.progress import Progress
from coterie.journal.records import Record

AskHuman = Callable[[Request], Awaitable[str]]


History = Iterable[tuple[str, Record]]
"""Records, each with the id of its run, the root's first."""


class Display(Protocol):
    """Shows a run as it goes on."""

    def recall(self, history: History) -> None:
        """Take in what happened under earlier owners."""

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of the root run or of a child run."""

    def aside(self) -> AbstractContextManager[object]:
        """Leave the terminal to somebody else meanwhile."""


class Watch:
    """What a run is given by the command that drives it.

    Attributes:
        parks: Whether the run ends when only humans can go on.
        human: Asks a human at the terminal; None: they answer through the inbox.
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
    """The watch that suits where the command was called: a terminal is asked and shown a tree, a pipe gets lines."""
    shows = sys.stdout is not None and sys.stdout.isatty()
    at_terminal = shows and sys.stdin is not None and sys.stdin.isatty() and not as_json
    parks = not at_terminal if park is None else park
    if as_json:
        yield Watch(Silent(), parks, at_terminal)
    elif shows:
        from coterie.cli.live import LiveTree

        with LiveTree() as tree:
            yield Watch(tree, parks, at_terminal)
    else:
        yield Watch(Lines(), parks, at_terminal)


class Silent:
    """Shows nothing: the one document at the end says it all."""

    def recall(self, history: History) -> None:
        """Nothing is shown."""

    def observe(self, run: str, record: Record) -> None:
        """Nothing is shown."""

    def aside(self) -> AbstractContextManager[object]:
        """Nothing is in the way."""
        return nullcontext()


class Lines:
    """Prints one line for each record worth telling."""

    def __init__(self) -> None:
        self._progress = Progress()

    def recall(self, history: History) -> None:
        """Count the time from the run's first record on; what was told once is not told again."""
        for run, record in history:
            self._progress.line(run, record)
            break

    def observe(self, run: str, record: Record) -> None:
        """Print what *record* says, if it is worth telling."""
        if line := self._progress.line(run, record):
            say(line)

    def aside(self) -> AbstractContextManager[object]:
        """Lines do not disturb a question."""
        return nullcontext()
