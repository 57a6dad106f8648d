"""Keep what a run writes out of its user's commits."""

from pathlib import Path

from coterie.journal.lines import make_folder


def hide(folder: Path) -> None:
    """Make *folder*, and have git overlook all in it: it may lie in the user's own tree, where agents add files."""
    make_folder(folder)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
