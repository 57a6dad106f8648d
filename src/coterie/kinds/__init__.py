"""The kinds of coordination, found by a plan's: the one place of `runs` that names engines.

A further kind is a subclass of `Kind` and of `Coordination`, added to `KINDS`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coterie.kernel.kind import Kind, LastReading, Observe, Sidecar, trust_of
from coterie.kinds import flow, loop, pattern, program, system
from coterie.kinds.pattern import own_pattern, own_patterns

if TYPE_CHECKING:
    from coterie.planning.coordination import Coordination
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

_KINDS = (Kind, flow.FlowKind, loop.LoopKind, pattern.PatternKind, program.ProgramKind, system.SystemKind)
KINDS: "dict[type[Coordination] | None, type[Kind]]" = {kind.coordination: kind for kind in _KINDS}
"""The kind that plays plans with a coordination of that class; None: with none."""


def kind_of(plan: "Plan") -> Kind:
    """A fresh kind for one run of *plan*."""
    return KINDS[type(plan.coordination) if plan.coordination is not None else None](plan)


def rehearsed_kind(plan: "Plan") -> Kind:
    """As `kind_of`; the actors of a system do not run, its entry is an agent."""
    kind = kind_of(plan)
    return system.SystemStandIn(plan) if isinstance(kind, system.SystemKind) else kind


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
