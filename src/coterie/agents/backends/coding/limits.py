"""Classify a coding agent's error, and read the time until its limit resets.

Agents report a limit in the provider's words, with the time of the reset in one of several forms.
"""

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from coterie.agents.backends.base import Failure
from coterie.agents.backends.classify import classify

LONGEST_WAIT = 32 * 86_400.0
"""The longest credible time until a reset, in seconds."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_AMOUNT = r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|[smhdw]|sec(?:ond)?s?|min(?:ute)?s?|h(?:ou)?rs?|days?|weeks?)?\b"
_ONE_AMOUNT = re.compile(_AMOUNT, re.IGNORECASE)
_AFTER = re.compile(
    rf"(?:retry[\s_-]*after(?:[\s_-]*(?:seconds|s))?\W{{0,4}}|(?:again|reset\w*|retry\w*|wait|available)\s+(?:in|for|after)\s+~?)"
    rf"({_AMOUNT}(?:[\s,]*(?:and\s+)?{_AMOUNT})*)",
    re.IGNORECASE,
)
_STAMP = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"(?<![\w.-])[12]\d{9}(?:\d{3})?(?![\w.-])")
_CLOCK = re.compile(
    r"(?:reset\w*|again|until|available)\s+(?:at\s+|on\s+)*(?:([a-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s+(20\d\d))?(?:,|\s+at)*\s+)?(\d{1,2})(?::(\d\d))?\s*([ap])\.?m\b\.?(?:\s*\(([\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LIMITED = ("rate_limited", "quota", "transient")


def failed(text: str, kind: str = "", *, wait: float = 0.0, now: float | None = None) -> Failure:
    """The failure for *text*, an agent's error.

    Args:
        kind: Its kind, if the protocol has it; otherwise the text decides.
        wait: Seconds until the reset, if the protocol has it; otherwise it is read from the text.
        now: Unix seconds; by default the present.
    """
    kind = kind or classify(text) or "failed"
    if kind in _LIMITED and not wait:
        wait = until_reset(text, time.time() if now is None else now)
    return Failure(kind=kind, reason=text, wait=wait if kind in _LIMITED else 0.0)


def until_reset(text: str, now: float) -> float:
    """Seconds from *now*, Unix seconds, until the reset that *text* names; 0: it names no future reset."""
    if found := _AFTER.search(text):
        wait = sum(float(amount) * _UNITS[_unit(unit)] for amount, unit in _ONE_AMOUNT.findall(found[1]))
    elif found := _STAMP.search(text):
        wait = _stamp(found[0]) - now
    elif found := _EPOCH.search(text):
        wait = float(found[0][:10]) - now
    elif found := _CLOCK.search(text):
        wait = _clock(found, now)
    else:
        wait = 0.0
    return wait if 0 < wait <= LONGEST_WAIT else 0.0


def _unit(name: str) -> str:
    """The key of `_UNITS` for *name*; an empty name means seconds."""
    name = name.lower()
    return "ms" if name.startswith(("ms", "mil")) else name[:1] or "s"


def _stamp(text: str) -> float:
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _clock(found: re.Match[str], now: float) -> float:
    """Seconds until a time of day, on the named day and in the named zone, if any."""
    month, day, year, hour, minute, half, zone = found.groups()
    here = datetime.fromtimestamp(now, _zone(zone))
    try:
        when = here.replace(
            hour=int(hour) % 12 + (12 if half.lower() == "p" else 0), minute=int(minute or 0), second=0, microsecond=0
        )
        if month is not None:
            when = when.replace(month=_MONTHS.index(month.lower()) + 1, day=int(day), year=int(year or here.year))
            if when < here and year is None:
                when = when.replace(year=here.year + 1)
        elif when <= here:
            when += timedelta(days=1)
    except ValueError:  # such as 30 February
        return 0.0
    return when.timestamp() - now


def _zone(name: str | None) -> tzinfo | None:
    """The zone *name*; None, the local zone, if it is unknown."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        return None
