"""The kinds of coordination, found by a plan's: the one place of `runs` that names engines.

A further kind is a subclass of `Kind` and of `Coordination`, added to `KINDS` with the tag of the latter.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from coterie.kernel.kind import Kind, LastReading, Observe, Sidecar, trust_of
from coterie.kinds import pattern
from coterie.kinds.pattern import own_pattern, own_patterns

if TYPE_CHECKING:
    from coterie.planning.plan import Plan

__all__ = [
    "KINDS",
    "Kind",
    "LastReading",
    "Observe",
    "Sidecar",
    "check_start",
    "kind_of",
    "kind_without_imports",
    "own_pattern",
    "own_patterns",
    "rehearsed_kind",
    "trust_of",
]

KINDS: dict[str, str | type[Kind]] = {
    "flow": "coterie.kinds.flow:FlowKind",
    "loop": "coterie.kinds.loop:LoopKind",
    "pattern": "coterie.kinds.pattern:PatternKind",
    "program": "coterie.kinds.program:ProgramKind",
    "system": "coterie.kinds.system:SystemKind",
}
"""The kind that plays plans with a coordination of that tag: the class, or where it is, to be imported when needed."""


def kind_of(plan: "Plan") -> Kind:
    """A fresh kind for one run of *plan*."""
    if plan.coordination is None:
        return Kind(plan)
    found = KINDS[plan.coordination.tag]
    if isinstance(found, str):
        module, _, name = found.partition(":")
        found = getattr(import_module(module), name)
    kind: Kind = found(plan)
    return kind


def rehearsed_kind(plan: "Plan") -> Kind:
    """As `kind_of`; the actors of a system do not run, its entry is an agent."""
    from coterie.kinds.system import SystemKind, SystemStandIn  # few runs have one

    kind = kind_of(plan)
    return SystemStandIn(plan) if isinstance(kind, SystemKind) else kind


def kind_without_imports(plan: "Plan") -> Kind:
    """As `rehearsed_kind`; a pattern of a user's own is not imported, something simple plays it."""
    return pattern.StandInKind(plan) if own_pattern(plan) else rehearsed_kind(plan)


def check_start(plan: "Plan", given: Mapping[str, Any]) -> None:
    """Check what a run of *plan* needs before it begins: its input, and the user's own patterns.

    Raises:
        UsageError: If something is missing or does not fit.
    """
    pattern.check_own_patterns(plan)
    kind_of(plan).check_input(given)
