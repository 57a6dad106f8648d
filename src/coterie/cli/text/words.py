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


def table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """Return *rows* below *head*, in columns as wide as their cells."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows))
    return "\n".join(line.rstrip() for line in lines)


def as_json(value: Any) -> str:
    """Return *value* as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
