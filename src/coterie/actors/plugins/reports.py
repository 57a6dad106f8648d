"""Lines of plugins on standard error, which is the only place for them: standard output belongs to results."""

import sys

from coterie.escapes import printable


def report(text: str) -> None:
    """Print a line, if there is a standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"coterie: {printable(text)}\n")
