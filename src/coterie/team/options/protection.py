"""Compare the strictness of protective settings; all other settings shape a loop: roles, prompts, routing.

A running loop accepts a weaker value of a protective setting only from a person.
"""

import math
from collections.abc import Callable
from typing import Any

AsStrict = Callable[[Any, Any], bool]
"""Whether the second value is at least as strict as the first."""


def same(old: Any, new: Any) -> bool:
    """For a setting without an order: only the same value is as strict."""
    return bool(old == new)


def lower(old: Any, new: Any) -> bool:
    """For a limit: a lower value is stricter; 0 and None are no limit."""
    return bool((new or math.inf) <= (old or math.inf))


def fewer(old: Any, new: Any) -> bool:
    """For a list of allowed values: fewer are stricter."""
    return all(one in (old or ()) for one in new or ())


def further(old: Any, new: Any) -> bool:
    """For a list of conditions: more are stricter."""
    return all(one in new for one in old)


def later(*values: Any) -> AsStrict:
    """For one of *values*, ordered from the weakest to the strictest."""
    return lambda old, new: old == new or (old in values and new in values and values.index(new) > values.index(old))
