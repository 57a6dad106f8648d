"""Files that a topology names, which must be in its folder or below."""

from contextlib import suppress
from pathlib import Path

from coterie import files
from coterie.diagnostics import Span, did_you_mean, error
from coterie.formats import bounds
from coterie.planning.extension import Report


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
        report(error("no-such-file", f"{owner} names the file {name!r}, which does not exist", span, _near(path)))
        return None
    return path


def _near(path: Path) -> str:
    """What to do about a missing file."""
    with suppress(OSError):
        if found := did_you_mean(path.name, [one.name for one in path.parent.iterdir()]):
            return found
    return "create it, or correct the path, which is relative to the folder of this file"


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
