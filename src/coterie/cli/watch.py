"""`coterie watch`: follow a run that another process drives, without changing anything."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import STATE_DIR, AsJson, StateDir
from coterie.cli.output import say, say_json

if TYPE_CHECKING:
    from coterie.runs.repository import Runs


def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or 'last'.")] = "last",
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Follow a run from its beginning until no process drives it any more.

    Shows a live tree on a terminal, else one line per event; --json prints every record on a line. Does not affect the
    run: Ctrl-C ends only the watching.
    """
    from coterie.cli.signals import drive
    from coterie.runs.repository import find

    runs, run = find(run, state_dir)
    drive(_show(runs, run, as_json), "no longer watching; the run continues")
    if not as_json:
        say(f"{run}: {runs.status(run)}")
    return 0


async def _show(runs: "Runs", run: str, as_json: bool) -> None:
    from coterie.cli.display import choose

    async with aclosing(runs.follow(run)) as news:
        if as_json:
            async for which, record in news:
                say_json({"run": which, "record": record})
            return
        with choose(True, False) as shown:
            async for which, record in news:
                shown.observe(which, record)
