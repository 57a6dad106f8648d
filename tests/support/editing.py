"""Texts with the cursor in them."""

from coterie.lsp.document import Document


def cursor(text: str) -> tuple[Document, int]:
    """The document that *text* describes without its `|`-shaped cursor `‸`, and where the cursor stands."""
    before, mark, after = text.partition("‸")
    assert mark, "there is no cursor in the text"
    return Document.of(before + after), len(before)
