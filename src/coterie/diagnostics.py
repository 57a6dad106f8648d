"""What a reader or a check has to say about a file: a code, a place, a sentence, a hint and, where one exists, a fix.

A diagnostic is data. Readers and checks return all they found at once; the command line prints them, the language
server underlines them, `coterie.load` raises them together.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from msgspec import Struct

_LINE_END = re.compile(r"\r\n|\r|\n")  # what readers count as lines; `str.splitlines` knows more
_BEFORE, _WIDTH = 80, 240
"""How many characters of a line are shown: before what is meant, and altogether. No terminal shows a whole prompt."""


class Severity(Enum):
    """How bad it is. Only an error keeps a file from running."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Span(Struct, frozen=True, order=True, gc=False):
    """A stretch of one line of a text.

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


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes the diagnostic: replace what stands at *span* (it may cross lines) by *text*."""

    title: str
    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding in a file.

    Attributes:
        code: Stable and lower-case, `unknown-agent`; tools and users may rely on it.
        message: What was found, with the value; no full stop.
        span: Where; None when it concerns the whole file.
        hint: What to do, shown beside the caret.
        file: The file as the user named it.
        text: The text of *file*, where that is another than the one being read.
        secret: The line holds what nobody else should read, so it is not shown.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    hint: str = ""
    fix: Fix | None = None
    file: str = ""
    text: str = field(default="", compare=False, repr=False)
    secret: bool = False

    @property
    def is_error(self) -> bool:
        """Whether this keeps the file from running."""
        return self.severity is Severity.ERROR

    def render(self, text: str = "") -> str:
        """The diagnostic for people, with the line it points at, of *text* or of its own, and a caret below."""
        place = f"{self.file}:" if self.file else ""
        if self.span is not None:
            place += f"{self.span.line}:{self.span.column}:"
        head = f"{place}{' ' if place else ''}{self.severity.value}[{self.code}]: {self.message}\n"
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


@lru_cache(maxsize=2)  # many diagnostics are shown of one text
def _lines(text: str) -> list[str]:
    return _LINE_END.split(text)


def _part(line: str, start: int) -> tuple[str, int]:
    """What is shown of *line* around its *start*-th character, and where in it that one is."""
    first = max(0, start - _BEFORE) if len(line) > _WIDTH else 0
    shown = ("…" if first else "") + line[first : first + _WIDTH] + ("…" if first + _WIDTH < len(line) else "")
    return shown, start - first + bool(first)


def of_part(found: Diagnostic, file: str, span: Span | None) -> Diagnostic:
    """*found* in *file*, told at *span*, where another file names that one."""
    place = f":{found.span.line}:{found.span.column}" if found.span is not None else ""
    return replace(found, message=f"{file}{place}: {found.message}", span=span, fix=None, file="", text="")


def error(code: str, message: str, span: Span | None = None, hint: str = "", fix: Fix | None = None) -> Diagnostic:
    """An error: the file cannot run."""
    return Diagnostic(code=code, severity=Severity.ERROR, message=message, span=span, hint=hint, fix=fix)


def warning(code: str, message: str, span: Span | None = None, hint: str = "", fix: Fix | None = None) -> Diagnostic:
    """A warning: it runs, but perhaps not as meant."""
    return Diagnostic(code=code, severity=Severity.WARNING, message=message, span=span, hint=hint, fix=fix)


def note(code: str, message: str, span: Span | None = None, hint: str = "") -> Diagnostic:
    """A note: something the reader should know, and need not change."""
    return Diagnostic(code=code, severity=Severity.NOTE, message=message, span=span, hint=hint)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'reviewer'?`, or an empty text when nothing in *known* is close to *word*."""
    from difflib import get_close_matches  # most files are right

    close = get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""
