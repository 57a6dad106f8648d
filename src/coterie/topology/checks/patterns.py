"""What a pattern must keep: its type is known, its configuration and its slots fit, and somebody fills each.

What each kind of pattern asks for is said in `coterie.topology.patterns`; here it gets a place in a file.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.diagnostics import Diagnostic, Span, did_you_mean, error, note, warning
from coterie.topology.checks.facts import UNREADABLE, Facts, mended, title
from coterie.topology.checks.names import fallback_of
from coterie.topology.model import Topology

if TYPE_CHECKING:
    from coterie.topology.patterns.model import Pattern, Slot

FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""A pattern of a user's own, `module:function`."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


NAME_HINT = "a name is at most 64 letters, digits, - and _, and begins with a letter"


def is_name(text: str) -> bool:
    """Whether *text* can name a slot, or who fills it: turns and their folders are called after it."""
    return _NAME.fullmatch(text) is not None


def type_is_known(facts: Facts) -> Iterator[Diagnostic]:
    """The type of a pattern is one of the seven, or the function that plays it, `module:function`."""
    pattern = facts.topology.pattern
    if pattern is None or not pattern.type:
        return
    from coterie.topology.patterns.kinds import kind_of, words

    span = pattern.spans.get("type") or pattern.span
    if FUNCTION.fullmatch(pattern.type):
        message = f"{pattern.type!r} is a pattern of your own: what it asks for is known when it runs"
        yield note("own-pattern", message, span, "nothing is imported before that")
    elif kind_of(pattern.type) is None:
        hint = did_you_mean(pattern.type, words()) or f"there are {', '.join(words())}"
        yield error("unknown-type", f"there is no type of pattern {pattern.type!r}", span, hint)


def pattern_fits(facts: Facts) -> Iterator[Diagnostic]:
    """A pattern has the slots that its type asks for, and settings that it has, in their range."""
    pattern = facts.topology.pattern
    if pattern is None:
        return
    from coterie.topology.patterns.kinds import faults, kind_of

    kind = kind_of(pattern.type)
    for fault in faults(kind, pattern.config, [slot.name for slot in pattern.slots]) if kind is not None else ():
        place = span_of(pattern, fault.where)
        yield Diagnostic(code=fault.code, severity=fault.severity, message=fault.message, span=place, hint=fault.hint)


def slots_are_filled(facts: Facts) -> Iterator[Diagnostic]:
    """Who fills a slot is declared."""
    for slot in _slots(facts.topology):
        if slot.node not in facts.declared and slot.node != UNREADABLE:
            message = f"slot {slot.name!r} names {slot.node!r}, which is not declared"
            hint = facts.near(slot.node) or "declare it under agents:, or write {model: …, prompt: …} in its place"
            yield error("unknown-agent", message, slot.span, hint, mended(hint, slot.node, slot.span))


def slots_are_told_apart(facts: Facts) -> Iterator[Diagnostic]:
    """A slot has a name of its own, of letters, digits, - and _."""
    seen = set[str]()
    for slot in _slots(facts.topology):
        if slot.name in seen:
            yield error("duplicate-name", f"two slots are called {slot.name!r}", slot.span, "call one otherwise")
        elif not is_name(slot.name):
            yield error("bad-name", f"a slot cannot be called {slot.name!r}", slot.span, NAME_HINT)
        seen.add(slot.name)


def budgets_leave_room(facts: Facts) -> Iterator[Diagnostic]:
    """A budget allows at least one turn."""
    for slot in _slots(facts.topology):
        if slot.calls is not None and slot.calls < 1:
            message = f"slot {slot.name!r} may have {slot.calls} turns: it could never be asked"
            yield error("bad-budget", message, slot.span, "allow one turn or more, or leave the budget out")
        if slot.cost is not None and not 0 < slot.cost < float("inf"):
            message = f"the turns of slot {slot.name!r} may cost {slot.cost:g} dollars: it could never be asked"
            yield error("bad-budget", message, slot.span, "allow more than 0, or leave the budget out")


def one_thing_coordinates(facts: Facts) -> Iterator[Diagnostic]:
    """A team is led by a flow or by a pattern, not by both."""
    topology = facts.topology
    if topology.pattern is not None and topology.flow is not None:
        message = f"{topology.name!r} has a pattern and a flow, and one of them says who is asked"
        hint = "make the pattern a file of its own, and import it as a node of the flow"
        yield error("two-coordinations", message, topology.pattern.span, hint)


def agents_are_used(facts: Facts) -> Iterator[Diagnostic]:
    """Every agent of a pattern file fills a slot, somewhere in it, or stands in for one that does."""
    if facts.topology.pattern is None or any(slot.node not in facts.declared for slot in _slots(facts.topology)):
        return
    used = set(asked(facts.topology, set()))
    for name, node in facts.declared.items():
        if name not in used:
            message = f"{title(node)} is declared and fills no slot"
            yield warning("unused-agent", message, node.span, "give it a slot, or leave it out")


def asked(topology: Topology, looked_at: set[int]) -> Iterator[str]:
    """The nodes that fill the slots of *topology* and of the teams written in it, and who stands in for those.

    Args:
        looked_at: Teams that are left out, by identity; the others are added to it.
    """
    if id(topology) in looked_at:
        return
    looked_at.add(id(topology))
    declared = {node.name: node for node in topology.nodes}
    front = [slot.node for slot in _slots(topology)]
    seen = set[str]()
    while front:
        name = front.pop()
        node = declared.get(name)
        if name in seen or node is None:
            continue
        seen.add(name)
        front.append(fallback_of(node))
        if node.topology is not None:
            yield from asked(node.topology, looked_at)
    yield from seen


def span_of(pattern: "Pattern", where: str) -> Span | None:
    """Where the part *where* of *pattern* stands, `config.max_rounds`; what is not written stands in what it is of."""
    while where and where not in pattern.spans:
        where = where.rpartition(".")[0]
    return pattern.spans.get(where) or pattern.span


def _slots(topology: Topology) -> "tuple[Slot, ...]":
    return topology.pattern.slots if topology.pattern is not None else ()
