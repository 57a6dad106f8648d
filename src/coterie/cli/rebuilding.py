"""`coterie state rebuild`: what is told from the journals, told anew."""

from pathlib import Path

from coterie.cli.options import STATE_DIR, AsJson, StateDir
from coterie.cli.output import say, say_json


def rebuild(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Write the journal of the earlier system (core.journal_file) anew for all loops that ran here.

    It is told from the runs' own journals, which are left as they are; lines of runs that are gone stay.
    """
    from coterie.journal.jsonl import JsonlStore
    from coterie.runs import index
    from coterie.runs.folder import DiskPlace
    from coterie.runs.looping.projecting import rebuild

    made: dict[Path, int] = {}
    for home in index.homes(state_dir):
        store = JsonlStore(home)
        made |= rebuild(store, store.list(), DiskPlace(store, Path.cwd()))
    if as_json:
        say_json([{"file": str(file), "runs": runs} for file, runs in made.items()])
    else:
        said = [f"{file}: {runs} run{'s' * (runs != 1)}" for file, runs in made.items()]
        say("\n".join(said) or "no loop has run here")
    return 0
