"""Parse durations of settings: `90m`, `1h30m`, `500ms`, or bare milliseconds."""

import re

MOST = 2_147_483.647
"""The longest duration, in seconds (24.8 days); longer ones are reduced to it."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str, most: float = MOST) -> float | None:
    """The duration *text* in seconds, at most *most*; None if it is invalid.

    Digits alone are milliseconds. Otherwise it is a sum of numbers with the units ms, s, m, h or d, without blanks.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text) / 1000, most)
    if not _WHOLE.fullmatch(text):
        return None
    return min(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), most)
