"""The kinds of coordination: all that differs between a flow, a loop, a pattern, a program and a system.

`kind_of` makes the `Kind` of a plan, which names its engine and its prover; the kernel calls it without knowing which
kind it is. A further kind is a subclass of `Kind` and of `Coordination`, added to `KINDS` with the tag of the latter.

Other packages import `loop.environment`, `loop.projection_file`; the rest is internal.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from coterie.execution.kernel.kind import Kind, Sidecar
from coterie.execution.kernel.project import Observe
from coterie.execution.kinds import pattern
from coterie.execution.kinds.pattern import own_pattern, own_patterns

if TYPE_CHECKING:
    from coterie.team.planning.plan import Plan

__all__ = [
    "KINDS",
    "Kind",
    "Observe",
    "Sidecar",
    "check_read",
    "check_start",
    "kind_of",
    "kind_without_imports",
    "own_pattern",
    "own_patterns",
    "rehearsed_kind",
]

KINDS: dict[str, str | type[Kind]] = {
    "flow": "coterie.execution.kinds.flow:FlowKind",
    "flow-each": "coterie.execution.kinds.flow:FlowKind",
    "flow-each-by": "coterie.execution.kinds.flow:FlowKind",
    "loop": "coterie.execution.kinds.loop:LoopKind",
    "pattern": "coterie.execution.kinds.pattern:PatternKind",
    "program": "coterie.execution.kinds.program:ProgramKind",
    "system": "coterie.execution.kinds.system:SystemKind",
}
"""The kind for each tag of a coordination: the class, or its import path, which is loaded on first use."""


def kind_of(plan: "Plan") -> Kind:
    """Make a new kind for one run of *plan*."""
    if plan.coordination is None:
        return Kind(plan)
    found = KINDS[plan.coordination.tag]
    if isinstance(found, str):
        module, _, name = found.partition(":")
        found = getattr(import_module(module), name)
    kind: Kind = found(plan)
    return kind


def rehearsed_kind(plan: "Plan") -> Kind:
    """As `kind_of`, for a rehearsal: the actors of a system do not run, and its entry is an agent."""
    from coterie.execution.kinds.system import SystemKind, SystemStandIn  # few runs have one

    kind = kind_of(plan)
    return SystemStandIn(plan) if isinstance(kind, SystemKind) else kind


def kind_without_imports(plan: "Plan") -> Kind:
    """As `rehearsed_kind`, but a user-defined pattern is not imported: `StandInKind` replaces it."""
    return pattern.StandInKind(plan) if own_pattern(plan) else rehearsed_kind(plan)


def check_start(plan: "Plan", given: Mapping[str, Any]) -> None:
    """Check the input of a run of *plan* and its user-defined patterns, before the run begins.

    Raises:
        UsageError: If something is missing or invalid, or read by nothing.
    """
    pattern.check_own_patterns(plan)
    check_read(plan, given)
    kind_of(plan).check_input(given)


def check_read(plan: "Plan", given: Mapping[str, Any]) -> None:
    """Check that something in runs of *plan* reads each value of the input *given*, if functions read it.

    Raises:
        UsageError: If nothing does.
    """
    if plan.has_functions:
        from coterie.agents.actors import inputs  # few runs have functions

        inputs.check_read(plan, given)
