"""Text for the findings of `coterie doctor`."""

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from coterie.history.views.words import plural

if TYPE_CHECKING:
    from coterie.execution.runs.checkups import CheckResult


def findings(found: "Sequence[CheckResult]") -> str:
    """Return a line for each finding, its remedy below, and a summary, in 80 columns; a long word keeps its line."""
    width = max(len(one.check) for one in found)
    margin = " " * (8 + width)
    lines = []
    for one in found:
        texts = [f"{one.status:<4}  {one.check:<{width}}  {one.found}", *([margin + one.next] if one.next else [])]
        for text in texts:
            lines += wrap(text, 80, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
    statuses = [one.status for one in found]
    failed, warned = statuses.count("fail"), statuses.count("warn")
    result = plural(failed, "problem") if failed else "no problems"
    return "\n".join([*lines, "", f"{result}, {plural(warned, 'warning')}" if warned else result])
