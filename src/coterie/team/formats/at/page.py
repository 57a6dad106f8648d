"""Write tokens in lines, with indentation, comments and columns.

Comments are in the trivia before a token. The page keeps them where they were, at the end of a line or on separate
lines, and keeps at most one blank line. `coterie.team.formats.at.layout` decides which tokens begin a line.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from coterie.team.formats.at.lexer import Token

WIDTH = 100
"""Maximum length of a list or statement on one line, in characters."""

STEP = 2
"""Blanks per level of indentation."""

_LINE_END = re.compile(r"\r\n|\r|\n")


class Cell(Struct):
    """A part of a line. Cells with equal keys in consecutive lines are aligned."""

    key: str
    gap: str
    text: str


class PageLine(Struct):
    """A line; a blank line has no cells."""

    indent: int = 0
    cells: list[Cell] = []

    def __str__(self) -> str:
        text = "".join(cell.gap + cell.text for cell in self.cells)
        return " " * self.indent + text if text else ""


class Page:
    """The lines of a file being written.

    Attributes:
        indent: Indentation of the current line, in blanks.

    Args:
        part: Only a part of a file is written: the trivia before its first token is dropped.
    """

    def __init__(self, part: bool = False) -> None:
        self._lines: list[PageLine] = []
        self._line: PageLine | None = None
        self._fresh = True
        self._pieces = [""]  # from the trivia of dropped tokens
        self._top = True
        self._ignores = part
        self._comments_at = 0
        self._below = 0  # the indentation requested by `line`, before any comments
        self.indent = 0

    @property
    def column(self) -> int:
        """The length of the current line."""
        return self.indent if self._fresh or self._line is None else len(str(self._line))

    @property
    def only_line(self) -> str | None:
        """Everything written so far, or None if that is more than one line."""
        text = str(self._line).strip() if self._line is not None else ""
        return None if self._lines or _LINE_END.search(text) else text

    def line(self, indent: int, comments_at: int | None = None) -> None:
        """Begin a line with the next token; comments before it are indented by *comments_at*, by default like it."""
        self._fresh = True
        self._below = self.indent = indent
        self._comments_at = indent if comments_at is None else comments_at

    def top(self) -> None:
        """Drop blank lines before the next token."""
        self._top = True

    def cell(self, key: str) -> None:
        """Begin a cell with the next token."""
        if self._line is not None:
            self._line.cells.append(Cell(key, "", ""))

    def put(self, token: Token, gap: str = " ", last: bool = False) -> None:
        """Write *token* after *gap*, or on a new line if one was requested or a comment precedes it.

        Args:
            last: It closes a block, so blank lines before it are dropped.
        """
        pieces = [""] if self._ignores else _joined(self._pieces, _pieces(token.trivia))
        self._pieces = [""]
        self._ignores = False
        if not self._fresh and not any(pieces):
            self._append(token.text, gap)
            return
        if not self._fresh:
            self.indent = self._comments_at = self._below if last else self._below + 2 * STEP
        blank = self._comments(pieces)
        if blank and not last and not self._top:
            self._break()
        self._begin(token.text, self.indent)

    def text(self, text: str) -> None:
        """Write *text* unchanged."""
        self._append(text, "")

    def leave_out(self, token: Token | None) -> None:
        """Drop *token*, but keep the comments before it."""
        if token is not None:
            self._pieces = _joined(self._pieces, _pieces(token.trivia))

    def finish(self, end: Token, line_end: str) -> str:
        """The whole text, with the comments before *end*, the end of the file."""
        self.line(0)
        self._comments([*_joined(self._pieces, _pieces(end.trivia)), ""])
        self._end()
        _align(self._lines)
        return "".join(f"{line}{line_end}" for line in self._lines)

    def _comments(self, pieces: Sequence[str]) -> bool:
        """Write the comments of *pieces*; returns whether a blank line follows the last."""
        if self._line is not None and pieces[0]:
            self._append(pieces[0], "  ")
        blank = False
        for at, comment in enumerate(pieces):
            if at == 0 and self._line is not None:
                continue
            if comment:
                if blank and not self._top:
                    self._break()
                self._begin(comment, self._comments_at)
                blank = False
            else:
                blank = blank or 0 < at < len(pieces) - 1
        return blank

    def _append(self, text: str, gap: str) -> None:
        if self._line is None:
            self._begin(text, self.indent)
        elif not self._line.cells[-1].text:
            self._line.cells[-1] = Cell(self._line.cells[-1].key, gap, text)
        else:
            self._line.cells[-1].text += gap + text

    def _begin(self, text: str, indent: int) -> None:
        self._end()
        self._line = PageLine(indent, [Cell("", "", text)])
        self._fresh = self._top = False

    def _break(self) -> None:
        self._end()
        self._lines.append(PageLine())

    def _end(self) -> None:
        if self._line is not None:
            self._lines.append(self._line)
            self._line = None


def _pieces(trivia: str) -> list[str]:
    """The comment of each line of *trivia*, empty if there is none."""
    if not trivia.strip(" "):
        return [""]
    return [piece[piece.index("#") :].rstrip() if "#" in piece else "" for piece in _LINE_END.split(trivia)]


def _joined(first: list[str], then: list[str]) -> list[str]:
    """The pieces before and after a dropped token; if it was alone on its line, the line is dropped."""
    if len(first) > 1 and len(then) > 1 and not then[0]:
        return [*first[:-1], *then[1:]]
    return [*first[:-1], *then] if not first[-1] else [*first, *then]


def _align(lines: Sequence[PageLine], column: int = 0) -> None:
    """Align equal cells of consecutive lines, from *column* on."""
    start = 0
    while start < len(lines):
        end = start + 1
        if len(lines[start].cells) > column + 1:
            while end < len(lines) and _alike(lines[start], lines[end], column):
                end += 1
            if end > start + 1:
                _pad(lines[start:end], column)
                _align(lines[start:end], column + 1)
        start = end


def _alike(one: PageLine, other: PageLine, column: int) -> bool:
    if len(other.cells) <= column + 1 or one.indent != other.indent:
        return False
    return one.cells[column].key == other.cells[column].key and one.cells[column + 1].key == other.cells[column + 1].key


def _pad(lines: Sequence[PageLine], column: int) -> None:
    widest = max(len(line.cells[column].text) for line in lines)
    if all(len(str(line)) + widest - len(line.cells[column].text) <= WIDTH for line in lines):
        for line in lines:
            line.cells[column].text = line.cells[column].text.ljust(widest)
