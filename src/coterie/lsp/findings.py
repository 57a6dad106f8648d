"""What is wrong with a document, each at a place that can be underlined, and what mends it."""

from dataclasses import dataclass
from pathlib import Path

from coterie.diagnostics import Diagnostic, Fix
from coterie.formats.at.tree import Root
from coterie.lsp.document import Document
from coterie.lsp.places import named_files


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic and the stretch of the document that it is about; of another file's, where that is named.

    Attributes:
        message: With the hint, and the place when that is in another file.
    """

    diagnostic: Diagnostic
    message: str
    offset: int
    length: int

    @property
    def fix(self) -> Fix | None:
        """What mends it, if that is known."""
        return self.diagnostic.fix


def findings(document: Document) -> list[Finding]:
    """All that `coterie topology validate` would say, in the order of the text."""
    return [_finding(document, one) for one in document.diagnostics]


def mendable(document: Document, offset: int, length: int = 0) -> list[Finding]:
    """The findings with a fix that touch the *length* characters from *offset*."""
    return [
        one
        for one in findings(document)
        if one.fix is not None and one.offset <= offset + length and offset <= one.offset + one.length
    ]


def _finding(document: Document, one: Diagnostic) -> Finding:
    message = f"{one.message}: {one.hint}" if one.hint else one.message
    elsewhere = bool(one.file) and one.file != document.source.file
    if one.span is not None and not elsewhere:
        return Finding(one, message, one.span.offset, one.span.length)
    at = next((item.keyword for item in document.tree.items if isinstance(item, Root)), None)
    if elsewhere:
        place = f"{one.file}:{one.span.line}:{one.span.column}" if one.span is not None else one.file
        message = f"{place}: {message}"
        at = next((word for word, path in named_files(document) if path == Path(one.file).resolve()), at)
    return Finding(one, message, at.offset if at else 0, len(at.text) if at else 0)
