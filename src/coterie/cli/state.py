"""`coterie state rebuild`: rebuild the files that are derived from the journals."""

from pathlib import Path

from coterie.cli.options import STATE_DIR, AsJson, StateDir
from coterie.cli.output import complain, print_result


def rebuild(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Rewrite the journal of the earlier system (core.journal_file) for all loops that ran here.

    It is derived from the runs' journals, which do not change. Lines of active runs and of deleted runs are kept.
    """
    from coterie.runs import index
    from coterie.runs.attempt_folders import AttemptFolders
    from coterie.runs.kinds.loop.projection_file import rebuild
    from coterie.runs.repository import Runs

    made: dict[Path, int] = {}
    for home in index.homes(state_dir):
        runs = Runs(home)
        known = runs.list()
        living = [run for run in known if runs.status(run) == "running"]
        for run in living:
            complain(f"coterie: {run} is active and writes its lines itself: they are kept as they are")
        made |= rebuild(runs.store, [run for run in known if run not in living], AttemptFolders(runs))

    def text() -> str:
        lines = [f"{file}: {count} run{'s' * (count != 1)}" for file, count in made.items()]
        return "\n".join(lines) or "no loop here has such a file"

    print_result(as_json, [{"file": str(file), "runs": count} for file, count in made.items()], text)
    return 0
