"""Compare two runs, with the prompts of the first turn in which they differ."""

from contextlib import suppress

from msgspec import structs

from coterie.errors import CoterieError
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.turn_detail import asked
from coterie.history.views.compare import RunComparison
from coterie.history.views.compare import compare as compare_runs
from coterie.history.views.live import fold


def compare(a: tuple[Runs, str], b: tuple[Runs, str]) -> RunComparison:
    """Compare the runs *a* and *b*, each given as its store and its id; they may be kept in different places.

    Raises:
        NoSuchRun, JournalUnreadable: If one cannot be read.
    """
    sides = [
        fold(runs.history(run), run, runs.plan(run) if "/" in run else None, answers=None).runs[run]
        for runs, run in (a, b)
    ]
    found = compare_runs(*sides)
    prompts = ["", ""]
    for n, (runs, run) in enumerate((a, b) if found.first else ()):
        with suppress(CoterieError):  # the turn did not begin there
            prompts[n] = asked(runs.journal(run), found.first, runs).prompt
    return structs.replace(found, prompts=(prompts[0], prompts[1]))
