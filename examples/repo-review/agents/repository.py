"""A folder of source files, under git or not, read within bounds."""

import ast
import os
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MAX_FILES = 50_000
MAX_FILE_BYTES = 1_000_000
MAX_PYTHON_BYTES = 8_000_000
"""How much Python one agent reads of the whole: some five seconds of parsing."""
PART_BYTES = 600_000
"""How much it reads of the part that is reviewed by default: what was changed last."""
RECENT = 500
"""How many of the last commits say what that is."""

QUOTE = 120
"""The longest quote of a line, in characters."""

_NOT_OURS = {"__pycache__", "build", "dist", "node_modules", "site-packages", "vendor", "venv"}
_TESTING = {"test", "tests", "testing", "testdata", "fixtures"}


@dataclass(frozen=True)
class Module:
    """One Python file. *tree* is None when it does not parse; then *error* says why and *error_line* where."""

    file: str
    lines: list[str]
    tree: ast.Module | None
    error: str = ""
    error_line: int = 1

    @property
    def is_test(self) -> bool:
        """Whether the file is there to test others."""
        return is_test(self.file)


class Repository:
    """The files below *root*: those that git knows or would add, without git all but the usual leftovers.

    Links, binary files, files above `MAX_FILE_BYTES` and names that cannot be printed are left out.

    Args:
        whole: Parse all Python files, not only those that were changed last.
    """

    def __init__(self, root: Path, *, whole: bool = False) -> None:
        if not root.is_dir():
            raise SystemExit(f"{root} is not a folder: name the repository with --input repo=PATH")
        self.root = root.resolve()
        self._most = MAX_PYTHON_BYTES if whole else PART_BYTES

    def git(self, *arguments: str) -> str | None:
        """What git prints, or None when it fails: no git, no repository, no commit."""
        command = ["git", "-C", str(self.root), *arguments]
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run(command, capture_output=True, check=True, timeout=90, env=environment)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace")

    @cached_property
    def head(self) -> str:
        """The commit that is checked out; empty without one."""
        return (self.git("rev-parse", "--verify", "--quiet", "HEAD") or "").strip()

    @cached_property
    def files(self) -> list[str]:
        """Paths relative to the root, sorted, at most `MAX_FILES`."""
        known = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--exclude=.coterie")
        names = set(known.split("\0")) if known else set(self._walk())
        return sorted(filter(self._is_readable, names))[:MAX_FILES]

    def _walk(self) -> Iterator[str]:
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = [name for name in subfolders if name not in _NOT_OURS and not name.startswith(".")]
            for name in names:
                yield Path(folder, name).relative_to(self.root).as_posix()

    def _is_readable(self, file: str) -> bool:
        path = self.root / file
        if not file or not file.isprintable() or "`" in file or path.is_symlink() or not path.is_file():
            return False
        return path.stat().st_size <= MAX_FILE_BYTES

    def lines(self, file: str) -> list[str]:
        """The lines of *file*, numbered as Python numbers them; none when it is binary, gone, or not in the folder."""
        path = (self.root / file).resolve()
        if not path.is_relative_to(self.root):
            return []
        try:
            data = path.read_bytes()
        except OSError:
            return []
        if b"\0" in data:
            return []
        text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
        return text.removesuffix("\n").split("\n")

    def quote(self, file: str, line: int) -> str:
        """Line *line* of *file* as a finding quotes it; empty when there is no such line."""
        lines = self.lines(file)
        return shorten(lines[line - 1]) if 1 <= line <= len(lines) else ""

    @cached_property
    def modules(self) -> list[Module]:
        """The Python files, parsed, code before tests: all, or those changed last; `notes` says what was left out."""
        chosen, size = set(), 0
        for file in self._latest() if self._most < MAX_PYTHON_BYTES else self.python:
            size += (self.root / file).stat().st_size
            if size > self._most and chosen:
                break
            chosen.add(file)
        return [_parse(file, lines) for file in self.python if file in chosen and (lines := self.lines(file))]

    def _latest(self) -> list[str]:
        """The Python files, those first that were committed last."""
        words = ("log", f"-n{RECENT}", "--no-merges", "--no-renames", "--relative", "-z", "--name-only", "--format=")
        known = dict.fromkeys((self.git(*words) or "").replace("\n", "\0").split("\0"))
        python = set(self.python)
        return [*(file for file in known if file in python), *(file for file in self.python if file not in known)]

    @cached_property
    def python(self) -> list[str]:
        """The Python files, code before tests."""
        return sorted((file for file in self.files if file.endswith(".py")), key=lambda file: (is_test(file), file))

    @property
    def notes(self) -> list[str]:
        """What a reader of the findings should know about how they were made."""
        if not self.python:
            return ["there are no Python files here"]
        if sum((self.root / file).stat().st_size for file in self.python) <= self._most:
            return []
        read = f"{len(self.modules)} of {len(self.python)} Python files were read"
        if self._most < MAX_PYTHON_BYTES:
            return [f"{read}, those changed last; --input whole=true reads all"]
        return [f"{read}, the rest is beyond the bound"]


def is_test(file: str) -> bool:
    """Whether the path says that the file is there to test others."""
    *folders, name = file.split("/")
    return bool(_TESTING.intersection(folders)) or name.startswith(("test_", "conftest")) or name.endswith("_test.py")


def shorten(line: str) -> str:
    """*line* without the blanks around it, at most `QUOTE` characters."""
    bare = line.strip()
    return bare if len(bare) <= QUOTE else bare[: QUOTE - 1] + "…"


def _parse(file: str, lines: list[str]) -> Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return Module(file, lines, ast.parse("\n".join(lines) + "\n"))
    except SyntaxError as error:
        return Module(file, lines, None, error.msg, min(max(error.lineno or 1, 1), len(lines)))
    except (ValueError, RecursionError, MemoryError) as error:
        return Module(file, lines, None, f"it is too deep or malformed ({type(error).__name__})")
