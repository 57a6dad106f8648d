"""Read a file that describes a team, in whichever notation it is written."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from coterie.diagnostics import Diagnostic, did_you_mean, error
from coterie.formats.at import Reading, read_at
from coterie.formats.at.tree import File
from coterie.topology.checks import check
from coterie.topology.model import Topology

MAX_BYTES = 16 * 1024 * 1024
"""Larger files are not read."""

SUFFIXES = (".at",)
"""The file names that are understood, by their ends."""

_SAFE = frozenset({"duplicate-name", "duplicate-output", "no-model", "unknown-agent", "unknown-value"})
"""What is wrong whatever the unread part of a flow says."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text, what it describes, and what was found in it.

    Attributes:
        text: The whole text, as it was read; empty when it could not be.
        file: The path, as the user named it.
        topology: None when there is none in the text.
        diagnostics: In the order of the text; what concerns the whole file comes first.
        tree: The syntax tree, for an editor; None when there is no text.
    """

    text: str
    file: str
    topology: Topology | None
    diagnostics: tuple[Diagnostic, ...]
    tree: File | None = field(default=None, compare=False, repr=False)

    @property
    def has_errors(self) -> bool:
        """Whether it cannot run."""
        return any(diagnostic.is_error for diagnostic in self.diagnostics)


def read(path: Path) -> Source:
    """Read and check the file at *path*. Whatever is wrong with it, its content included, is a diagnostic."""
    file = str(path)
    try:
        text = _text(path)
    except _Unreadable as unreadable:
        found = error("unreadable-file", f"{file!r} cannot be read: {unreadable.reason}", hint=unreadable.hint)
        return Source("", file, None, (replace(found, file=file),))
    return read_text(text, file, path.parent)


def read_text(text: str, file: str = "", folder: Path | None = None) -> Source:
    """Read and check a text in the `.at` notation.

    Args:
        file: The path it stands for, shown in diagnostics.
        folder: Where the paths of prompts begin; without it, every prompt is the text it is.
    """
    reading = read_at(text, file, folder)
    found = [*reading.diagnostics, *_checked(reading)]
    found.sort(key=lambda diagnostic: (diagnostic.span.offset if diagnostic.span else -1, diagnostic.code))
    return Source(text, file, reading.topology, tuple(replace(each, file=file) for each in found), reading.tree)


def _checked(reading: Reading) -> list[Diagnostic]:
    """What the checks find, less what may only be so because a part of the text could not be read."""
    if reading.topology is None or reading.lost_items:
        return []
    found = check(reading.topology)
    return [each for each in found if each.code in _SAFE] if reading.lost_flow else found


class _Unreadable(Exception):
    """A file cannot be read as text."""

    def __init__(self, reason: str, hint: str = "") -> None:
        self.reason, self.hint = reason, hint
        super().__init__(reason)


def _text(path: Path) -> str:
    """The content of *path* as it is, line ends included."""
    if path.suffix not in SUFFIXES and not path.is_dir():
        close = did_you_mean(path.suffix, SUFFIXES)
        raise _Unreadable(f"{path.suffix!r} is no notation coterie knows", close or "use .at")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as failure:
        raise _Unreadable(failure.strerror or str(failure)) from None
    except ValueError as failure:  # a path with a NUL character
        raise _Unreadable(str(failure)) from None
    if len(data) > MAX_BYTES:
        raise _Unreadable(f"it is larger than {MAX_BYTES // 2**20} MB", "split the team into several topologies")
    try:
        return data.decode()
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise _Unreadable(f"line {line} is not UTF-8 text", "save it as UTF-8") from None
