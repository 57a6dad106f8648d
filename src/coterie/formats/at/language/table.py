"""Reads `notation.txt` into the descriptions of `coterie.formats.at.language.spec`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie.formats.at.language.spec import BlockSpec, Entries, FieldKind, FieldSpec

Row = tuple[str, list["Row"]]
"""A line and the more indented lines below it."""

JOINS = ("all", "any", "all-done", "none-failed")
"""The words for how many incoming arrows a node waits for; `N-of-M` is another."""

_KINDS = {
    "text": FieldKind("text", "a text"),
    "word": FieldKind("word", "a word"),  # a text without blanks
    "list": FieldKind("list", "a list"),  # of texts; a bare text is a list of one
    "names": FieldKind("names", "a list"),  # a list with the span of each item
    "number": FieldKind("number", "a number"),
    "duration": FieldKind("duration", "a duration: 30s, 5m, 1h, 2d"),
    "seconds": FieldKind("seconds", "a duration: 30s, 5m, 1h, 2d"),  # or a bare number of seconds
    "flag": FieldKind("flag", "true or false", ("true", "false")),
    "rate": FieldKind("rate", "a rate: 60/min; per sec, min, hour or day"),
    "join": FieldKind("join", " | ".join((*JOINS, "N-of-M")), JOINS),
    "values": FieldKind("values", "a block: { name: value }"),
    "schema": FieldKind(
        "schema",
        "a block: { name: type }; string, number, integer, boolean, object, a | b, array of TYPE, a schema",
    ),
}
"""The kinds without arguments."""


def read_table() -> tuple[BlockSpec, ...]:
    """The blocks of a topology, in the order of the table."""
    text = Path(__file__).with_name("notation.txt").read_text(encoding="utf-8")
    rows = _rows(text.splitlines())
    return tuple(_top(line, list(_expanded(inner, rows))) for line, inner in rows)


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


def _expanded(rows: list[Row], table: list[Row]) -> Iterator[Row]:
    """*rows* with those that `as` refers to in its place."""
    for line, inner in rows:
        if not line.startswith("as "):
            yield line, list(_expanded(inner, table))
            continue
        path, _, names = line.removeprefix("as ").partition(":")
        found = table
        for name in path.split():
            found = next(inner for line, inner in found if _name(line) == name)
        yield from (row for row in found if not names or _name(row[0]) in names.split())


def _name(line: str) -> str:
    return line.removeprefix("+ ").removeprefix("~ ").split(" ", 1)[0].removesuffix(":")


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
        elif line.startswith("-- "):  # where the meaning of the block differs from that of its field
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


def _kind(text: str, name: str, about: str, rows: list[Row]) -> FieldKind:
    """`number 0..2`, `one of a | b | …`, `block by FIELD`, `own "the words for it"`."""
    if text in _KINDS:
        return _KINDS[text]
    word, _, rest = text.partition(" ")
    match word:
        case "text" | "values":
            return FieldKind(word, rest[1:-1])
        case "number":
            low, high = map(int, rest.split(".."))
            return FieldKind("number", f"a number from {low} to {high}", low=low, high=high)
        case "count":
            return FieldKind("count", f"a whole number, {rest} or more", low=int(rest))
        case "one":
            words = rest.removeprefix("of ")
            choices = words.removesuffix(" | …").split(" | ")
            return FieldKind("one", words, tuple(choices), open=words.endswith("…"))
        case "policy":  # a word of the list, `fallback NAME`, or the deprecated word
            listed, _, deprecated = rest.partition(" or ")
            return FieldKind("policy", f"{listed} | fallback NAME", tuple(listed.split(" | ")), deprecated=deprecated)
        case "own":  # read by the reader of its block
            return FieldKind("own", rest[1:-1], block=_block(name, about, rows) if rows else None)
        case "block":
            block = _block(name, about, rows)
            words = "  ".join(f"{field.name}: …" for field in block.fields)
            return FieldKind("block", f"a block: {{ {words} }}", block=block, short=rest.removeprefix("by "))
        case "entries":
            entries = _entries(*rows[0])
            return FieldKind("entries", f"a block: {{ {entries.shape} }}", entries=entries)
    raise ValueError(f"unknown kind of field: {text!r}")
