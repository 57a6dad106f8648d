"""Text for statistics of runs."""

from typing import TYPE_CHECKING

from coterie.history.views.words import dollars, duration
from coterie.interfaces.cli.text.words import table

if TYPE_CHECKING:
    from coterie.execution.runs.statistics import Statistics, Sum


def stats(found: "Statistics") -> str:
    """Return a table of runs by outcome, by team, and in total."""
    if not found.total.runs:
        return "no runs yet: `coterie run FILE.at` starts one"
    head = ("", "runs", "turns", "iterations", "cost", "worked", "median")
    rows = [_row(name, one) for name, one in found.outcomes.items()]
    teams = [_row(name or "(no name)", one) for name, one in found.teams.items()]
    blank = ("",) * len(head)
    return table([*rows, blank, *teams, blank, _row("all", found.total)], head)


def _row(name: str, one: "Sum") -> tuple[str, ...]:
    counts = map(str, (one.runs, one.turns, one.iterations))
    return (name, *counts, dollars(one.cost), duration(one.seconds), duration(one.median))
