"""Where a name at the cursor is declared, and where else it stands."""

from dataclasses import dataclass
from pathlib import Path

from coterie.formats.at.lexer import STRING
from coterie.formats.at.tree import Directive, Root
from coterie.lsp.document import Document


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a file; *path* is None for the document that was asked."""

    offset: int
    length: int
    path: Path | None = None


def definition(document: Document, offset: int) -> list[Place]:
    """Where the name at *offset* is declared; of a file that is named there, its beginning."""
    if (file := _file_at(document, offset)) is not None:
        return [Place(0, 0, file)]
    one = document.names.at(offset)
    if one is None:
        return []
    return [Place(each.offset, each.length) for each in document.names.declarations(one.symbol)]


def references(document: Document, offset: int, *, declarations: bool = True) -> list[Place]:
    """Every place where the name at *offset* stands."""
    one = document.names.at(offset)
    if one is None:
        return []
    found = document.names.of(one.symbol)
    return [Place(each.offset, each.length) for each in found if declarations or not each.declares]


def _file_at(document: Document, offset: int) -> Path | None:
    """The file that an `import` or `include` names at *offset*, if it is there."""
    if document.path is None:
        return None
    items = [item for root in document.tree.items for item in (root.items if isinstance(root, Root) else [root])]
    for item in items:
        if isinstance(item, Directive):
            for word in item.words:
                if word.kind == STRING and word.offset <= offset <= word.offset + len(word.text):
                    file = document.path.parent / word.text[1:-1]
                    return file.resolve() if file.is_file() else None
    return None
