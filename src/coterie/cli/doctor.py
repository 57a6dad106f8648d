"""`coterie doctor`: what may go wrong on this machine and in this folder, and what to do about it."""

from pathlib import Path

from coterie.cli.options import STATE_DIR, AsJson, StateDir
from coterie.cli.output import say, say_json


def doctor(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Look for what may go wrong on this machine and in this folder.

    Python and what is installed, keys of model providers (whether they are set, never what they are), the state
    directory with its disk and locks, runs that did not end, and the teams of the current folder. Nothing is changed.
    The status is 1 when something does not work.
    """
    from coterie import __version__
    from coterie.cli.text import findings as text
    from coterie.runs.checkups import Examinee, examine

    found = examine(Examinee(Path(), state_dir, __version__))
    failed = any(one.status == "fail" for one in found)
    if as_json:
        say_json({"ok": not failed, "findings": found})
    else:
        say(text.findings(found))
    return int(failed)
