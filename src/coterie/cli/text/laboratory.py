"""Text for comparisons: accuracy and calls of each variant of a pattern, as a table and a plot."""

from typing import TYPE_CHECKING

from coterie.cli.text.words import table

if TYPE_CHECKING:
    from coterie.testing.lab import Comparison, Measured

_WIDE, _HIGH = 60, 14  # the approximate height, since marks are equally spaced


def compared(found: "Comparison") -> str:
    """Return the table, the plot, and the legend of a comparison."""
    return "\n".join([_table(found), "", _picture(found), "", *_notes(found)])


def _table(found: "Comparison") -> str:
    from coterie.testing.lab import letter

    unsure = any(one.decided < 1 for one in found.options)
    rows = [
        (
            f"{letter(n)}{' *' if one.worth else ''}",
            one.name,
            f"{one.calls:.1f}",
            f"{one.accuracy:.1%}",
            f"{one.low:.1%} to {one.high:.1%}",
            *((f"{one.decided:.1%}", _share(one)) if unsure else ()),
            *((f"{one.failed:.1%}",) if any(other.failed for other in found.options) else ()),
        )
        for n, one in enumerate(found.options)
    ]
    failed = ("failed",) if any(one.failed for one in found.options) else ()
    decided = ("decided", "right then") if unsure else ()
    return table(rows, ("", found.pattern, "calls", "right", "19 times in 20", *decided, *failed))


def _share(one: "Measured") -> str:
    return "-" if one.right_when_decided is None else f"{one.right_when_decided:.1%}"


def _picture(found: "Comparison") -> str:
    """Plot accuracy against calls with letters; of overlapping variants, the one on the frontier shows."""
    from coterie.testing.lab import Scales, letter

    scales = Scales(found.options)
    steps = len(scales.accuracies) - 1
    last = steps * max(round(_HIGH / steps), 1)
    field = [[" "] * _WIDE for _ in range(last + 1)]
    for n, one in sorted(enumerate(found.options), key=lambda numbered: (numbered[1].worth, -numbered[0])):
        row = round((1 - scales.up(one.accuracy)) * last)
        at = min(round(scales.right(one.calls) * (_WIDE - 1)), _WIDE - len(letter(n)))
        field[row][at : at + len(letter(n))] = letter(n)
    marks = {round((1 - scales.up(accuracy)) * last): f"{accuracy:.0%}" for accuracy in scales.accuracies}
    lines = [f"{marks.get(n, ''):>5} |{''.join(row)}".rstrip() for n, row in enumerate(field)]
    below = [" "] * (_WIDE + 4)
    for calls in scales.calls:
        shown = f"{calls:g}"
        at = round(scales.right(calls) * (_WIDE - 1))
        below[at : at + len(shown)] = shown
    return "\n".join([*lines, f"      +{'-' * _WIDE}", f"       {''.join(below).rstrip()} calls"])


def _notes(found: "Comparison") -> list[str]:
    runs = f"{found.runs:,} question{'s' if found.runs != 1 else ''} each, the same for all (seed {found.seed})"
    star = "* no other variant is as accurate with fewer calls, or more accurate with as many"
    return [runs, star]
