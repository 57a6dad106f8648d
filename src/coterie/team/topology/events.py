"""Event routing: the roles an event leads to, and the events they may emit.

A key of the handoff map matches an equal event. A key `/…/` is a regular expression that must match the whole event
(`coterie.team.topology.expressions`); entries of `emits` may also have this form. All matching keys contribute, in file
order.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.team.topology import expressions

START = "loop.start"
"""The event that starts a loop."""
PARALLEL = ".parallel"
JOINED = ".parallel.joined"
EXPLORE = "explore"
"""`explore.parallel` opens a wave at any point of the loop."""
COORDINATION = frozenset(
    {
        "issue.discovered",
        "issue.resolved",
        "slice.started",
        "slice.verified",
        "slice.committed",
        "context.archived",
        "chain.spawn",
    }
)
"""Events that any role may emit at any time: recorded, but never routed."""


def is_pattern(key: str) -> bool:
    """Whether *key* is a regular expression, `/…/`."""
    return len(key) >= 3 and key[0] == key[-1] == "/"


def matches(key: str, event: str) -> bool:
    """Whether *event* matches *key*."""
    if not is_pattern(key):
        return key == event
    return expressions.matches(key[1:-1], event)


def matches_any(keys: Iterable[str], event: str) -> bool:
    """Whether *event* matches any of *keys*."""
    return any(matches(key, event) for key in keys)


def suggested(handoff: Iterable[tuple[str, Sequence[str]]], roles: Sequence[str], event: str) -> tuple[str, ...]:
    """The roles that *event* leads to: those of all matching keys; if there are none, all roles.

    Args:
        handoff: Keys and the roles each leads to, in file order; unknown roles are ignored.
        roles: The ids of all roles, in the order declared.
    """
    known = set(roles)
    found = dict.fromkeys(role for key, targets in handoff if matches(key, event) for role in targets if role in known)
    return tuple(found) or tuple(roles)


def allowed(emits: Mapping[str, Sequence[str]], roles: Iterable[str]) -> tuple[str, ...]:
    """The events the *roles* may emit: the union of their *emits*, in role order, without duplicates.

    Args:
        emits: The events of every role, in the order declared.
    """
    chosen = set(roles)
    return tuple(dict.fromkeys(event for role, events in emits.items() if role in chosen for event in events))
