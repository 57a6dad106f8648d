"""What is as strict as before, for settings that protect; all others shape a loop: roles, prompts, routing.

A running loop takes a weaker value of a setting that protects only from a person.
"""

import math
from collections.abc import Callable
from typing import Any

AsStrict = Callable[[Any, Any], bool]
"""Whether the second value is at least as strict as the first."""


def same(old: Any, new: Any) -> bool:
    """For a setting without an order."""
    return bool(old == new)


def lower(old: Any, new: Any) -> bool:
    """For a limit; 0 and None are no limit."""
    return bool((new or math.inf) <= (old or math.inf))


def fewer(old: Any, new: Any) -> bool:
    """For a list of what is allowed."""
    return all(one in (old or ()) for one in new or ())


def further(old: Any, new: Any) -> bool:
    """For a list of conditions."""
    return all(one in new for one in old)


def later(*values: Any) -> AsStrict:
    """For a choice of *values*, the weakest first."""
    return lambda old, new: old == new or (old in values and new in values and values.index(new) > values.index(old))
