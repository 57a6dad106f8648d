"""`coterie topology lsp`: the language server for editors."""


def lsp() -> int:
    """Run the language server on standard input and output: diagnostics, completion, hover, renaming.

    Editors start it; see docs/editors.md. Requires the extra: pip install 'coterie[lsp]'.
    """
    from coterie import __version__
    from coterie.lsp.server import serve

    return serve(__version__)
