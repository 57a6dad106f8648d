"""Rebase the relative paths of an included fragment: prompts of its agents, and inner topologies."""

from pathlib import PurePosixPath

from coterie.formats.at.lexer import STRING, Token
from coterie.formats.at.placeholders import filled_in, quoted
from coterie.formats.at.tree import BlockNode, Entry, FieldNode
from coterie.formats.at.values import string


def moved(entry: Entry, folder: PurePosixPath) -> Entry:
    """*entry* with the paths of an agent's prompt and inner topology, which are relative to *folder*, rebased."""
    if not isinstance(entry, BlockNode) or entry.keyword != "agent" or folder == PurePosixPath():
        return entry
    items = [_moved_item(item, folder) for item in entry.items]
    return BlockNode(entry.head, entry.colon, entry.open, items, entry.close, entry.comma)


def _moved_item(item: Entry, folder: PurePosixPath) -> Entry:
    match item:
        case FieldNode() if item.key.text == "prompt" and isinstance(item.value, Token) and _is_path(item.value):
            return _with_path(item, folder)
        case FieldNode() if item.key.text == "topology" and isinstance(item.value, Token) and item.value.kind == STRING:
            return _with_path(item, folder)
        case BlockNode() if item.keyword in ("extensions", "coterie"):
            items = [_moved_item(inner, folder) for inner in item.items]
            return BlockNode(item.head, item.colon, item.open, items, item.close, item.comma)
        case _:
            return item


def _is_path(token: Token) -> bool:
    text = string(token) if token.kind == STRING else ""
    return text.endswith((".md", ".txt")) and not any(letter.isspace() for letter in text)


def _with_path(field: FieldNode, folder: PurePosixPath) -> FieldNode:
    value = field.value
    assert isinstance(value, Token)
    path = filled_in(value, STRING, quoted(str(folder / string(value))))
    return FieldNode(field.key, field.colon, path, field.comma)
