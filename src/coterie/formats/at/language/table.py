"""Reads `notation.txt`, the table of the notation, into the descriptions of `coterie.formats.at.language.spec`."""

from collections.abc import Iterable
from pathlib import Path

from coterie.formats.at.language.spec import (
    BlockSpec,
    CountType,
    DurationType,
    Entries,
    FieldSpec,
    FlagType,
    Inner,
    JoinType,
    Kind,
    Many,
    NumberType,
    OneOf,
    Own,
    PolicyType,
    RateType,
    SchemaFields,
    TextType,
    Values,
    WordsType,
    WordType,
)

Row = tuple[str, list["Row"]]
"""A line and the lines below it that are indented further."""


def read_table() -> tuple[BlockSpec, ...]:
    """The blocks of a topology, in the order of the table."""
    text = Path(__file__).with_name("notation.txt").read_text(encoding="utf-8")
    return tuple(_top(line, rows) for line, rows in _rows(text.splitlines()))


def _rows(lines: Iterable[str]) -> list[Row]:
    top: list[Row] = []
    levels = [top]
    for line in lines:
        words = line.lstrip(" ")
        if words and not words.startswith("#"):
            row: Row = (words, [])
            del levels[(len(line) - len(words)) // 2 + 1 :]
            levels[-1].append(row)
            levels.append(row[1])
    return top


def _top(line: str, rows: list[Row]) -> BlockSpec:
    head, _, about = line.partition(" -- ")
    name, *flags = head.removeprefix("+ ").split()
    return _block(name, about, rows, named="NAME" in flags, open="open" in flags, executed=head.startswith("+"))


def _block(
    name: str, about: str, rows: list[Row], named: bool = False, open: bool = False, executed: bool = False
) -> BlockSpec:
    fields: list[FieldSpec] = []
    entries: list[Entries] = []
    example = ""
    for line, inner in rows:
        if line.startswith("e.g. "):
            example = line.removeprefix("e.g. ")
        elif line.startswith("-- "):  # where the block means something else than the field that holds it
            about = line.removeprefix("-- ")
        elif line.startswith("* "):
            entries.append(_entries(line, inner))
        else:
            fields.append(_field(line, inner))
    return BlockSpec(name, about, tuple(fields), tuple(entries), named, open, executed, example)


def _entries(line: str, rows: list[Row]) -> Entries:
    head, _, about = line.removeprefix("* ").partition(" -- ")
    word, *flags = head.split()
    name = flags.pop(0) if word == "NAME" else word
    block = _block(name, about, rows, open="open" in flags)
    return Entries("" if word == "NAME" else word, block, bare="bare" in flags, labelled="labelled" in flags)


def _field(line: str, rows: list[Row]) -> FieldSpec:
    head, _, about = line.partition(" -- ")
    mark = head[:2] if head[0] in "+~" else ""
    name, _, rest = head.removeprefix(mark).partition(": ")
    kind, _, default = rest.partition(" = ")
    return FieldSpec(name, _kind(kind, name, about, rows), about, default, bool(mark), mark == "~ ")


_KINDS: dict[str, Kind] = {
    "text": TextType(),
    "word": WordType(),
    "list": WordsType(),
    "names": WordsType(names=True),  # a list whose members name something
    "number": NumberType(),
    "duration": DurationType(),
    "seconds": DurationType(bare="seconds"),  # a duration; a number alone counts seconds
    "flag": FlagType(),
    "rate": RateType(),
    "join": JoinType(),
    "values": Values(),
    "schema": SchemaFields(),
}


def _kind(text: str, name: str, about: str, rows: list[Row]) -> Kind:
    """`number 0..2`, `one of a | b | …`, `block by FIELD`, `own "what it holds, in words"`."""
    if text in _KINDS:
        return _KINDS[text]
    word, _, rest = text.partition(" ")
    words = rest[1:-1]
    match word:
        case "text":
            return TextType(words=words)
        case "values":
            return Values(words=words)
        case "number":
            low, _, high = rest.partition("..")
            return NumberType(low=int(low), high=int(high))
        case "count":  # a whole number, from this one
            return CountType(low=int(rest))
        case "one":
            choices = rest.removeprefix("of ").split(" | ")
            return OneOf(tuple(choice for choice in choices if choice != "…"), open=choices[-1] == "…")
        case "policy":
            listed, _, also = rest.partition(" or ")
            return PolicyType(tuple(listed.split(" | ")), also)
        case "own":
            return Own(words=words, block=_block(name, about, rows) if rows else None)
        case "block":  # a text alone counts as its field FIELD
            return Inner(_block(name, about, rows), rest.removeprefix("by "))
        case "entries":
            return Many(_entries(*rows[0]))
    raise ValueError(f"no kind of field: {text!r}")
