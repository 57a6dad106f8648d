"""Texts on what `coterie doctor` found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.views.words import plural

if TYPE_CHECKING:
    from coterie.runs.checkups import Finding


def findings(found: "Sequence[Finding]") -> str:
    """One line for each finding, the next step below it, and a verdict."""
    width = max(len(one.check) for one in found)
    lines = []
    for one in found:
        lines.append(f"{one.status:<4}  {one.check:<{width}}  {one.found}")
        if one.next:
            lines.append(f"{' ' * (8 + width)}{one.next}")
    return "\n".join([*lines, "", _verdict(found)])


def _verdict(found: "Sequence[Finding]") -> str:
    statuses = [one.status for one in found]
    failed, warned = statuses.count("fail"), statuses.count("warn")
    if failed:
        return f"{plural(failed, 'thing')} to mend" + (f", {plural(warned, 'warning')}" if warned else "")
    return f"nothing stands in the way, {plural(warned, 'warning')}" if warned else "nothing stands in the way"
