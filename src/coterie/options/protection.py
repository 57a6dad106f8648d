"""Which settings protect, and what is stricter; all others shape a loop: roles, prompts, routing.

A running loop takes a weaker value of a setting that protects only from a person.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from coterie.options.backends import SANDBOXES

AsStrict = Callable[[Any, Any], bool]
"""Whether the second value is at least as strict as the first."""


def same(old: Any, new: Any) -> bool:
    """For a setting without an order."""
    return bool(old == new)


def lower(old: Any, new: Any) -> bool:
    """For a limit; 0 and None are no limit."""
    return bool((new or math.inf) <= (old or math.inf))


def further(old: Any, new: Any) -> bool:
    """For a list of conditions."""
    return all(one in new for one in old)


def later(*values: Any) -> AsStrict:
    """For a choice of *values*, the weakest first."""
    return lambda old, new: old == new or (old in values and new in values and values.index(new) > values.index(old))


_OF_BACKENDS: Mapping[str, AsStrict] = {
    **dict.fromkeys(("kind", "provider", "command", "args", "agent", "queue", "attention_timeout_ms"), same),
    "timeout_ms": lower,
    "trust_all_tools": later(True, False),
    "sandbox": later("off", *(one for one in SANDBOXES if one != "off")),
    "attention": later("", "ask"),
    "attention_policy": later("allow", "park", "fail", "deny"),
}
PROTECTING: Mapping[str, AsStrict] = {
    "event_loop.max_iterations": lambda old, new: new <= old,
    "event_loop.max_iteration_runtime": lower,
    "event_loop.max_runtime": lower,
    "event_loop.max_cost_usd": lower,
    "event_loop.stall_iterations": lower,
    "event_loop.max_failures": lower,
    "event_loop.gates": further,
    "event_loop.gate_timeout": lower,
    "parallel.enabled": later(True, False),
    "parallel.max_branches": lower,
    "parallel.branch_timeout_ms": lower,
    "notify.command": same,
    "cluster.url": same,
    **{f"{section}.{name}": rule for section in ("backend", "review") for name, rule in _OF_BACKENDS.items()},
}
"""The settings that protect. What a plan holds of an agent beyond settings, such as its environment, protects too."""
