"""`coterie inspect` and `stats`: read the journals of runs without changing anything."""

from typing import Annotated, Literal

from coterie.interfaces.cli.options import AsJson, HomeOptions, Run
from coterie.interfaces.cli.output import print_result
from coterie.interfaces.cli.parameters import Arg, Opt

By = Annotated[
    Literal["role", "model", "backend", "run"] | None, Opt("--by KEY", "Add usage up by role, model, backend or run.")
]


def inspect(
    run: Run,
    view: Annotated[
        str,
        Arg(
            "VIEW",
            "timeline, plan, cost, failure, usage, turn T, prompt T, output T, why T, files T, topology, memory, "
            "tasks, journal, live or html.",
        ),
    ] = "timeline",
    turn: Annotated[
        str | None, Arg("T", "The turn or set, such as 'reviewer#2', 'reader@1'; in a loop its iteration's number.")
    ] = None,
    by: By = None,
    since: Annotated[str, Opt("--since POSITION", "Of `live` only what has changed since then.")] = "",
    begin: Annotated[int, Opt("--from SEQ", "Of `timeline` and `journal` the records from SEQ on.", min=1)] = 1,
    limit: Annotated[int | None, Opt("--limit N", "Of `timeline` and `journal` at most N records.", min=1)] = None,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Inspect a run, or with RUN/TURN.ATTEMPT a child run.

    `timeline` lists its events; `plan` shows which nodes ran how often and which arrows fired; `cost` what was spent,
    beside the budget and the proved worst case; `failure` the turn that failed first, with the end of its output.
    `turn` shows the prompt, the answer and the attempts of a turn, `prompt` and `output` only one of these (for a
    running or failed turn, `output` is what it printed); `why` lists the causes of a turn, `files` what it changed.
    `usage` sums turns, tokens, cost and time, with --by those of child runs, too; `topology` shows the agents and the
    coordination of the current plan; `memory` and `tasks` show those of a loop; `journal` prints the file, or with
    --json its records; `live` gives the run and its child runs as tables, for programs; `html` is the run as one page
    that opens without a server.
    """
    from coterie.errors import UsageError
    from coterie.interfaces.cli import views

    if view not in views.OF_RUNS and view not in views.OF_TURNS:
        raise UsageError(f"unknown view {view!r}; views: {', '.join([*views.OF_RUNS, *views.OF_TURNS])}")
    where = home.where
    if turn is None and view in views.OF_TURNS:
        turn = views.only_turn(*views.locate(run, where))
    if (turn is not None) != (view in views.OF_TURNS):
        takes = "a turn, such as reviewer#2, a set, or the number of an iteration of a loop"
        raise UsageError(f"`inspect RUN {view}` takes {takes if view in views.OF_TURNS else 'no turn'}")
    at = views.locate(run, where)
    if by is not None:
        if view != "usage":
            raise UsageError(f"--by is for `inspect RUN usage`, not {view}")
        value, shown = views.usage_by(*at, by)
        print_result(as_json, value, lambda: shown)
        return 0
    if view == "journal" and not as_json and begin == 1 and not limit:
        views.print_journal(*at)
        return 0
    if since and view == "live":
        value, shown = views.live(*at, since)
    elif (begin > 1 or limit) and view in views.PAGED:
        value, shown = views.PAGED[view](*at, begin, limit)
    else:
        value, shown = views.OF_TURNS[view](*at, views.named(turn)) if turn is not None else views.OF_RUNS[view](*at)
    print_result(as_json, value, lambda: shown)
    return 0


def stats(by: By = None, as_json: AsJson = False, *, home: HomeOptions) -> int:
    """Summarize all runs: turns, cost and time in total, by outcome and by team; with --by, what they used.

    Includes runs started in other folders of this machine.
    """
    if by is not None:
        from coterie.execution.runs.statistics import usage_of_all
        from coterie.interfaces.cli import views

        value, shown = views.used(usage_of_all(home.where, by), by)
        print_result(as_json, value, lambda: shown)
        return 0
    from coterie.execution.runs.statistics import statistics
    from coterie.interfaces.cli.text import stats as text

    found = statistics(home.where)
    print_result(as_json, found, lambda: text.stats(found))
    return 0
