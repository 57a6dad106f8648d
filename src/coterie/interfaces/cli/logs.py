"""`coterie logs`: what the agents of a run print and do."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from coterie.base.waits import waiting
from coterie.interfaces.cli.options import AsJson, HomeOptions, Run
from coterie.interfaces.cli.output import is_dropped, say, say_json
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.execution.runs.attempt_output import Heard, StreamReader


def logs(
    run: Run,
    turn: Annotated[str | None, Arg("TURN", "The turn or set, such as 'reviewer#2'; by default all.")] = None,
    follow: Annotated[bool, Opt("-f, --follow", "Print what comes, too, until no process drives the run.")] = False,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Show what the agents of a run print, and the tools they use, while they run and afterwards.

    A line begins with its turn; `!` marks standard error, `=` a request that a model answered, `>` the use of a tool,
    `?` what needed a person, and the answer. With --json each piece of output is a line of JSON. Ctrl-C ends --follow,
    not the run.
    """
    from msgspec import to_builtins

    from coterie.execution.runs.attempt_output import AttemptOver, StreamReader
    from coterie.history.views.run import fold
    from coterie.interfaces.cli.signals import drive
    from coterie.interfaces.cli.text.logs import OutputLines
    from coterie.interfaces.cli.views import locate, named

    runs, run = locate(run, home.where)
    turn = named(turn or "")
    if turn:
        from coterie.errors import NoSuchTurn

        view = fold(runs.read(run))
        known = [*(one.id for one in view.turns), *view.sets]
        if turn not in known:
            raise NoSuchTurn(run, turn, known)
    reader, lines = StreamReader(runs, run, turn), OutputLines(run)

    def show(one: "Heard") -> None:
        if as_json and isinstance(one.event, AttemptOver):
            return
        if as_json:
            say_json({"run": one.run, "turn": one.turn, "attempt": one.attempt, **to_builtins(one.event)})
        elif text := lines.add(one):
            say(text)

    if follow:
        drive(_follow(reader, show), lambda: "no longer following; the run continues")
    else:
        for one in reader.read():
            show(one)
    if rest := lines.rest():
        say(rest)
    return 0


async def _follow(reader: "StreamReader", show: "Callable[[Heard], None]") -> None:
    with waiting("an agent to print something"):
        async for one in reader.follow():
            show(one)
            if is_dropped():
                return
