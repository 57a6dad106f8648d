"""The files of one topology: each is read once, and a size limit applies to all of them together."""

import errno
from contextlib import suppress
from pathlib import Path

from coterie.base import files
from coterie.base.diagnostics import Span, did_you_mean
from coterie.team.formats import bounds

MAX_BYTES = bounds.MAX_TEXT
"""Size limit of a file, and of all files of one topology together."""

YAML = (".yaml", ".yml")
"""Suffixes of pattern files and of supervised systems."""

SYSTEM_FILES = ("topology.yaml", "topology.yml")
"""Names of files that are systems unless they hold a pattern."""

SUFFIXES = (".at", *YAML)
"""Suffixes of supported files."""


class Unreadable(Exception):
    """A file cannot be read as text."""

    def __init__(self, reason: str, hint: str = "", code: str = "unreadable-file", span: Span | None = None) -> None:
        self.reason, self.hint, self.code, self.span = reason, hint, code, span
        super().__init__(reason)


class Library:
    """Texts by path, cached while a topology and its files are read."""

    def __init__(self) -> None:
        self._texts: dict[Path, str] = {}
        self._left = MAX_BYTES

    def text(self, path: Path) -> str:
        """The content of *path*, line endings unchanged.

        Raises:
            Unreadable: If it cannot be read.
        """
        if path not in self._texts:
            data = _read(path, self._left)
            self._left -= len(data)
            self._texts[path] = _decoded(data)
        return self._texts[path]


def find(folder: Path, name: str, within: Path) -> Path:
    """Resolve the file *name* relative to *folder*, following symbolic links.

    Raises:
        Unreadable: If it does not exist or is outside *within*.
    """
    path = files.inside(folder, name, within)
    if path is None:
        raise Unreadable("is outside the topology's folder", f"copy it into {str(within)!r}", "outside-folder")
    if not files.is_file(path):
        raise Unreadable("does not exist", near(path), "no-such-file")
    return path


def near(path: Path) -> str:
    """Advice about a missing file."""
    with suppress(OSError):
        if found := did_you_mean(path.name, [one.name for one in path.parent.iterdir()]):
            return found
    return "create it, or correct the path, which is relative to the folder of this file"


def _read(path: Path, most: int) -> bytes:
    if path.suffix not in SUFFIXES and files.is_file(path):
        close = did_you_mean(path.suffix, SUFFIXES)
        what = f"{path.suffix!r} is" if path.suffix else "a name without a suffix is in"
        close = close or "use .at, or .yaml for a pattern or a system"
        if path.suffix == ".py":
            close += f"; a program in it is {path.name}:NAME"
        raise Unreadable(f"{what} no notation coterie knows", close)
    try:
        return files.read(path, most, follow=True)
    except OSError as failure:
        if failure.errno == errno.EOVERFLOW:
            what = "it is" if most == MAX_BYTES else "it and the files it includes are"
            raise Unreadable(
                f"{what} larger than {MAX_BYTES // 2**20} MB", "split the team into several topologies", span=Span(1, 1)
            ) from None
        hint = "write the text to a file and pass its name" if failure.errno == errno.EINVAL else ""
        hint = near(path) if failure.errno == errno.ENOENT else hint
        raise Unreadable(failure.strerror or str(failure), hint) from None
    except ValueError:
        raise Unreadable("its name contains a NUL character") from None


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as failure:
        before = data[: failure.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        span = Span(line, column, 1, len(before))
        raise Unreadable(f"line {line} is not UTF-8 text", "save it as UTF-8", span=span) from None
