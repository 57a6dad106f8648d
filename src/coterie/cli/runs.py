"""`coterie runs …`: list and remove runs."""

from typing import Annotated

from coterie.cli.options import AsJson, HomeOptions
from coterie.cli.output import complain, print_result, width
from coterie.cli.parameters import Argument, Option
from coterie.cli.places import RemovalOptions, confirm_place


def list_(
    limit: Annotated[int, Option(min=1, metavar="N", help="List at most N runs (20).", show_default=False)] = 20,
    everywhere: Annotated[
        bool, Option("--all", help="List the runs of other directories of this machine, too.")
    ] = False,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """List the runs of this directory, newest first.

    Shows each run's team, start, status, duration, cost, working directory and prompt.
    """
    from coterie.cli.text import runs as text
    from coterie.runs.statistics import newest

    found = [*newest(home.where, limit + 1, everywhere=everywhere)]
    older, found = found[limit:], found[:limit]
    print_result(as_json, found, lambda: text.runs(found, width(), everywhere=everywhere))
    if older:
        complain(f"there are older runs: --limit {limit * 10} lists more")
    return 0


def remove(
    names: Annotated[
        list[str],
        Argument(metavar="RUN", help="Their ids, beginnings of these, or 'last'."),
    ],
    as_json: AsJson = False,
    *,
    home: RemovalOptions,
) -> int:
    """Remove runs of this directory with their journals and all their files.

    A run that a process drives, or that has a git work tree, is not removed. A run of another directory needs its full
    id, and --in DIR or a confirmation on the terminal.
    """
    from coterie.runs.removal import remove
    from coterie.runs.repository import find

    state_dir, confirm = home.path, confirm_place("remove")
    found = {runs.folder(run): (runs, run) for runs, run in (find(name, state_dir, confirm) for name in names)}
    removed = []
    for runs, run in found.values():
        remove(runs, run)
        removed.append(run)
    print_result(as_json, {"removed": removed}, lambda: _removed(removed))
    return 0


def prune(
    age: Annotated[str, Option("--older-than", metavar="AGE", help="30d, 12h or 1d12h.")],
    as_json: AsJson = False,
    *,
    home: RemovalOptions,
) -> int:
    """Remove the runs of this directory that ended longer ago than an age.

    Runs that can be resumed stay, and those that have a git work tree.
    """
    import time

    from coterie.errors import UsageError
    from coterie.formats.settings.durations import seconds
    from coterie.runs import removal

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
