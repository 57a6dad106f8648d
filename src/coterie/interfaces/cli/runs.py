"""`coterie runs …`: list and remove runs."""

from pathlib import Path
from typing import Annotated

from coterie.interfaces.cli.options import AsJson, HomeOptions, Wide
from coterie.interfaces.cli.output import complain, fitting_width, print_result
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.places import RemovalOptions, confirm_place

Limit = Annotated[int, Opt("--limit N", "List at most N runs (20).", min=1)]
Everywhere = Annotated[bool, Opt("--all", "List the runs of other directories of this machine, too.")]


def list_(
    limit: Limit = 20, everywhere: Everywhere = False, wide: Wide = False, as_json: AsJson = False, *, home: HomeOptions
) -> int:
    """List the runs of this directory, newest first.

    Shows each run's team, start, status, the time it has worked, cost, working directory and prompt. On a terminal
    that is too narrow the prompt, the directory and the start give way, and the name of the team is cut.
    """
    from coterie.execution.runs.index import check_readable
    from coterie.execution.runs.statistics import newest
    from coterie.interfaces.cli.text import runs as text

    found = [*newest(where := home.where, limit + 1, everywhere=everywhere)]
    if not found and isinstance(where, Path):
        check_readable(where)
    older, found = found[limit:], found[:limit]
    print_result(as_json, found, lambda: text.runs(found, None if wide else fitting_width(), everywhere=everywhere))
    if older:
        complain(f"there are older runs: --limit {limit * 10} lists more")
    return 0


def overview(
    limit: Annotated[int, Opt("--limit N", "Show at most N runs (20).", min=1)] = 20,
    everywhere: Annotated[bool, Opt("--all", "Show the runs of other directories of this machine, too.")] = False,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Show the runs that need a person, then those at work, stopped, failed and completed, with what agents do now."""
    from coterie.execution.runs.repository import location_at
    from coterie.execution.runs.rows import RunRows
    from coterie.interfaces.cli.text import plan_run as text
    from coterie.proofs.worst_case import worst_case

    rows = RunRows(location_at(home.where), lambda plan: worst_case(plan, {}).turns)
    listed = rows.listing(everywhere=everywhere)
    shown = listed[:limit]
    details = rows.details(one.key for one in shown)
    found = [(one, details.get(one.key)) for one in shown]
    value = {"runs": [{"entry": one, "details": more} for one, more in found], "of": len(listed)}
    print_result(as_json, value, lambda: text.overview(found))
    return 0


def diff(
    a: Annotated[str, Arg("A", "A run's id, the beginning of one, or 'last'.")],
    b: Annotated[str, Arg("B", "Another one.")],
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Compare two runs turn by turn: which are the same, the first that differs, and what came of both.

    The exit status is 1 if a turn differs.
    """
    from coterie.execution.runs.comparison import compare
    from coterie.execution.runs.repository import find
    from coterie.interfaces.cli.text import plan_run as text

    where = home.where
    found = compare(find(a, where), find(b, where))
    print_result(as_json, found, lambda: text.comparison(found))
    return int(found.first != "")


def rm(
    names: Annotated[list[str], Arg("RUN", "Their ids, beginnings of these, or 'last'.")],
    as_json: AsJson = False,
    *,
    home: RemovalOptions,
) -> int:
    """Remove runs of this directory with their journals and all their files.

    A run that a process drives, or that has a git work tree, is not removed. A run of another directory needs its full
    id, and --in DIR or a confirmation on the terminal.
    """
    from coterie.execution.runs.removal import remove
    from coterie.execution.runs.repository import find

    state_dir, confirm = home.path, confirm_place("remove")
    found = {runs.folder(run): (runs, run) for runs, run in (find(name, state_dir, confirm) for name in names)}
    removed = []
    for runs, run in found.values():
        remove(runs, run)
        removed.append(run)
    print_result(as_json, {"removed": removed}, lambda: _removed(removed))
    return 0


def prune(
    age: Annotated[str, Opt("--older-than AGE", "30d, 12h or 1d12h.")], as_json: AsJson = False, *, home: RemovalOptions
) -> int:
    """Remove the runs of this directory that ended longer ago than an age.

    Runs that can be resumed stay, and those that have a git work tree.
    """
    import time

    from coterie.errors import UsageError
    from coterie.execution.runs import removal
    from coterie.team.formats.settings.durations import seconds

    longest = seconds(age, most=float("inf"))
    if longest is None or age.isdigit():  # bare digits would be milliseconds
        raise UsageError(f"--older-than {age!r} is not an age such as 30d, 12h or 1d12h")
    found = dict(removal.prune(home.path, time.time() - longest))
    removed = [run for run, why in found.items() if not why]
    kept = {run: why for run, why in found.items() if why}
    for run, why in kept.items():
        complain(f"kept {run}: {why}")
    print_result(as_json, {"removed": removed, "kept": kept}, lambda: _removed(removed))
    return 0


def _removed(runs: list[str]) -> str:
    return "\n".join(f"removed {run}" for run in runs) or "nothing to remove"
