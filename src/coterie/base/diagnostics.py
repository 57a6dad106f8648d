"""Diagnostics of files: a code, a span, a message, a hint and, if there is one, a fix.

A diagnostic is data. Readers and checks return all of them at once; the command line prints them, the language server
underlines them, and `coterie.load` raises them together.
"""

import re
from collections.abc import Iterable, Set
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

_LINE_END = re.compile(r"\r\n|\r|\n")  # the line ends of readers; `str.splitlines` has more
_BEFORE, _WIDTH = 80, 240
"""The characters of a line that are shown before the span, and in total; a prompt may be one long line."""


class Severity(Enum):
    """The severity; only an error prevents a file from running."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Span(Struct, frozen=True, order=True, gc=False):
    """A range in one line of a text.

    Attributes:
        line: Counted from 1.
        column: In characters, counted from 1.
        length: In characters; 0 points between two characters.
        offset: In characters from the start of the text, counted from 0.
    """

    line: int
    column: int
    length: int = 0
    offset: int = 0


class Located(Struct, frozen=True, eq=False):
    """A value that was read from a file; its spans do not count in a comparison.

    Attributes:
        uncompared: The attributes that equality and the hash leave out.
        unshown: Those that its text leaves out.
    """

    uncompared: ClassVar[Set[str]] = frozenset({"span", "spans"})
    unshown: ClassVar[Set[str]] = frozenset()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._compared() == other._compared()

    def __ne__(self, other: object) -> bool:  # the one of `Struct` compares identities
        return not self == other

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.unshown)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.uncompared)


class Fix(Struct, frozen=True):
    """A change that removes the diagnostic: replace *span*, which may cross lines, by *text*."""

    title: str
    span: Span
    text: str


class Diagnostic(Located, frozen=True, kw_only=True):
    """One problem in a file.

    Attributes:
        code: Stable and lower-case, `unknown-agent`; tools and users may rely on it.
        message: The problem, with the value; no full stop.
        span: Its position; None if it concerns the whole file.
        hint: The solution, shown beside the caret.
        file: The file as the user named it.
        text: The text of *file*, if it is not the file being read.
        secret: The line contains a secret, so it is not shown.
    """

    uncompared = unshown = frozenset({"text"})

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    hint: str = ""
    fix: Fix | None = None
    file: str = ""
    text: str = ""
    secret: bool = False

    @property
    def is_error(self) -> bool:
        """Whether it prevents the file from running."""
        return self.severity is Severity.ERROR

    @property
    def summary(self) -> str:
        """The diagnostic and its hint in one line."""
        return "; ".join(filter(None, (self._head, self.hint)))

    @property
    def _head(self) -> str:
        place = f"{self.file}:" if self.file else ""
        if self.span is not None:
            place += f"{self.span.line}:{self.span.column}:"
        return f"{place}{' ' if place else ''}{self.severity.value}[{self.code}]: {self.message}"

    def render(self, text: str = "") -> str:
        """Render the diagnostic with its line, from its `text` or from *text*, and a caret below."""
        head = f"{self._head}\n"
        lines = _lines(self.text or text)
        if self.span is None or self.secret or not 1 <= self.span.line <= len(lines):
            return head + (f"  {self.hint}\n" if self.hint else "")
        line, start = _part(lines[self.span.line - 1], self.span.column - 1)
        number = str(self.span.line)
        lead = "".join("\t" if c == "\t" else " " for c in line[:start])
        caret = "^" * max(1, min(self.span.length, len(line) - start))
        below = f"{lead}{caret} {self.hint}".rstrip()
        return f"{head}  {number} | {line}\n  {' ' * len(number)} | {below}\n"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: `code, severity, message, file, line, column, length, hint`."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": self.file,
            "line": self.span.line if self.span else None,
            "column": self.span.column if self.span else None,
            "length": self.span.length if self.span else None,
            "hint": self.hint,
        }


@lru_cache(maxsize=2)  # usually many diagnostics have the same text
def _lines(text: str) -> list[str]:
    return _LINE_END.split(text)


def _part(line: str, start: int) -> tuple[str, int]:
    """The part of *line* to show around its *start*-th character, and the index of that character in it."""
    first = max(0, start - _BEFORE) if len(line) > _WIDTH else 0
    shown = ("…" if first else "") + line[first : first + _WIDTH] + ("…" if first + _WIDTH < len(line) else "")
    return shown, start - first + bool(first)


def of_part(found: Diagnostic, file: str, span: Span | None) -> Diagnostic:
    """*found*, a diagnostic of *file*, reported at *span* in the file that names it."""
    place = f":{found.span.line}:{found.span.column}" if found.span is not None else ""
    return replace(found, message=f"{file}{place}: {found.message}", span=span, fix=None, file="", text="")


def error(code: str, message: str, span: Span | None = None, hint: str = "", fix: Fix | None = None) -> Diagnostic:
    """Create an error: the file cannot run."""
    return Diagnostic(code=code, severity=Severity.ERROR, message=message, span=span, hint=hint, fix=fix)


def warning(code: str, message: str, span: Span | None = None, hint: str = "", fix: Fix | None = None) -> Diagnostic:
    """Create a warning: the file runs, but perhaps not as intended."""
    return Diagnostic(code=code, severity=Severity.WARNING, message=message, span=span, hint=hint, fix=fix)


def note(code: str, message: str, span: Span | None = None, hint: str = "") -> Diagnostic:
    """Create a note: information that requires no change."""
    return Diagnostic(code=code, severity=Severity.NOTE, message=message, span=span, hint=hint)


def place(found: Diagnostic) -> tuple[bool, int]:
    """Sort the findings of a file by place, after what is never closed, which may cause findings further up."""
    return not found.code.startswith("unclosed-"), found.span.offset if found.span is not None else -1


LIKELY = 0.8
"""How alike two names are if one may only be a misspelling of the other, where any name could be meant."""


def did_you_mean(word: str, known: Iterable[str], alike: float = 0.6) -> str:
    """`did you mean 'reviewer'?`, or an empty text when nothing in *known* is close to *word*.

    One that differs only in case comes first; among close names, one that begins with *word*. Names that have a share
    of *alike* of their letters in common, in the same order, are close.
    """
    from difflib import get_close_matches  # most files are correct

    names = list(known)
    close = [name for name in names if name.lower() == word.lower()] or get_close_matches(word, names, cutoff=alike)
    best = next((name for name in close if name.startswith(word)), close[0] if close else "")
    return f"did you mean {best!r}?" if best else ""


def is_within_two_letters(word: str, known: Iterable[str]) -> bool:
    """Whether two letters inserted, removed or replaced make *word* one of *known*."""
    return any(_distance(word, name) <= 2 for name in known)


def _distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        above, row = row, [at]
        for n, wanted in enumerate(other):
            row.append(min(above[n] + (letter != wanted), above[n + 1] + 1, row[n] + 1))
    return row[-1]
