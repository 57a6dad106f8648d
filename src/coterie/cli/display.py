"""What a command shows of a run while it drives or follows it: nothing, lines, or a live tree."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from coterie.backends.base import AttemptRef, Event, Request
from coterie.cli.output import complain, say
from coterie.cli.text import runs as text
from coterie.cli.text.progress import Progress
from coterie.journal.records import Record, TurnFailed

if TYPE_CHECKING:
    from coterie.runs.driver.shell import Shell

AskHuman = Callable[[Request], Awaitable[str]]


History = Iterable[tuple[str, Record]]
"""Records, each with the id of its run, those of the root run first."""


class Display:
    """Shows a run as it goes on; this one shows nothing."""

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
    """Prints one line for each record of interest."""

    def __init__(self) -> None:
        self._progress = Progress()

    def recall(self, run: str, record: Record) -> None:
        """Take in a record whose line was printed earlier."""
        self._progress.line(run, record)

    def observe(self, run: str, record: Record) -> None:
        """Print the line of *record*, if it has one."""
        if line := self._progress.line(run, record):
            say(line)


class Watch:
    """The callbacks that a command passes to the run that it drives.

    Attributes:
        parks: Whether the run ends when only humans can continue it.
        human: Asks a human at the terminal, or prints how the question is answered; None if the run parks instead.
        failed: The turns that have failed, as `TURN` or `TURN.ATTEMPT/TURN`.
    """

    def __init__(self, display: Display, parks: bool, at_terminal: bool, where: str = "") -> None:
        self._display, self._where = display, where
        self.parks = parks
        self.failed: dict[str, None] = {}
        self.human: AskHuman | None = None
        if at_terminal and not parks:
            from coterie.cli.terminal import Terminal

            self.human = Terminal(display.aside).ask
        elif not parks:
            self.human = self._print_question

    def observe(self, run: str, record: Record) -> None:
        """Take in a record of the root run or of a child run."""
        self._count(run, record)
        self._display.observe(run, record)

    def recall(self, history: History) -> None:
        """Take in the records that earlier owners wrote."""
        for run, record in history:
            self._count(run, record)
            self._display.recall(run, record)

    def attach(self, shell: "Shell") -> None:
        """Show what the attempts of *shell* do while they run."""
        shell.events.subscribe(self._display.heard)

    def _count(self, run: str, record: Record) -> None:
        if isinstance(record, TurnFailed):
            self.failed["/".join([*run.split("/")[1:], record.turn])] = None

    async def _print_question(self, request: Request) -> str:
        """Print the question and the command that answers it, and wait until that is done."""
        with self._display.aside():
            complain(text.question(request))
            complain(text.how_to_answer(request, self._where))
        answered_elsewhere: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await answered_elsewhere


@contextmanager
def choose(park: bool | None, as_json: bool, where: str = "") -> Iterator[Watch]:
    """Choose by the standard streams: a tree and questions on a terminal, lines into a pipe."""
    shows = sys.stdout is not None and sys.stdout.isatty()
    at_terminal = shows and sys.stdin is not None and sys.stdin.isatty() and not as_json
    parks = not at_terminal if park is None else park
    if as_json:
        yield Watch(Display(), parks, at_terminal, where)
    elif shows:
        from coterie.cli.live import LiveTree

        with LiveTree() as tree:
            yield Watch(tree, parks, at_terminal, where)
    else:
        yield Watch(Lines(), parks, at_terminal, where)
