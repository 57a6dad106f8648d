"""Texts with the cursor in them."""

from coterie.interfaces.lsp.document import Document

CURSOR = "‸"


def cursor(text: str) -> tuple[Document, int]:
    """The document that *text* describes without its cursor, and where the cursor stands."""
    before, mark, after = text.partition(CURSOR)
    assert mark, "there is no cursor in the text"
    return Document.of(before + after), len(before)
