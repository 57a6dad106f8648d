"""Text for the findings of `coterie doctor`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.views.words import plural

if TYPE_CHECKING:
    from coterie.runs.checkups import CheckResult


def findings(found: "Sequence[CheckResult]") -> str:
    """Return a line for each finding, its remedy below, and a summary."""
    width = max(len(one.check) for one in found)
    lines = []
    for one in found:
        lines.append(f"{one.status:<4}  {one.check:<{width}}  {one.found}")
        if one.next:
            lines.append(f"{' ' * (8 + width)}{one.next}")
    return "\n".join([*lines, "", _verdict(found)])


def _verdict(found: "Sequence[CheckResult]") -> str:
    statuses = [one.status for one in found]
    failed, warned = statuses.count("fail"), statuses.count("warn")
    result = plural(failed, "problem") if failed else "no problems"
    return f"{result}, {plural(warned, 'warning')}" if warned else result
