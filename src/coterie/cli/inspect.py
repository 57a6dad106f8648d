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
    from coterie.cli.text import runs as text
    from coterie.journal.records import MERGE_CONFLICT
    from coterie.runs import index
    from coterie.runs.repository import status_in

    statuses = [(entry, status_in(Path(entry.folder))) for entry in reversed(index.entries(state_dir))]
    found = [(entry, status.state) for entry, status in statuses]
    reasons = {entry.run: MERGE_CONFLICT for entry, status in statuses if status.reason == MERGE_CONFLICT}
    if as_json:
        say_json(
            [
                {"run": one.run, "topology": one.topology, "started": one.started, "state": state, "folder": one.folder}
                | ({"reason": reasons[one.run]} if one.run in reasons else {})
                for one, state in found
            ]
        )
    else:
        say(text.runs([(one, f"{state}: {reasons[one.run]}" if one.run in reasons else state) for one, state in found]))
    return 0


def inspect(
    run: Run,
    view: Annotated[
        str,
        typer.Argument(
            metavar="VIEW",
            help="timeline, turn T, prompt T, output T, why T, usage, topology, memory, tasks or journal.",
        ),
    ] = "timeline",
    turn: Annotated[
        str | None,
        typer.Argument(
            metavar="T", help="The turn, such as 'reviewer#2'; in a loop its iteration's number.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Look into a run, or with RUN/TURN.ATTEMPT into a child run.

    `timeline` tells it in sentences; `turn` shows what a turn was asked, what it answered and how its attempts went,
    `prompt` and `output` just the one or the other, and `output` of a turn that failed what it had printed; `why` gives
    the chain of causes that led to a turn; `usage` adds up turns, tokens, money and time; `topology` shows who there
    is, under the plan as it is now; `memory` and `tasks` what a loop remembers and has to do; `journal` gives the file
    as it is, or with --json its records.
    """
    from coterie.cli import views
    from coterie.errors import UsageError

    if view not in views.OF_RUNS and view not in views.OF_TURNS:
        raise UsageError(f"there is no view {view!r}; there are {', '.join([*views.OF_RUNS, *views.OF_TURNS])}")
    if (turn is not None) != (view in views.OF_TURNS):
        takes = "a turn, such as reviewer#2, or in a loop the number of an iteration"
        raise UsageError(f"`inspect RUN {view}` takes {takes if view in views.OF_TURNS else 'no turn'}")
    place = views.locate(run, state_dir)
    value, shown = views.OF_TURNS[view](place, views.named(turn)) if turn is not None else views.OF_RUNS[view](place)
    if as_json:
        say_json(value)
    else:
        say(shown)
    return 0


def stats(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Add all runs up: how they ended, their turns, cost and time, in total, by outcome and by team.

    Those that were started elsewhere on this machine count too.
    """
    from coterie.cli.text import stats as text
    from coterie.runs import index
    from coterie.runs.statistics import statistics

    found = statistics(index.entries(state_dir))
    if as_json:
        say_json(found)
    else:
        say(text.stats(found))
    return 0
