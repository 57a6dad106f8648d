"""`coterie topology lsp`: the language server for editors."""


def lsp() -> int:
    """Run the language server on standard input and output: diagnostics, completion, hover, renaming.

    Editors start it; see docs/editors.md. Requires the extra: pip install 'coterie[lsp]'.
    """
    from coterie import __version__
    from coterie.errors import UsageError

    try:
        from coterie.lsp.server import serve
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("pygls", "lsprotocol"):
            raise
        raise UsageError(f"{package!r} is not installed: pip install 'coterie[lsp]'") from None
    return serve(__version__)
