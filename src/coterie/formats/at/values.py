"""Convert values of the tree to plain data: texts, numbers, lists, mappings."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from coterie.formats.at.lexer import (
    DURATION,
    NAME,
    NUMBER,
    OPEN_STRING,
    SINGLE_QUOTED,
    STRING,
    Token,
    join,
)
from coterie.formats.at.tree import (
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
from coterie.topology.conditions import Scalar

QUOTED = frozenset({STRING, OPEN_STRING, SINGLE_QUOTED})

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


def plain(value: Value | None, durations: bool = False) -> Any:
    """A value as texts, numbers, booleans, lists and mappings.

    Args:
        durations: Convert durations to seconds; otherwise they remain texts.
    """
    match value:
        case None:
            return None
        case Token():
            return seconds(value.text) if durations and value.kind == DURATION else scalar(value)
        case WordsNode():
            return words_of(value)
        case ListValue():
            return [plain(item.value, durations) for item in value.items if item.value is not None]
        case BlockNode():
            return plain_items(value.items, durations)


def plain_items(items: Sequence[Entry], durations: bool = False) -> dict[str, Any]:
    """The items of a block as a mapping; `store a { … }` becomes `{"store": {"a": {…}}}`.

    Repeated keys become a list, so that nothing is lost.
    """
    result: dict[str, Any] = {}
    for path, value in _entries(items, durations):
        _put(result, path, value)
    return result


def _entries(items: Sequence[Entry], durations: bool) -> Iterator[tuple[list[str], Any]]:
    for item in items:
        match item:
            case FieldNode():
                yield [text_of(item.key)], plain(item.value, durations)
            case Raw():
                yield [text_of(item.key)], dedent(item.text.text)
            case BlockNode():
                yield [text_of(word) for word in item.head], plain_items(item.items, durations)
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
