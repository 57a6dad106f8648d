"""The output of a failed attempt, as a prompt shows it."""

from coterie.history.engines.fences import fenced
from coterie.history.journal.records import AttemptFailed

PRINTED_MOST = 2_000
"""Characters to show of each output, counted from its end."""


def printed(failed: AttemptFailed) -> str:
    """The ends of the text and of the standard error of an attempt, each under a title; empty without both."""
    parts = (("Output:", failed.text), ("Standard error:", failed.log))
    return "\n\n".join(f"{title}\n{fenced(_end(text))}" for title, text in parts if text.strip())


def _end(text: str) -> str:
    text = text.strip()
    return text if len(text) <= PRINTED_MOST else f"(…)\n{text[-PRINTED_MOST:]}"
