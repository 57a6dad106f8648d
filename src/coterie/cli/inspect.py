"""`coterie inspect` and `stats`: read the journals of runs without changing anything."""

from typing import Annotated

import typer

from coterie.cli.options import STATE_DIR, AsJson, Run, StateDir
from coterie.cli.output import print_result


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
        typer.Argument(metavar="T", help="The turn, such as 'reviewer#2'; in a loop its iteration's number."),
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Inspect a run, or with RUN/TURN.ATTEMPT a child run.

    `timeline` lists its events; `turn` shows the prompt, the answer and the attempts of a turn, `prompt` and `output`
    only one of these (for a running or failed turn, `output` is what it printed); `why` lists the causes of a turn;
    `usage` sums turns, tokens, cost and time; `topology` shows the agents and the coordination of the current plan;
    `memory` and `tasks` show those of a loop; `journal` prints the file, or with --json its records.
    """
    from coterie.cli import views
    from coterie.errors import UsageError

    if view not in views.OF_RUNS and view not in views.OF_TURNS:
        raise UsageError(f"unknown view {view!r}; views: {', '.join([*views.OF_RUNS, *views.OF_TURNS])}")
    if turn is None and view in views.OF_TURNS:
        turn = views.only_turn(*views.locate(run, state_dir))
    if (turn is not None) != (view in views.OF_TURNS):
        takes = "a turn, such as reviewer#2, or the number of an iteration of a loop"
        raise UsageError(f"`inspect RUN {view}` takes {takes if view in views.OF_TURNS else 'no turn'}")
    at = views.locate(run, state_dir)
    value, shown = views.OF_TURNS[view](*at, views.named(turn)) if turn is not None else views.OF_RUNS[view](*at)
    print_result(as_json, value, lambda: shown)
    return 0


def stats(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Summarize all runs: turns, cost and time in total, by outcome and by team.

    Includes runs started in other folders of this machine.
    """
    from coterie.cli.text import stats as text
    from coterie.runs import index
    from coterie.runs.statistics import statistics

    found = statistics(index.entries(state_dir))
    print_result(as_json, found, lambda: text.stats(found))
    return 0
