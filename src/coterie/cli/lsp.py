"""`coterie topology lsp`: the language server, for an editor to start."""


def lsp() -> int:
    """Serve an editor over standard input and output: diagnostics while typing, completion, hover, renaming.

    An editor starts this by itself; docs/editors.md says how. It needs the extra: pip install 'coterie[lsp]'.
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
