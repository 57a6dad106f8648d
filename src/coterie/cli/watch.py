"""`coterie watch`: a run that another process drives, as it goes on. Nothing is changed."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import STATE_DIR, AsJson, StateDir
from coterie.cli.output import say, say_json

if TYPE_CHECKING:
    from coterie.runs.repository import Runs


def watch(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or 'last'.", show_default=False),
    ] = "last",
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Show a run as it goes on, from its beginning, until nobody drives it any more.

    On a terminal a live tree, else a line for each thing worth telling; --json gives every record, a line each. The
    run does not notice. Ctrl-C ends the watching, not the run.
    """
    from coterie.cli.signals import drive
    from coterie.runs.repository import find

    runs, run = find(run, state_dir)
    drive(_show(runs, run, as_json), "no longer watching the run, which goes on")
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
