"""Convert between offsets in a text and positions of the protocol.

A line ends, as for the reader of `.at` files, at a line feed, a carriage return, or both; pygls also counts other
characters. Within a line the protocol counts code units, of UTF-16 unless editor and server agree on another encoding;
offsets count characters.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property

from lsprotocol.types import Position, Range, TextDocumentContentChangeEvent, TextDocumentContentChangePartial
from msgspec import Struct

_LINE_END = re.compile(r"\r\n|\r|\n")

_UNITS: Mapping[str, Callable[[str], int]] = {
    "utf-8": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "utf-16": lambda text: len(text) + sum(letter > "\uffff" for letter in text),
    "utf-32": len,
}


class LineIndex(Struct, frozen=True, dict=True):
    """A text and the offsets of its lines.

    Attributes:
        encoding: The encoding of positions: `utf-8`, `utf-16` or `utf-32`.
    """

    content: str
    encoding: str = "utf-16"

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line."""
        return [0, *(match.end() for match in _LINE_END.finditer(self.content))]

    def offset(self, position: Position) -> int:
        """The offset of *position*, limited to the end of its line and of the text.

        A position within a character, such as between the two halves of an emoji, counts as before it.
        """
        if position.line >= len(self.starts):
            return len(self.content)
        start = self.starts[position.line]
        line = self._line(position.line)
        if line.isascii():
            return start + min(position.character, len(line))
        units, count = _UNITS[self.encoding], 0
        for at, letter in enumerate(line):
            count += units(letter)
            if count > position.character:
                return start + at
        return start + len(line)

    def position(self, offset: int) -> Position:
        """The position of *offset*."""
        line = bisect_right(self.starts, offset) - 1
        before = self.content[self.starts[line] : offset]
        return Position(line, len(before) if before.isascii() else _UNITS[self.encoding](before))

    def range(self, offset: int, length: int) -> Range:
        """The range of *length* characters at *offset*."""
        return Range(self.position(offset), self.position(offset + length))

    def changed(self, change: TextDocumentContentChangeEvent) -> "LineIndex":
        """The text after *change*."""
        if not isinstance(change, TextDocumentContentChangePartial):
            return LineIndex(change.text, self.encoding)
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return LineIndex(self.content[:start] + change.text + self.content[max(start, end) :], self.encoding)

    def _line(self, number: int) -> str:
        """The line *number*, without its end."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.content)
        return self.content[self.starts[number] : end].rstrip("\r\n")
