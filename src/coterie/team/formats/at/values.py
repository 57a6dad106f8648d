"""Convert values of the tree to plain data: texts, numbers, lists, mappings."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from coterie.base.diagnostics import Diagnostic, Fix, error
from coterie.team.formats.at.lexer import (
    BAD,
    DURATION,
    NAME,
    NUMBER,
    OPEN_STRING,
    SINGLE_QUOTED,
    STRING,
    WORD,
    Token,
    join,
)
from coterie.team.formats.at.tree import (
    BlockNode,
    Directive,
    Entry,
    FieldNode,
    FlowBlock,
    ListValue,
    Raw,
    Stray,
    Value,
    WordsNode,
)
from coterie.team.topology.conditions import Scalar

QUOTED = frozenset({STRING, OPEN_STRING, SINGLE_QUOTED})
_WORDS = QUOTED | {NAME, WORD, NUMBER, DURATION}

_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]{1,15})([smhd])")


def string(token: Token) -> str:
    """The text of a quoted token. A backslash before a character without an escape is kept."""
    if token.kind == SINGLE_QUOTED:
        return token.text[1:-1]
    text = token.text[1:-1] if token.kind == STRING else token.text[1:]
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), text) if "\\" in text else text


def number(token: Token) -> int | float:
    """The value of a number token."""
    return float(token.text) if "." in token.text else int(token.text)


def seconds(text: str) -> float | None:
    """A duration such as `30s`, `5m`, `1h` or `2d` in seconds; None if *text* is not one."""
    match = _DURATION.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


def scalar(token: Token) -> Scalar:
    """The value of one word: a number, true or false, otherwise its text."""
    if token.kind == NUMBER:
        return number(token)
    if token.kind == NAME and token.text in ("true", "false"):
        return token.text == "true"
    return string(token) if token.kind in QUOTED else token.text


def timed(token: Token) -> Scalar:
    """The same; a duration in seconds."""
    found = seconds(token.text) if token.kind == DURATION else None
    return scalar(token) if found is None else found


def words_of(value: WordsNode) -> str:
    """Several words as one text, with each run of blanks and comments as one blank."""
    return "".join((" " if word.trivia and at else "") + word.text for at, word in enumerate(value.words))


def text_of(value: Value) -> str:
    """A value as a text."""
    match value:
        case Token():
            return string(value) if value.kind in QUOTED else value.text
        case WordsNode():
            return words_of(value)
        case ListValue() | BlockNode():
            return str(value).strip()


def plain(value: Value | None, word: Callable[[Token], Scalar] = scalar) -> Any:
    """A value as texts, numbers, booleans, lists and mappings.

    Args:
        word: Converts one word.
    """
    match value:
        case None:
            return None
        case Token():
            return word(value)
        case WordsNode():
            return words_of(value)
        case ListValue():
            return [plain(item.value, word) for item in value.items if item.value is not None]
        case BlockNode():
            return plain_items(value.items, word)


def plain_items(items: Sequence[Entry], word: Callable[[Token], Scalar] = scalar) -> dict[str, Any]:
    """The items of a block as a mapping; `store a { … }` becomes `{"store": {"a": {…}}}`.

    Repeated keys become a list, so that nothing is lost.
    """
    result: dict[str, Any] = {}
    for path, value in _entries(items, word):
        _put(result, path, value)
    return result


def misjoined(value: Value | Entry | None) -> Iterator[Diagnostic]:
    """An error for each place in *value* where two values would be read as one text, its quotation marks included."""
    match value:
        case WordsNode() if value.words[0].kind in QUOTED - {OPEN_STRING}:
            message = f"found {value.words[1].text!r} behind a text"
            yield error("unexpected-text", message, value.words[1].span, "write one text, or a list: [a, b]")
        case ListValue():
            for item in value.items:
                yield from _comma_missing(item.value) if isinstance(item.value, WordsNode) else misjoined(item.value)
        case FieldNode():
            yield from misjoined(value.value)
        case BlockNode():
            for entry in value.items:
                yield from misjoined(entry)


def _comma_missing(value: WordsNode) -> Iterator[Diagnostic]:
    is_reported = any(word.kind in (BAD, OPEN_STRING) for word in value.words)
    for before, word in () if is_reported else pairwise(value.words):
        if word.trivia or ({before.kind, word.kind} <= _WORDS and {before.kind, word.kind} & QUOTED):
            fix = Fix("insert the comma", before.end, ",")
            message = f"a comma is missing before {word.text!r}"
            yield error("missing-comma", message, before.end, "write '[a, b]'", fix)
            return


def _entries(items: Sequence[Entry], word: Callable[[Token], Scalar]) -> Iterator[tuple[list[str], Any]]:
    for item in items:
        match item:
            case FieldNode(block=None):
                yield [text_of(item.key)], plain(item.value, word)
            case FieldNode(block=BlockNode() as block):
                yield [text_of(item.key)], {"": plain(item.value, word), **plain_items(block.items, word)}
            case Raw():
                yield [text_of(item.key)], dedent(item.text.text)
            case BlockNode():
                yield [text_of(each) for each in item.head], plain_items(item.items, word)
            case Directive():
                yield [item.words[0].text], words_of(WordsNode(item.words[1:]))
            case FlowBlock() | Stray():
                first, *rest = item.tokens()
                yield ["text"], first.text + join(rest)


def _put(into: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = into.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = into[key] = {"": inner}
        into = inner
    key = path[-1]
    if key not in into:
        into[key] = value
    elif isinstance(into[key], _Several):
        into[key].append(value)
    else:
        into[key] = _Several([into[key], value])


class _Several(list[Any]):
    """The values of a repeated key."""


def dedent(raw: str) -> str:
    """The text of a prompt block, without its common indentation and surrounding blank lines."""
    first, _, rest = raw.replace("\r\n", "\n").replace("\r", "\n").partition("\n")
    text = textwrap.dedent(rest)
    if first.strip():
        text = f"{first.strip()}\n{text}"
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)
