"""The language server for `.at` files.

Pure functions over a `Document` compute the answers; `coterie.lsp.server` converts them to the language server
protocol and is the only module that needs the extra `lsp`.
"""

from coterie.lsp.document import Document

__all__ = ["Document"]
