"""Messages of plugins on standard error, since standard output is for results."""

import sys

from coterie.base.escapes import printable


def report(text: str) -> None:
    """Print a line, if there is a standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"coterie: {printable(text)}\n")
