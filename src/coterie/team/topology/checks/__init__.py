"""The rules for topologies, one generator each.

To add a rule, write a public generator `def rule(facts)` in the module of its subject, and name its code in `codes.py`.
Each fault is reported once: a rule skips what another rule reports.
"""

from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType

from coterie.base.diagnostics import Diagnostic
from coterie.team.topology.checks import (
    agents,
    arrows,
    attributes,
    composition,
    conduct,
    gates,
    knowledge,
    loops,
    maps,
    names,
    operation,
    patterns,
    reach,
    roles,
    shape,
)
from coterie.team.topology.checks.facts import Facts
from coterie.team.topology.model import Topology

__all__ = ["Facts", "Rule", "check", "rules"]

Rule = Callable[[Facts], Iterator[Diagnostic]]

MODULES = (
    names,
    agents,
    arrows,
    loops,
    maps,
    shape,
    gates,
    composition,
    attributes,
    conduct,
    knowledge,
    reach,
    operation,
    roles,
    patterns,
)
"""The modules with rules for every topology, in the order in which diagnostics at one place are reported."""


def _rules(module: ModuleType) -> Iterator[Rule]:
    """The public functions of *module* with the only parameter `facts`, in the order of the module."""
    for name, found in vars(module).items():
        if isinstance(found, FunctionType) and found.__module__ == module.__name__ and not name.startswith("_"):
            code = found.__code__
            if code.co_varnames[: code.co_argcount] == ("facts",):
                yield found


@cache
def rules(of_system: bool) -> tuple[Rule, ...]:
    """All rules; those for supervised systems only if *of_system*, since few files are such systems."""
    modules = [*MODULES]
    if of_system:
        from coterie.team.topology.checks import systems

        modules.append(systems)
    return tuple(rule for module in modules for rule in _rules(module))


def check(topology: Topology) -> list[Diagnostic]:
    """All diagnostics for *topology*, in file order."""
    facts = Facts(topology)
    found = [diagnostic for rule in rules(topology.system is not None) for diagnostic in rule(facts)]
    return sorted(found, key=lambda diagnostic: diagnostic.span.offset if diagnostic.span is not None else -1)
