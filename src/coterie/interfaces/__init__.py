"""How people and editors reach coterie: the command line, the page and the language server."""
