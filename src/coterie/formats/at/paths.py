"""Rebase the relative paths of an included fragment: prompts of its agents, and inner topologies."""

from pathlib import PurePosixPath

from msgspec.structs import replace

from coterie.formats.at.lexer import STRING, Token
from coterie.formats.at.placeholders import filled_in, quoted
from coterie.formats.at.tree import BlockNode, Entry, FieldNode
from coterie.formats.at.values import string
from coterie.formats.prompts import is_path


def rebased(entry: Entry, folder: PurePosixPath) -> Entry:
    """*entry* with the paths of an agent's prompt and inner topology, which are relative to *folder*, rebased."""
    if not isinstance(entry, BlockNode) or entry.keyword != "agent" or folder == PurePosixPath():
        return entry
    return replace(entry, items=[_rebased_item(item, folder) for item in entry.items])


def _rebased_item(item: Entry, folder: PurePosixPath) -> Entry:
    match item:
        case FieldNode(value=Token(kind=kind) as value) if kind == STRING and (
            item.key.text == "topology" or (item.key.text == "prompt" and is_path(string(value)))
        ):
            return replace(item, value=filled_in(value, STRING, quoted(str(folder / string(value)))))
        case BlockNode() if item.keyword in ("extensions", "coterie"):
            return replace(item, items=[_rebased_item(inner, folder) for inner in item.items])
        case _:
            return item
