"""Topologies used as nodes of others: whether this is possible, their interfaces, and their outputs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.base.diagnostics import Diagnostic, Span, error, warning
from coterie.team.topology.checks.facts import UNREADABLE, Facts, listing
from coterie.team.topology.composition import missing
from coterie.team.topology.model import Output, Topology

if TYPE_CHECKING:
    from coterie.team.topology.patterns.model import Pattern


def interface_is_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The interface names nodes of the flow, and its entry is where the flow starts."""
    interface = facts.topology.interface
    if interface is None:
        return
    for what, name in (("entry", interface.entry), ("exit", interface.exit)):
        if name in ("", UNREADABLE):
            continue
        span = interface.spans.get(what) or interface.span
        if name not in facts.declared:
            message = f"the {what} of the interface is {name!r}, which is not declared"
            yield error("unknown-agent", message, span, facts.near(name))
        elif facts.topology.flow is not None and name not in facts.flow.mentions:
            yield error("not-in-flow", f"the {what} of the interface is {name!r}, which is not in the flow", span)
        elif what == "entry" and facts.topology.flow is not None and name not in facts.graph.entries:
            starts = listing(facts.graph.entries)
            yield warning("not-an-entry", f"the flow does not start at {name!r}", span, f"it starts at {starts}")


def unusable(topology: Topology, file: str, span: Span | None) -> Diagnostic | None:
    """Why *topology* of *file* cannot be a node of another topology, which names it at *span*; None if it can."""
    if topology.fragment:
        message = f"{file!r} is a fragment, and only a topology can be a node"
        return error("no-topology", message, span, f'write include "{file}" to add its declarations to this file')
    if topology.system is not None and not topology.system.entry:
        message = f"{file!r} is a supervised system without an entry, so nothing in it answers"
        return error("no-entry", message, span, "name one of its agents in it: entry: NAME")
    names = list(missing(topology.params))
    if not names:
        return None
    values = ", ".join(f"{name}: …" for name in names)
    hint = f'import "{file}" as NAME with {{ {values} }}'
    return error("missing-param", f"{file!r} needs a value for {listing(names)}", span, hint)


def outputs_of(topology: Topology) -> tuple[Output, ...]:
    """The declared outputs of *topology*: those of its exit, else of the node where every path ends.

    For a pattern those of its result. Empty if not declared, or if the flow may end at several nodes.
    """
    if topology.pattern is not None:
        return tuple(_of_pattern(topology.pattern))
    facts = Facts(topology)
    exit = topology.interface.exit if topology.interface is not None else ""
    if not exit:
        ends = [name for name in facts.flow.mentions if not _always_goes_on(facts, name)]
        exit = ends[0] if len(ends) == 1 else ""
    return tuple(facts.outputs(exit))


def _of_pattern(pattern: "Pattern") -> Iterator[Output]:
    from coterie.team.topology.patterns.kinds import kind_of, scalars_of

    kind = kind_of(pattern.type)
    for name, type in scalars_of(kind.name).items() if kind is not None else ():
        yield Output(name=name, type=type)


def _always_goes_on(facts: Facts, name: str) -> bool:
    groups = facts.graph.groups_of(name)
    return any(facts.flow.groups[i].when is None and not facts.graph.is_loop_group(i) for i in groups)
