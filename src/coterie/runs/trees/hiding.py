"""Keep what a run writes out of its user's commits."""

from pathlib import Path

from coterie import files
from coterie.journal.lines import make_folder


def hide(folder: Path, *what: str) -> None:
    """Make *folder*, and have git overlook *what* in it: it may lie in the user's own tree, where agents add files.

    What the folder says of that already stays as it is.
    """
    make_folder(folder)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        files.write(ignore, "".join(f"{one}\n" for one in what).encode())
