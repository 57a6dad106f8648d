"""Positions as editors count them, and the changes they send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import (
    Position,
    Range,
    TextDocumentContentChangePartial,
    TextDocumentContentChangeWholeDocument,
)

from coterie.interfaces.lsp.positions import LineIndex

LETTERS = st.sampled_from(["a", "é", "€", "🙂", "\n", "\r\n", "\u2028", "\x0c", "{", " "])
TEXTS = st.lists(LETTERS, max_size=12).map("".join)
ENCODINGS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS)
def test_an_offset_is_found_again_by_its_position(encoding: str, text: str) -> None:
    """Between two letters, whatever the letters; only the middle of a line end is no place of its own."""
    there = LineIndex(text, encoding)

    for offset in range(len(text) + 1):
        expected = offset - (text[offset - 1 : offset + 1] == "\r\n")
        assert there.offset(there.position(offset)) == expected


@pytest.mark.parametrize(
    ("encoding", "character"), [("utf-8", len("a🙂".encode())), ("utf-16", 3), ("utf-32", 2)], ids=list(ENCODINGS)
)
def test_characters_count_as_the_encoding_does(encoding: str, character: int) -> None:
    """An emoji is four, two or one."""
    assert LineIndex("x\r\na🙂b", encoding).position(5) == Position(1, character)


def test_only_line_ends_end_lines() -> None:
    """A form feed and a line separator are letters, as they are in the reader of files."""
    assert LineIndex("a\x0cb\u2028c\rd").position(6) == Position(1, 0)


def test_a_position_outside_is_the_nearest_one_inside() -> None:
    """Behind a line its end, behind the text its end, inside a letter before it."""
    text = LineIndex("🙂b\nc")

    assert text.offset(Position(0, 99)) == 2
    assert text.offset(Position(9, 0)) == 4
    assert text.offset(Position(0, 1)) == 0


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, edits=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4), TEXTS), max_size=6))
def test_after_any_changes_the_text_is_that_of_the_editor(
    encoding: str, text: str, edits: list[tuple[int, int, str]]
) -> None:
    """An editor that keeps lines of encoded letters, and sends what it replaces, ends with the same text."""
    ours = LineIndex(text, encoding)
    codec, size = ENCODINGS[encoding]
    for at, length, new in edits:
        start = min(at, len(text))
        end = min(start + length, len(text))
        start, end = start - _in_line_end(text, start), end + _in_line_end(text, end)
        place = Range(_place(text, start, codec, size), _place(text, end, codec, size))
        change = TextDocumentContentChangePartial(place, new)
        ours, text = ours.changed(change), text[:start] + new + text[end:]
        assert ours.content == text
    assert ours.changed(TextDocumentContentChangeWholeDocument("all new")).content == "all new"


def _in_line_end(text: str, offset: int) -> bool:
    return text[max(0, offset - 1) : offset + 1] == "\r\n"


def _place(text: str, offset: int, codec: str, size: int) -> Position:
    """The position of *offset*, counted in another way than the code under test does."""
    lines = text[:offset].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Position(len(lines) - 1, len(lines[-1].encode(codec)) // size)
