"""Files that a topology names, which must be in its folder or below."""

from pathlib import Path

from coterie.base import files
from coterie.base.diagnostics import Span, error
from coterie.team.formats import bounds
from coterie.team.planning.extension import Report


def find(folder: Path | None, name: str, owner: str, span: Span | None, report: Report) -> Path | None:
    """The file *name* of *owner*; None, with a report, if it is invalid."""
    if folder is None:
        hint = "read it from a file, or give plan() its folder"
        report(error("no-folder", f"{owner} names the file {name!r}, but the topology has no folder", span, hint))
        return None
    path = files.inside(folder, name)
    if path is None:
        message = f"{owner} names {name!r}, which is outside the topology's folder"
        report(error("outside-folder", message, span, f"copy it into {str(folder)!r}"))
    elif not files.is_file(path):
        from coterie.team.formats.files import near  # plans are read without readers

        report(error("no-such-file", f"{owner} names the file {name!r}, which does not exist", span, near(path)))
        return None
    return path


def read_text(folder: Path | None, name: str, owner: str, span: Span | None, report: Report) -> str:
    """The text of the file *name*; empty, with a report, if it is invalid."""
    path = find(folder, name, owner, span, report)
    if path is None:
        return ""
    try:
        return bounds.read_text(path)
    except OSError as failure:
        reason = failure.strerror or failure
        report(error("unreadable-file", f"{owner} names {name!r}, which cannot be read: {reason}", span))
        return ""
