"""Print spans on standard error."""

import sys
from collections.abc import Sequence
from datetime import datetime

from coterie.agents.actors.plugins.configured import Configured
from coterie.base.escapes import printable
from coterie.history.views.spans import TraceSpan
from coterie.history.views.words import duration


class ConsoleExporter(Configured):
    """Prints a line for each span on standard error; never on standard output.

    Args:
        only_errors: Print only spans of work that failed.
    """

    def __init__(self, only_errors: bool = False) -> None:
        self._only_errors = only_errors

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Print *spans*."""
        lines = [line(span) for span in spans if span.error or not self._only_errors]
        if lines and sys.stderr is not None:
            sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))


def line(span: TraceSpan) -> str:
    """One line: the time, the work, its subject, its duration, and its error."""
    at = datetime.fromtimestamp(span.start).strftime("%H:%M:%S.%f")[:-3]
    said = span.attributes
    kind, sender = (said.get(f"coterie.message.{name}") for name in ("type", "sender"))
    about = [f"{kind} from {sender}"] if kind is not None and sender is not None else []
    counts = (said.get(f"gen_ai.usage.{name}_tokens") for name in ("input", "output"))
    tokens = [str(count) for count in counts if count is not None]
    about += [f"{'+'.join(tokens)} tokens"] if tokens else []
    took = span.end - span.start
    about += [f"{took * 1000:.1f} ms" if took < 1 else duration(took)] if took > 0 else []
    about += [f"failed: {span.error}"] if span.error else []
    text = f"{at} {span.name}" + (f"  {', '.join(about)}" if about else "")
    return text.translate(_ESCAPES)


_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
