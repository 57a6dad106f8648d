"""Durations as settings write them: `90m`, `1h30m`, `500ms`, or bare milliseconds."""

import re

MOST = 2_147_483.647
"""The longest duration, in seconds: some 24.8 days. Longer ones count as this."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str, most: float = MOST) -> float | None:
    """The seconds that *text* means, at most *most*; None when it is no duration.

    Digits alone are milliseconds. Else numbers with the units ms, s, m, h or d stand behind each other, in any order
    and without blanks, and add up.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text) / 1000, most)
    if not _WHOLE.fullmatch(text):
        return None
    return min(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), most)
