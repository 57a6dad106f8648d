"""Read the types of a schema: `title: string`, `notes?: array of string`, `level: low | high`."""

from typing import Any

from coterie.base.diagnostics import error, warning
from coterie.team.formats.at.fields import Report
from coterie.team.formats.at.lexer import NAME, STRING, Token
from coterie.team.formats.at.tree import BlockNode as Tree
from coterie.team.formats.at.tree import Entry, FieldNode, Raw, Stray, Value, WordsNode, span_of
from coterie.team.formats.at.values import text_of
from coterie.team.topology.block import Block

TYPES = ("string", "number", "integer", "boolean", "object")
"""The built-in types."""

_HINT = "write string, number, integer, boolean, object, a | b, array of TYPE, or the name of a schema"


def read_schema_fields(block: Tree, owner: str, report: Report) -> tuple[Block, ...]:
    """The fields of a schema: each with its `type` or `values`, and whether it is an `array` or `optional`."""
    found: dict[str, Block] = {}
    for item in block.items:
        field = _field(item, owner, report)
        if field is None:
            continue
        if field.name in found:
            message = f"{field.name!r} is given twice in {owner}"
            report(error("duplicate-field", message, field.span, "remove one of them"))
        found.setdefault(field.name, field)
    return tuple(found.values())


def _field(item: Entry, owner: str, report: Report) -> Block | None:
    match item:
        case FieldNode() if item.value is not None:
            return _typed(item.key, _words(item.value), False, owner, report)
        case Stray(skipped=[key, mark, colon, *words]) if key.kind in (NAME, STRING) and mark.kind == "?" and words:
            if colon.kind == ":":
                return _typed(key, [word for word in words if word.kind != ","], True, owner, report)
            return _unread(key, owner, report)
        case FieldNode() | Raw():
            return _unread(item.key, owner, report)
        case _:
            return _unread(next(item.tokens()), owner, report)


def _unread(at: Token, owner: str, report: Report) -> Block | None:
    message = f"{at.text!r} is not a field of {owner}"
    report(warning("unread-text", message, at.span, "write 'name: type'; it has no effect"))
    return None


def _words(value: Value) -> list[Token]:
    match value:
        case Token():
            return [value]
        case WordsNode():
            return value.words
        case _:
            return []


def _typed(key: Token, words: list[Token], optional: bool, owner: str, report: Report) -> Block | None:
    """The field *key* with the type *words*."""
    name, is_array = text_of(key), False
    if words and words[0].kind == "?":
        words, optional = words[1:], True
    if [word.text for word in words[:2]] == ["array", "of"]:
        words, is_array = words[2:], True
    texts = [text_of(word) for word in words]
    span = words[0].span if words else key.span
    fields: dict[str, Any] = {"array": True} if is_array else {}
    fields |= {"optional": True} if optional else {}
    if len(texts) == 1 and words[0].kind in (NAME, STRING):
        fields["type"] = texts[0]
        return Block(kind="field", name=name, fields=fields, span=key.span, spans={"type": span})
    if len(texts) > 2 and all(text == "|" for text in texts[1::2]) and len(texts) % 2:
        return Block(kind="field", name=name, fields={**fields, "values": tuple(texts[::2])}, span=key.span)
    whole = span_of(WordsNode(words)) if words else span
    report(error("bad-value", f"{name!r} of {owner} has no valid type", whole, _HINT))
    return None
