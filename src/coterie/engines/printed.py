"""What a prompt shows of what an attempt that failed had said."""

from coterie.engines.fences import fenced
from coterie.journal.records import AttemptFailed

PRINTED_MOST = 2_000
"""Characters of each, from its end."""


def printed(failed: AttemptFailed) -> str:
    """The ends of what the attempt had said and of its standard error, each under a title; empty without both."""
    parts = (("It had said:", failed.text), ("On standard error:", failed.log))
    return "\n\n".join(f"{title}\n{fenced(_end(text))}" for title, text in parts if text.strip())


def _end(text: str) -> str:
    text = text.strip()
    return text if len(text) <= PRINTED_MOST else f"(…)\n{text[-PRINTED_MOST:]}"
