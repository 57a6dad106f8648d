"""The language server for `.at` files.

Pure functions over a `Document` compute the answers. `coterie.interfaces.lsp.server` converts them to the language
server protocol; it is the only module that needs the extra `lsp`.

Other packages import `server`; the rest is internal.
"""

from coterie.interfaces.lsp.document import Document

__all__ = ["Document"]
