"""Hide the files of runs from git, so that an agent's `git add -A` commits no journal, memory or waves."""

import os
import threading
from contextlib import suppress
from pathlib import Path

from coterie.base import files
from coterie.history.journal.lines import make_folder
from coterie.team.planning.place import RunPlace

IGNORE = ".gitignore"
_ALL = "*\n"
_PARTS = ("runs", "waves", "worktrees")
"""The folders that runs write in a state directory in which agents work."""


def hide_state(state_dir: Path, place: RunPlace | None, cwd: Path) -> None:
    """Make git ignore *state_dir* and the state directory in the settings of *place*.

    If such a folder contains the project itself, only the folders that runs write are ignored.
    """
    folders = [state_dir.absolute()]
    if place is not None and place.project:
        cwd = Path(place.work_dir or cwd)
        folders.append(cwd.absolute() / place.state_dir)
    for folder in dict.fromkeys(map(Path.resolve, folders)):
        here = cwd.resolve()
        holds_project = here.is_relative_to(folder) and not here.is_relative_to(folder / "worktrees")
        for part in _PARTS if holds_project else ("",):
            hide(folder / part)


def hide(folder: Path) -> None:
    """Make *folder*, and make git ignore it by a `.gitignore` in it; one with another content is replaced."""
    make_folder(folder)
    ignore = folder / IGNORE
    with suppress(OSError):
        if files.read(ignore, len(_ALL)) == _ALL.encode():
            return
    part = folder / f"{IGNORE}.{os.getpid()}.{threading.get_ident()}"
    files.write(part, _ALL.encode())
    part.replace(ignore)
