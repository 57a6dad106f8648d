"""What an editor wants to know of an `.at` file, and the server that tells it.

Pure functions over a `Document` find the answers; `coterie.lsp.server` puts them into the language server protocol,
and is the only module that needs the extra `lsp`.
"""

from coterie.lsp.document import Document

__all__ = ["Document"]
