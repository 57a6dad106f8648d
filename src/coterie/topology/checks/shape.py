"""The flow as a whole: it hangs together, and all of it can be reached."""

from collections.abc import Iterator

from coterie.diagnostics import Diagnostic, warning
from coterie.topology.checks.facts import Facts, listing


def flow_is_one_piece(facts: Facts) -> Iterator[Diagnostic]:
    """Arrows connect the whole flow. A name that is misspelt tears it apart, so then nothing is said."""
    if facts.undeclared or len(facts.graph.parts) < 2:
        return
    first, *others = facts.graph.parts
    message = f"no arrow connects {listing(first)} with {listing(others[0])}"
    if len(others) > 1:
        message = f"the flow falls into {len(others) + 1} parts: {message}"
    yield warning("unconnected-parts", message, facts.first_mention(others[0][0]), "each part starts for itself")


def everything_is_reached(facts: Facts) -> Iterator[Diagnostic]:
    """From where a part starts, arrows lead to all of it."""
    if facts.undeclared:
        return
    reached = facts.graph.beyond(facts.graph.entries)
    if len(reached) == len(facts.graph.nodes):
        return
    for part in facts.graph.parts:
        # A part without an entry has a cycle that nothing bounds: that is reported.
        if lost := [name for name in part if name not in reached] if not reached.isdisjoint(part) else []:
            message = f"nothing leads to {listing(lost)} from where the flow starts"
            hint = "an agent without an incoming arrow starts the flow"
            yield warning("unreachable-node", message, facts.first_mention(lost[0]), hint)
