"""The flow as a whole: connected, and all of it reachable."""

from collections.abc import Iterator

from coterie.base.diagnostics import Diagnostic, warning
from coterie.team.topology.checks.facts import Facts, listing


def flow_is_one_piece(facts: Facts) -> Iterator[Diagnostic]:
    """Arrows connect the whole flow. Not checked if a name is undeclared, since that may split the flow."""
    if facts.undeclared or len(facts.graph.parts) < 2:
        return
    first, *others = facts.graph.parts
    message = f"no arrow connects {listing(first)} with {listing(others[0])}"
    if len(others) > 1:
        message = f"the flow has {len(others) + 1} unconnected parts: {message}"
    yield warning("unconnected-parts", message, facts.first_mention(others[0][0]), "each part starts separately")


def everything_is_reached(facts: Facts) -> Iterator[Diagnostic]:
    """Every node is reachable from the start of its part of the flow."""
    if facts.undeclared:
        return
    reached = facts.graph.beyond(facts.graph.entries)
    if len(reached) == len(facts.graph.nodes):
        return
    for part in facts.graph.parts:
        # A part without an entry has an unbounded cycle, which another rule reports.
        if lost := [name for name in part if name not in reached] if not reached.isdisjoint(part) else []:
            message = f"nothing leads to {listing(lost)} from where the flow starts"
            hint = "an agent without an incoming arrow starts the flow"
            yield warning("unreachable-node", message, facts.first_mention(lost[0]), hint)
