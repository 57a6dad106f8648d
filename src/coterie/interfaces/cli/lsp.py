"""`coterie topology lsp`: the language server for editors."""


def lsp() -> int:
    """Run the language server on standard input and output: diagnostics, completion, hover, renaming.

    Editors start it; see docs/editors.md. Requires the extra: pip install 'coterie[lsp]'.
    """
    from coterie.base.version import __version__
    from coterie.interfaces.lsp.server import serve

    return serve(__version__)
