"""The diagnostics of a document, each with a range to underline and a fix if there is one."""

import re
from pathlib import Path

from msgspec import Struct

from coterie.base.diagnostics import Diagnostic, Fix, Span
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.locations import named_files
from coterie.team.formats.at.tree import Root

_MEANT = re.compile(r"did you mean '([^']+)'\?")
_WORD = re.compile(r"[\w-]+")


class DocumentDiagnostic(Struct, frozen=True):
    """A diagnostic and its range in the document; if it is in another file, the range that names the file.

    Attributes:
        message: With the hint, and the position if it is in another file.
        fix: A known fix, or the replacement that the hint suggests for a single word.
    """

    diagnostic: Diagnostic
    message: str
    offset: int
    length: int
    fix: Fix | None = None


def findings(document: Document) -> list[DocumentDiagnostic]:
    """The diagnostics of `coterie topology validate`, in text order."""
    return [_finding(document, one) for one in document.diagnostics]


def fixable(document: Document, offset: int, length: int = 0) -> list[DocumentDiagnostic]:
    """The diagnostics with a fix that touch the *length* characters at *offset*."""
    found = [one for one in findings(document) if one.fix is not None]
    return [one for one in found if one.offset <= offset + length and offset <= one.offset + one.length]


def _finding(document: Document, one: Diagnostic) -> DocumentDiagnostic:
    message = f"{one.message}: {one.hint}" if one.hint else one.message
    elsewhere = bool(one.file) and one.file != document.source.file
    if one.span is not None and not elsewhere:
        fix = one.fix or _guess(document, one, one.span)
        return DocumentDiagnostic(one, message, one.span.offset, one.span.length, fix)
    at = next((item.keyword for item in document.tree.items if isinstance(item, Root)), None)
    if elsewhere:
        place = f"{one.file}:{one.span.line}:{one.span.column}" if one.span is not None else one.file
        message = f"{place}: {message}"
        at = next((word for word, path in named_files(document) if path == Path(one.file).resolve()), at)
    return DocumentDiagnostic(one, message, at.offset if at else 0, len(at.text) if at else 0)


def _guess(document: Document, one: Diagnostic, span: Span) -> Fix | None:
    """The fix that replaces the single word at *span* by the one that the hint suggests."""
    meant = _MEANT.match(one.hint)
    word = document.text.content[span.offset : span.offset + span.length]
    return Fix(f"write '{meant[1]}'", span, meant[1]) if meant and _WORD.fullmatch(word) else None
