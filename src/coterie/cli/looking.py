"""`coterie runs` and `coterie inspect`: what happened, read from the journals. Nothing is changed."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import STATE_DIR, AsJson, Run, StateDir
from coterie.cli.output import say, say_json


def runs(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the runs, newest first.

    Those that were started elsewhere on this machine are listed too.
    """
    from coterie.cli import text
    from coterie.runs import index
    from coterie.runs.listing import standing

    found = [(entry, standing(Path(entry.folder))) for entry in reversed(index.entries(state_dir))]
    if as_json:
        say_json(
            [
                {"run": one.run, "topology": one.topology, "started": one.started, "state": state, "folder": one.folder}
                for one, state in found
            ]
        )
    else:
        say(text.runs(found))
    return 0


def inspect(
    run: Run,
    view: Annotated[
        str,
        typer.Argument(metavar="VIEW", help="timeline, turn T, why T, usage or journal."),
    ] = "timeline",
    turn: Annotated[
        str | None, typer.Argument(metavar="T", help="The turn, such as 'reviewer#2'.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Look into a run, or with RUN/TURN.ATTEMPT into a child run.

    `timeline` tells it in sentences; `turn` shows what a turn was asked, what it answered and how its attempts went;
    `why` gives the chain of causes that led to a turn; `usage` adds up turns, tokens, money and time; `journal` gives
    the file as it is, or with --json its records.
    """
    from coterie.cli import views
    from coterie.errors import UsageError

    known = {"timeline": views.timeline, "usage": views.usage, "journal": views.journal}
    of_turns = {"turn": views.turn, "why": views.why}
    if view not in known and view not in of_turns:
        raise UsageError(f"there is no view {view!r}; there are {', '.join([*known, *of_turns])}")
    if (turn is not None) != (view in of_turns):
        raise UsageError(
            f"`inspect RUN {view}` takes {'a turn, such as reviewer#2' if view in of_turns else 'no turn'}"
        )
    place = views.locate(run, state_dir)
    value, shown = of_turns[view](place, turn) if turn is not None else known[view](place)
    if as_json:
        say_json(value)
    else:
        say(shown)
    return 0
