"""`coterie logs`: what the agents of a run print and do."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from coterie.cli.options import AsJson, HomeOptions, Run
from coterie.cli.output import say, say_json
from coterie.cli.parameters import Arg, Opt
from coterie.waits import waiting

if TYPE_CHECKING:
    from coterie.runs.attempt_output import Heard, StreamReader


def logs(
    run: Run,
    turn: Annotated[
        str | None, Arg(metavar="TURN", help="The turn, such as 'reviewer#2'; by default all turns.")
    ] = None,
    follow: Annotated[
        bool, Opt("--follow", "-f", help="Print what comes, too, until no process drives the run.")
    ] = False,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Show what the agents of a run print, and the tools they use, while they run and afterwards.

    A line begins with its turn; `!` marks standard error, `>` the use of a tool, `?` what needed a person, and the
    answer. With --json each piece of output is a line of JSON. Ctrl-C ends --follow, not the run.
    """
    from msgspec import to_builtins

    from coterie.cli.signals import drive
    from coterie.cli.text.logs import OutputLines
    from coterie.cli.views import locate, named
    from coterie.runs.attempt_output import AttemptOver, StreamReader
    from coterie.views.run import fold

    runs, run = locate(run, home.where)
    turn = named(turn or "")
    if turn:
        from coterie.errors import NoSuchTurn

        turns = [one.id for one in fold(runs.read(run)).turns]
        if turn not in turns:
            raise NoSuchTurn(run, turn, turns)
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
