"""Format times, tables and values."""

import json
import re
from collections.abc import Sequence
from typing import Any

_HARMFUL = (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Control characters, line separators, and marks that change the direction of writing."""
_ESCAPES = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _HARMFUL if chr(code) not in "\n\t"}
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])")
"""An escape sequence of a terminal: colours, movements of the cursor, titles."""


def printable(text: str) -> str:
    """Escape all of *text* that could control the terminal which shows it."""
    return text.translate(_ESCAPES)


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
