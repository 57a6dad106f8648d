"""The tools `Read`, `Grep`, `Glob`, `Write` and `Edit`, confined to a working directory.

A path is resolved once; then each of its folders is opened relative to the one before, without following links. So
nothing outside is reached, even if another process meanwhile replaces a folder with a link. Only regular files are
opened, without blocking. A walk follows no links. Sizes, counts and results are limited.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from coterie.agents.backends.models.rules import Refused, Rules, glob_expression
from coterie.base import files
from coterie.team.planning.permissions import Permissions
from coterie.team.topology.expressions import compiled

LARGEST = 10 << 20
"""The largest file that is read, searched or written, in bytes."""
RESULT = 60_000
"""The largest result, in characters."""
_LINES = 2000
_LINE = 2000
_MATCHES = 200
_MATCH = 300
_FOUND = 1000
_ENTRIES = 100_000
"""How many entries of folders one call inspects."""
_SEARCHED = 200 << 20
"""How many bytes one search reads."""
_DEEPEST = 64


class WorkFiles:
    """The tools of one attempt. A refused call raises `Refused`, a failed one `OSError`.

    Attributes:
        root: The working directory, without links.
        over: Set when the attempt is over; a call that still runs then changes nothing.
    """

    def __init__(
        self, folder: Path, permissions: Permissions, closed: Path | None = None, team: Sequence[Path] = ()
    ) -> None:
        self._root = os.path.realpath(folder)
        self.rules = Rules(permissions, self._root, closed, team)
        self.root, self.over = Path(self._root), False

    def read(self, path: str, offset: int = 1, limit: int = _LINES) -> str:
        """Read a text file of the working directory; each line is preceded by its number and a tab.

        Args:
            path: The file, relative to the working directory.
            offset: The first line to read, counted from 1.
            limit: The number of lines to read.
        """
        lines = _text(self._content("Read", path), path).splitlines()
        first = max(1, offset)
        shown: list[str] = []
        size = 0
        for n, line in enumerate(lines[first - 1 : first - 1 + min(max(1, limit), _LINES)], first):
            shown.append(f"{n}\t{_cut(line, _LINE)}")
            size += len(shown[-1]) + 1
            if size > RESULT:
                shown.pop()
                break
        if not shown:
            return f"({path} has {len(lines)} lines)"
        last = first + len(shown) - 1
        rest = f"\n({path} has {len(lines)} lines: continue with offset {last + 1})" if last < len(lines) else ""
        return "\n".join(shown) + rest

    def grep(self, pattern: str, path: str = ".", glob: str = "") -> str:
        """Search the files of the working directory for lines that match a regular expression.

        Args:
            pattern: The expression, in RE2 syntax; `(?i)` at its beginning ignores case.
            path: The file or folder to search, relative to the working directory.
            glob: Search only files whose names match, for example `*.py`.
        """
        expression = _compiled(pattern)
        found: list[str] = []
        read = 0
        walk = _Walk(self, "Grep", path)
        for name, fd in walk.open_files(_compiled(f"(?s){glob_expression(glob)}") if glob else None):
            with suppress(OSError), open(fd, "rb") as file:
                data = file.read(LARGEST + 1)
                read += len(data)
                if len(data) > LARGEST:
                    found.append(f"{name}: not searched, since it is larger than {LARGEST >> 20} MB")
                if len(data) > LARGEST or b"\0" in data[:8192]:
                    continue
                for n, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
                    if expression.search(line) is not None:
                        found.append(f"{name}:{n}: {_cut(line.strip(), _MATCH)}")
                        if len(found) >= _MATCHES:
                            break
            if len(found) >= _MATCHES or read > _SEARCHED:
                walk.incomplete = True
                break
        return walk.result(found, "no line matches")

    def glob(self, pattern: str, path: str = ".") -> str:
        """List the files of the working directory whose paths match a pattern, in alphabetical order.

        Args:
            pattern: For example `src/**/*.py`; `*` matches within a name, `**` across folders.
            path: The folder to begin in, relative to the working directory.
        """
        wanted = _compiled("(?s)" + glob_expression(pattern.removeprefix("./")))
        walk = _Walk(self, "Glob", path)
        found = sorted(islice(walk.paths(wanted), _FOUND + 1))
        walk.incomplete |= len(found) > _FOUND
        return walk.result(found[:_FOUND], "no file matches")

    def write(self, path: str, content: str) -> str:
        """Write a file of the working directory: a new one, with its folders, or all of an existing one.

        Args:
            path: The file, relative to the working directory.
            content: The whole content of the file.
        """
        return self._write("Write", path, content.encode("utf-8", "replace"))

    def edit(self, path: str, old: str, new: str, replace_all: bool = False) -> str:
        """Replace a text in a file of the working directory.

        Args:
            path: The file, relative to the working directory.
            old: The text to replace, exactly as in the file; it must occur once, unless all occurrences are replaced.
            new: The text to put in its place.
            replace_all: Replace all occurrences.
        """
        data, before = self._content("Edit", path), old.encode("utf-8", "replace")
        count = data.count(before) if before else 0
        if not before or before == new.encode("utf-8", "replace"):
            raise Refused("`old` is empty, or equals `new`")
        if not count:
            raise Refused(f"{path} does not contain the text `old`: read the file again")
        if count > 1 and not replace_all:
            raise Refused(f"{path} contains the text `old` {count} times: give more of it, or set `replace_all`")
        self._write("Edit", path, data.replace(before, new.encode("utf-8", "replace")))
        return f"replaced {count} occurrence{'s' if count > 1 else ''} in {path}"

    def place(self, tool: str, path: str) -> tuple[str, ...]:
        """The names on the path to the file or folder *path*, including its own; none is a link.

        Raises:
            Refused: If it is outside the working directory, or *tool* may not use it.
        """
        try:
            path.encode()
            real = os.path.realpath(os.path.join(self._root, path))
        except ValueError as error:
            raise Refused(f"{path!r} is not a valid path") from error
        named = os.path.normpath(os.path.join(self._root, path))
        if os.path.commonpath([real, self._root]) != self._root:
            raise Refused(f"{path!r} is outside the working directory")
        within = [each for each in (named, real) if os.path.commonpath([each, self._root]) == self._root]
        self.rules.check_file(tool, *(os.path.relpath(each, self._root) for each in within))
        names = tuple(os.path.relpath(real, self._root).split(os.sep))
        return () if names == (os.curdir,) else names

    def folder(self, names: Sequence[str], *, create: int = 0) -> AbstractContextManager[int]:
        """Open the folder at *names* below the working directory, and close it afterwards."""
        return files.folder_below(self._root, names, create=create)

    def _content(self, tool: str, path: str) -> bytes:
        *above, name = self.place(tool, path) or ("",)
        if not name:
            raise Refused(f"{path!r} is a folder")
        with self.folder(above) as fd, open(files.open_fd(name, dir_fd=fd), "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Refused(f"{path} is larger than {LARGEST >> 20} MB")
        return data

    def _write(self, tool: str, path: str, content: bytes) -> str:
        *above, name = self.place(tool, path) or ("",)
        if not name:
            raise Refused(f"{path!r} is a folder")
        if len(content) > LARGEST:
            raise Refused(f"the content is larger than {LARGEST >> 20} MB")
        with self.folder(above, create=0o777) as fd:
            mode = None
            with suppress(FileNotFoundError):  # a file that is not regular or not writable is not replaced
                old = files.open_fd(name, os.O_WRONLY, private=False, dir_fd=fd)
                mode = stat.S_IMODE(os.fstat(old).st_mode)
                os.close(old)
            part = f".{os.urandom(8).hex()}.part"
            new = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=fd)
            try:
                with open(new, "wb") as file:
                    file.write(content)
                    if mode is not None:
                        os.fchmod(new, mode)
                if self.over:
                    raise Refused("the attempt is over")
                os.replace(part, name, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=fd)
                raise
        return f"wrote {len(content)} bytes to {path}"


class _Walk:
    """A limited walk over the files below *path* that *tool* may use, without the folder `.git`.

    Attributes:
        incomplete: Whether files were left out because of a limit.
    """

    def __init__(self, work: WorkFiles, tool: str, path: str) -> None:
        self._work, self._tool = work, tool
        self._start, self._only = work.place(tool, path), ""
        self._left = _ENTRIES
        self.incomplete = False
        if self._start:
            *above, name = self._start
            with work.folder(above) as fd:
                mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                self._start, self._only = tuple(above), name

    def open_files(self, wanted: Any) -> Iterator[tuple[str, int]]:
        """The path of each file whose name matches *wanted*, and its descriptor, which the caller closes."""
        for folder, fd, names in self._folders():
            for name in names:
                if wanted is None or wanted.fullmatch(name) is not None:
                    with suppress(OSError):  # it is gone or unreadable
                        yield "/".join((*folder, name)), files.open_fd(name, dir_fd=fd)

    def paths(self, wanted: Any) -> Iterator[str]:
        """The path of each file whose path relative to the start of the walk matches *wanted*."""
        for folder, _, names in self._folders():
            for name in names:
                if wanted.fullmatch("/".join((*folder[len(self._start) :], name))) is not None:
                    yield "/".join((*folder, name))

    def result(self, found: Sequence[str], none: str) -> str:
        """*found*, one per line, as a text of limited size."""
        lines: list[str] = []
        size = 0
        for line in found:
            size += len(line) + 1
            if size > RESULT:
                self.incomplete = True
                break
            lines.append(line)
        more = ["(there is more: narrow the search)"] if self.incomplete else []
        return "\n".join([*(lines or [f"({none})"]), *more])

    def _folders(self) -> Iterator[tuple[tuple[str, ...], int, list[str]]]:
        """Each folder, its descriptor while it is open, and the names of its files."""
        stack = [self._start]
        while stack and not self._work.over:
            folder = stack.pop()
            inner: list[str] = []
            with suppress(OSError), self._work.folder(folder) as fd:  # it is gone or unreadable
                with os.scandir(fd) as scan:
                    entries = sorted(islice(scan, self._left), key=lambda entry: entry.name)
                self._left -= len(entries)
                usable = [entry for entry in entries if self._is_usable(folder, entry.name)]
                inner = [entry.name for entry in usable if entry.is_dir(follow_symlinks=False)]
                yield folder, fd, [entry.name for entry in usable if entry.is_file(follow_symlinks=False)]
            if self._only:
                return
            if inner and (self._left <= 0 or len(folder) >= _DEEPEST):
                self.incomplete = True
            else:
                stack += [(*folder, name) for name in reversed(inner)]

    def _is_usable(self, folder: tuple[str, ...], name: str) -> bool:
        if name == ".git" or (self._only and name != self._only):
            return False
        try:
            name.encode()
            self._work.rules.check_file(self._tool, "/".join((*folder, name)))
        except (Refused, UnicodeEncodeError):
            return False
        return True


def _text(data: bytes, path: str) -> str:
    if b"\0" in data[:8192]:
        raise Refused(f"{path} is not a text file")
    return data.decode("utf-8", "replace")


def _compiled(expression: str) -> Any:
    try:
        return compiled(expression)
    except ValueError as error:
        raise Refused(f"the pattern is not valid: {error}") from error


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]}…"
