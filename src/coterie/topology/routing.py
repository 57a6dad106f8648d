"""Which roles an event leads to, and what they may emit.

A key of the handoff map matches an event that equals it; one written `/…/` is a regular expression that must match the
whole event (`coterie.topology.expressions`), and so may entries of `emits` be. All keys that match contribute, in file
order.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.topology import expressions

START = "loop.start"
"""The event a loop begins with."""
PARALLEL = ".parallel"
JOINED = ".parallel.joined"
EXPLORE = "explore"
"""`explore.parallel` opens a wave wherever the loop stands."""
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
"""Events that anyone may emit at any time: they are noted, and lead nowhere."""


def is_pattern(key: str) -> bool:
    """Whether *key* is a regular expression, `/…/`."""
    return len(key) >= 3 and key[0] == key[-1] == "/"


def matches(key: str, event: str) -> bool:
    """Whether *event* is one that *key* means."""
    if not is_pattern(key):
        return key == event
    return expressions.matches(key[1:-1], event)


def matches_any(keys: Iterable[str], event: str) -> bool:
    """Whether *event* is one that any of *keys* means."""
    return any(matches(key, event) for key in keys)


def suggested(handoff: Iterable[tuple[str, Sequence[str]]], roles: Sequence[str], event: str) -> tuple[str, ...]:
    """The roles that *event* leads to: those of every key that matches, or all of them when that gives none.

    Args:
        handoff: Keys and the roles each leads to, in file order; roles that are not there do not count.
        roles: The ids of all roles, in the order declared.
    """
    known = set(roles)
    found = dict.fromkeys(role for key, targets in handoff if matches(key, event) for role in targets if role in known)
    return tuple(found) or tuple(roles)


def allowed(emits: Mapping[str, Sequence[str]], roles: Iterable[str]) -> tuple[str, ...]:
    """What the *roles* may emit: the union of their *emits*, in the order of the roles, each once.

    Args:
        emits: The events of every role, in the order declared.
    """
    chosen = set(roles)
    return tuple(dict.fromkeys(event for role, events in emits.items() if role in chosen for event in events))
