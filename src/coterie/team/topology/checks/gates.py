"""Gates: each is on an existing arrow."""

from collections.abc import Iterator

from coterie.base.diagnostics import Diagnostic, error
from coterie.team.topology.checks.facts import UNREADABLE, Facts, listing, title
from coterie.team.topology.model import Gate


def gates_stand_on_arrows(facts: Facts) -> Iterator[Diagnostic]:
    """A gate that the flow does not name is on one of its arrows or behind one of its nodes."""
    if facts.topology.flow is None or facts.undeclared:
        return
    for node in facts.topology.nodes:
        if isinstance(node, Gate) and node.name not in facts.mentioned and UNREADABLE not in (node.after, node.before):
            yield from _stands(facts, node)


def _stands(facts: Facts, gate: Gate) -> Iterator[Diagnostic]:
    if not gate.after:
        message = f"{title(gate)} has no position in the flow"
        yield error("gate-without-place", message, gate.span, "write after: NAME and before: NAME")
    elif gate.after not in facts.declared or (gate.before and gate.before not in facts.declared):
        return  # reported as an undeclared name
    elif gate.after not in facts.mentioned:
        message = f"{title(gate)} comes after {gate.after!r}, which is not in the flow"
        yield error("no-such-arrow", message, gate.spans.get("after") or gate.span)
    elif gate.before and gate.before not in (leads := _targets(facts, gate.after)):
        message = f"{title(gate)} is on {gate.after} -> {gate.before}, but the flow has no such arrow"
        hint = f"{gate.after!r} leads to {listing(leads)}" if leads else f"no arrow leaves {gate.after!r}"
        yield error("no-such-arrow", message, gate.spans.get("before") or gate.span, hint)


def _targets(facts: Facts, name: str) -> list[str]:
    groups = (facts.flow.groups[i] for i in facts.graph.groups_of(name))
    return list(dict.fromkeys(target for group in groups for target in group.targets))
