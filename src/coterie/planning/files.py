"""Files that a topology names: they lie in its folder, or below it."""

from pathlib import Path

from coterie import bounds
from coterie.diagnostics import Span, error
from coterie.planning.extension import Report

MAX_TEXT = bounds.MAX_TEXT
"""Longer prompts are not read, in bytes."""


def inside(folder: Path, name: str) -> Path | None:
    """The file *name* of *folder*, symbolic links followed; None when it lies elsewhere."""
    try:
        path = (folder / name).resolve()
        return path if path.is_relative_to(folder.resolve()) else None
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return None


def find(folder: Path | None, name: str, owner: str, span: Span | None, report: Report) -> Path | None:
    """The file *name* that *owner* means, or None after reporting what is wrong with it."""
    if folder is None:
        hint = "read it from a file, or give plan() its folder"
        report(error("no-folder", f"{owner} names the file {name!r}, and the topology has no folder", span, hint))
        return None
    path = inside(folder, name)
    if path is None:
        message = f"{owner} names {name!r}, which lies outside the topology's folder"
        report(error("outside-folder", message, span, f"copy it into {str(folder)!r}"))
    elif not path.is_file():
        report(error("no-such-file", f"{owner} names the file {name!r}, which is not there", span))
        return None
    return path


def read_text(folder: Path | None, name: str, owner: str, span: Span | None, report: Report) -> str:
    """The text of the file *name*; empty after reporting what is wrong with it."""
    path = find(folder, name, owner, span, report)
    if path is None:
        return ""
    try:
        return bounds.read_bytes(path, MAX_TEXT).decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except OSError as failure:
        reason = failure.strerror or str(failure)
    report(error("unreadable-file", f"{owner} names {name!r}, which cannot be read: {reason}", span))
    return ""
