"""Find the declaration and the other occurrences of the name at the cursor."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.names import NameKind, Symbol
from coterie.team.formats.at.lexer import STRING, Token
from coterie.team.formats.at.tree import Directive, Root
from coterie.team.formats.at.values import string


class FileRange(Struct, frozen=True):
    """A range of a file.

    Attributes:
        path: None for the document itself.
        text: The content of another file.
    """

    offset: int
    length: int
    path: Path | None = None
    text: str = ""


def definition(document: Document, offset: int) -> list[FileRange]:
    """The declarations of the name at *offset*, or the start of the file whose name is there."""
    if (file := _file_at(document, offset)) is not None:
        return [FileRange(0, 0, file)]
    one = document.names.at(offset)
    if one is None:
        return []
    here = [FileRange(each.offset, each.length) for each in document.names.declarations(one.symbol)]
    included = included_declaration(document, one.symbol)
    return here or ([included] if included is not None else [])


def included_declaration(document: Document, symbol: Symbol) -> FileRange | None:
    """The declaration of the node *symbol* in an included file, if any."""
    node = document.facts.declared.get(symbol.name) if symbol.kind is NameKind.NODE else None
    if node is None or node.span is None:
        return None
    parts = document.facts.topology.included
    part = next((part for part in reversed(parts) if part.start <= node.span.offset), None)
    if part is None:
        return None
    return FileRange(node.span.offset - part.start, node.span.length, Path(part.file), part.text)


def references(document: Document, offset: int, *, declarations: bool = True) -> list[FileRange]:
    """All occurrences of the name at *offset*."""
    one = document.names.at(offset)
    if one is None:
        return []
    found = document.names.of(one.symbol)
    return [FileRange(each.offset, each.length) for each in found if declarations or not each.declares]


def named_files(document: Document) -> Iterator[tuple[Token, Path]]:
    """The tokens of `import` and `include` that name a file, with its path."""
    if document.path is None:
        return
    items = [item for root in document.tree.items for item in (root.items if isinstance(root, Root) else [root])]
    for item in items:
        if isinstance(item, Directive) and len(item.words) > 1 and item.words[1].kind == STRING:
            yield item.words[1], (document.path.parent / string(item.words[1])).resolve()


def _file_at(document: Document, offset: int) -> Path | None:
    """The existing file whose name is at *offset*, if any."""
    for word, path in named_files(document):
        if word.offset <= offset <= word.offset + len(word.text):
            return path if path.is_file() else None
    return None
