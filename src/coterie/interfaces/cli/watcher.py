"""The progress and the questions of a run that a command drives, on the standard streams."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie.agents.backends.base import AttemptRef, Event, Request
from coterie.base.clock import iso_time
from coterie.base.waits import mark_shown
from coterie.history.journal.records import Record, RunReopened, TurnFailed
from coterie.history.views.ending import EndFacts
from coterie.interfaces.cli.display import Display, JsonLines, Lines
from coterie.interfaces.cli.output import choose_log, complain, draws, say
from coterie.interfaces.cli.text import runs as text

if TYPE_CHECKING:
    from coterie.execution.kernel.owner import Approver
    from coterie.execution.kernel.shell import Shell

AskHuman = Callable[[Request], Awaitable[str]]


History = Iterable[tuple[str, Record]]
"""Records, each with the id of its run, those of the root run first."""


class Watch:
    """The callbacks that a command passes to the run that it drives.

    Attributes:
        parks: Whether the run ends when only humans can continue it.
        human: Asks a human at the terminal, or prints how the question is answered; None if the run parks instead.
        approver: Asks at the terminal what attempts need a person for; without one a line says how it is answered.
        failed: The turns that have failed, as `TURN` or `TURN.ATTEMPT/TURN`.
        causes: The causes of failures that were shown.
        ends: Why the run does not go on, once it has ended.
    """

    def __init__(self, display: Display, parks: bool, at_terminal: bool, where: str = "") -> None:
        self._display, self._where = display, where
        self.parks = parks
        self.failed: dict[str, None] = {}
        self.ends = EndFacts()
        self._shell: Shell | None = None
        self.causes = display.causes
        self.human: AskHuman | None = None
        self.approver: Approver | None = None
        if at_terminal:
            from coterie.interfaces.cli.terminal import Terminal

            terminal = Terminal(display.aside)
            self.approver = terminal.approve
            self.human = None if parks else terminal.ask
        elif not parks:
            self.human = self._print_question

    def drives(self) -> dict[str, Any]:
        """Its callbacks, as arguments of `coterie.execution.runs.launch`."""
        return {
            "park": self.parks,
            "observe": self.observe,
            "human": self.human,
            "attendant": self.approver,
            "attach": self.attach,
            "on_quota": self.waits,
        }

    def observe(self, run: str, record: Record) -> None:
        """Receive a record of the root run or of a child run."""
        self._count(run, record)
        self._display.observe(run, record)

    def on_event(self, ref: AttemptRef, event: Event) -> None:
        """Receive an event of a running attempt."""
        self._display.on_event(ref, event)

    def recall(self, history: History) -> None:
        """Receive the records that earlier owners wrote."""
        for run, record in history:
            self._count(run, record)
            self._display.recall(run, record)

    def attach(self, shell: "Shell") -> None:
        """Show what the attempts of *shell* do while they run."""
        self._shell = shell
        shell.events.subscribe(self.on_event)

    def waits(self, run: str, turn: str, due: float) -> None:
        """Print when the quota of a waiting turn opens, which may take hours."""
        with self._display.aside():
            complain(f"{turn} waits until {iso_time(due)} for its quota; Ctrl-C stops the run, which can be resumed")

    def notice(self) -> str:
        """The effect of a signal on the run."""
        from coterie.interfaces.cli.signals import INTERRUPTING, STOPPING

        root = next(iter(self._shell.runs.values()), None) if self._shell is not None else None
        return STOPPING if root is not None and root.kind.stops_in_order else INTERRUPTING

    def _count(self, run: str, record: Record) -> None:
        path = run.split("/")[1:]
        if not path:
            self.ends.apply(record)
        if isinstance(record, TurnFailed):
            self.failed["/".join([*path, record.turn])] = None
        elif isinstance(record, RunReopened):
            for turn in record.asked:
                self.failed.pop("/".join([*path, turn]), None)

    async def _print_question(self, request: Request) -> str:
        """Print the question and the command that answers it, and wait until that is done."""
        with self._display.aside():
            complain(text.question(request))
            complain(text.how_to_answer(request, self._where))
        answered_elsewhere: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await answered_elsewhere


@contextmanager
def choose(
    park: bool | None, as_json: bool, where: str = "", *, as_result: bool = False, log_format: str = "text"
) -> Iterator[Watch]:
    """Choose by the standard streams: a tree and questions on a terminal, lines into a pipe or where none is drawn.

    Progress goes to standard error, so that standard output holds the result of the run alone; with *as_result* it is
    the result and goes to standard output.
    """
    stream = sys.stdout if as_result else sys.stderr
    shows = stream is not None and stream.isatty()
    at_terminal = shows and sys.stdin is not None and sys.stdin.isatty() and not as_json and log_format == "text"
    parks = not at_terminal if park is None else park
    if (log := choose_log(log_format)) is not None:
        mark_shown()
        yield Watch(JsonLines(log), parks, at_terminal, where)
        return
    if as_json:
        yield Watch(Display(), parks, at_terminal, where)
        return
    mark_shown()  # from here on the display says what happens
    if draws(stream):
        from coterie.interfaces.cli.live import LiveTree

        with LiveTree(on_stderr=not as_result) as tree:
            yield Watch(tree, parks, at_terminal, where)
    else:
        yield Watch(Lines(say if as_result else complain), parks, at_terminal, where)
