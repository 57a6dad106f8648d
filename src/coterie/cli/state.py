"""`coterie state rebuild`: what is told from the journals, told anew."""

from pathlib import Path

from coterie.cli.options import STATE_DIR, AsJson, StateDir
from coterie.cli.output import complain, say, say_json


def rebuild(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Write the journal of the earlier system (core.journal_file) anew for all loops that ran here.

    It is told from the runs' own journals, which are left as they are. Lines of runs that go on just now, and of runs
    that are gone, stay.
    """
    from coterie.runs import index
    from coterie.runs.attempt_folders import AttemptFolders
    from coterie.runs.kinds.loop.projecting import rebuild
    from coterie.runs.repository import Runs

    made: dict[Path, int] = {}
    for home in index.homes(state_dir):
        runs = Runs(home)
        known = runs.list()
        living = [run for run in known if runs.status(run) == "running"]
        for run in living:
            complain(f"coterie: {run} goes on just now, and writes its lines itself: they stay as they are")
        made |= rebuild(runs.store, [run for run in known if run not in living], AttemptFolders(runs))
    if as_json:
        say_json([{"file": str(file), "runs": count} for file, count in made.items()])
    else:
        said = [f"{file}: {count} run{'s' * (count != 1)}" for file, count in made.items()]
        say("\n".join(said) or "there is no loop here whose lines could be written")
    return 0
