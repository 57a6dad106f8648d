"""Keep what runs write out of git: an agent's `git add -A` commits no journal, memory or waves."""

import os
from pathlib import Path

from coterie import files
from coterie.journal.lines import make_folder
from coterie.planning.place import RunPlace

IGNORE = ".gitignore"
_ALL = "*\n"
_PARTS = ("runs", "waves", "worktrees")
"""What runs write in a state directory in which agents work."""


def hide_state(state_dir: Path, place: RunPlace | None, cwd: Path) -> None:
    """Have git ignore all of *state_dir*, and of the state directory that the settings of *place* name.

    In one that holds the project itself only the parts that runs write are ignored.
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
    """Make *folder* and have git ignore all of it; a `.gitignore` in it that does not say so is replaced."""
    make_folder(folder)
    ignore = folder / IGNORE
    if ignore.is_file() and not ignore.is_symlink() and ignore.read_text(errors="replace") == _ALL:
        return
    part = folder / f"{IGNORE}.{os.getpid()}"
    files.write(part, _ALL.encode())
    part.replace(ignore)
