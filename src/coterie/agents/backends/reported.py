"""The usage that a program reports: tokens and cost, as JSON in the file that `AUTOLOOP_USAGE_FILE` names.

    {"input_tokens": 900, "output_tokens": 120, "cache_read_tokens": 300, "cache_write_tokens": 0, "cost_usd": 0.02}

All keys are optional; other keys are ignored. The file is read once, when the attempt is over.
"""

import json
from pathlib import Path

from coterie.agents.backends.base import OnEvent, Text
from coterie.base import files
from coterie.history.journal.records import Usage

VARIABLE = "AUTOLOOP_USAGE_FILE"
FILE = "usage.json"

_INPUT = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
_LARGEST = 1 << 20
"""The largest size of a usage file, in bytes."""
_MOST = 1 << 53
"""The largest amount that a journal stores exactly."""
_KNOWN = (*_INPUT, "output_tokens", "cost_usd")


def reported(path: Path, on_event: OnEvent) -> Usage:
    """The usage in the file at *path*, if it exists. An invalid file is logged and ignored.

    The cost is negative if an amount is impossible, so that the run records this and counts the reservation.
    """
    try:
        data = json.loads(files.read_below(path.parent, (path.name,), _LARGEST))
    except FileNotFoundError:
        return Usage()
    except (OSError, ValueError, RecursionError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else str(failure)
        return _refused(f"the usage file cannot be read: {why}", on_event)
    if not isinstance(data, dict):
        return _refused("the usage file contains no JSON object", on_event)
    wrong = [name for name in _KNOWN if not _is_amount(data.get(name, 0))]
    if wrong:
        _refused(f"the usage file says {wrong[0]} = {data[wrong[0]]!r}, which is not an amount", on_event)
        return Usage(cost=0.0 - abs(amount(data[wrong[0]])))
    return Usage(
        input_tokens=sum(int(data.get(name, 0)) for name in _INPUT),
        output_tokens=int(data.get("output_tokens", 0)),
        cached_tokens=int(data.get("cache_read_tokens", 0)),
        cost=float(data.get("cost_usd", 0)),
    )


def amount(value: object) -> float:
    """Convert *value*, an amount from an agent: 0 if it is not a number, -1 if a journal cannot store it."""
    if not isinstance(value, int | float):
        return 0.0
    return float(value) if -_MOST <= value <= _MOST else -1.0


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST


def _refused(why: str, on_event: OnEvent) -> Usage:
    on_event(Text(text=f"{why}\n", channel="log"))
    return Usage()
