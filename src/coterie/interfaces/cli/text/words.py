"""Format times, tables and values."""

import json
import re
from collections.abc import Sequence
from typing import Any

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])")
"""An escape sequence of a terminal: colours, movements of the cursor, titles."""


def last_line(text: str) -> str:
    """Return the last line of an agent's output that is not empty, without escape sequences."""
    lines = re.split(r"[\r\n]+", _SEQUENCE.sub("", text))
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def clock(seconds: float) -> str:
    """Return `00:01.2`: minutes, seconds, tenths."""
    tenths = round(seconds * 10)
    return f"{tenths // 600:02}:{tenths // 10 % 60:02}.{tenths % 10}"


def table(
    cells: Sequence[Sequence[str]],
    head: Sequence[str],
    width: int | None = None,
    yielding: Sequence[tuple[str, int]] = (),
) -> str:
    """Return *cells* below *head*, in columns as wide as their cells.

    Args:
        width: The longest line in characters; None: unlimited.
        yielding: The columns to shorten for *width*, in this order, each with the characters it keeps; 0: omit it.
    """
    rows, titles = [[*row] for row in cells], [*head]
    widths = [max(len(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    for name, least in yielding if width is not None else ():
        over = sum(widths) + 2 * (len(widths) - 1) - (width or 0)
        if over <= 0:
            break
        if (n := titles.index(name) if name in titles else -1) < 0:
            continue
        if least == 0:
            for row in (titles, *rows):
                del row[n]
            del widths[n]
        elif widths[n] > least:
            widths[n] = max(least, len(name), widths[n] - over)
            for row in rows:
                row[n] = cut(row[n], widths[n])
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (titles, *rows))
    return "\n".join(line.rstrip() for line in lines)


def cut(text: str, most: int) -> str:
    """Return *text*, shortened to *most* characters; a quotation keeps its closing mark."""
    if len(text) <= most:
        return text
    end = "…”" if text.endswith("”") else "…"
    return text[: max(most - len(end), 0)] + end


def as_json(value: Any) -> str:
    """Return *value* as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
