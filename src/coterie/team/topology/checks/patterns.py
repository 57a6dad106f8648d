"""Rules for patterns: known type, valid configuration, valid and filled slots.

`coterie.team.topology.patterns` has the requirements of each type; this module locates their faults in the file.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, note, warning
from coterie.team.topology.checks.facts import UNREADABLE, Facts, mended, title
from coterie.team.topology.checks.names import fallback_of
from coterie.team.topology.model import Topology

if TYPE_CHECKING:
    from coterie.team.topology.patterns.model import Pattern, Slot

FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""A custom pattern, `module:function`."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


NAME_HINT = "a name is at most 64 letters, digits, - and _, and begins with a letter"


def is_name(text: str) -> bool:
    """Whether *text* can name a slot or its node: turns and their folders are named after it."""
    return _NAME.fullmatch(text) is not None


def type_is_known(facts: Facts) -> Iterator[Diagnostic]:
    """The type of a pattern is one of the seven or a function, `module:function`."""
    pattern = facts.topology.pattern
    if pattern is None or not pattern.type or pattern.max_turns is not None:
        return
    from coterie.team.topology.patterns.kinds import kind_of
    from coterie.team.topology.patterns.names import words

    span = pattern.spans.get("type") or pattern.span
    if FUNCTION.fullmatch(pattern.type):
        message = f"{pattern.type!r} is a custom pattern: its requirements are checked when it runs"
        yield note("own-pattern", message, span, "it is not imported before that")
    elif kind_of(pattern.type) is None:
        hint = did_you_mean(pattern.type, words()) or f"known types: {', '.join(words())}"
        yield error("unknown-type", f"unknown pattern type {pattern.type!r}", span, hint)


def pattern_fits(facts: Facts) -> Iterator[Diagnostic]:
    """A pattern has the slots its type requires, and only known settings with valid values."""
    pattern = facts.topology.pattern
    if pattern is None:
        return
    from coterie.team.topology.patterns.kinds import faults, kind_of

    kind = kind_of(pattern.type)
    for fault in faults(kind, pattern.config, [slot.name for slot in pattern.slots]) if kind is not None else ():
        place = span_of(pattern, fault.where)
        yield Diagnostic(code=fault.code, severity=fault.severity, message=fault.message, span=place, hint=fault.hint)


def slots_are_filled(facts: Facts) -> Iterator[Diagnostic]:
    """The node that fills a slot is declared."""
    for slot in _slots(facts.topology):
        if slot.node not in facts.declared and slot.node != UNREADABLE:
            message = f"slot {slot.name!r} names {slot.node!r}, which is not declared"
            key = "pattern" if slot.node.endswith(".pattern.yaml") else "flow" if slot.node.endswith(".at") else ""
            own = (
                f"write {{{key}: {slot.node}}}"
                if key
                else "declare it under agents:, or write {model: …, prompt: …} in its place"
            )
            hint = facts.near(slot.node) or own
            yield error("unknown-agent", message, slot.span, hint, mended(hint, slot.node, slot.span))


def slots_are_told_apart(facts: Facts) -> Iterator[Diagnostic]:
    """A slot has a unique name of letters, digits, - and _."""
    seen = set[str]()
    for slot in _slots(facts.topology):
        if slot.name in seen:
            yield error("duplicate-name", f"two slots are called {slot.name!r}", slot.span, "rename one of them")
        elif not is_name(slot.name):
            yield error("bad-name", f"a slot cannot be called {slot.name!r}", slot.span, NAME_HINT)
        seen.add(slot.name)


def budgets_leave_room(facts: Facts) -> Iterator[Diagnostic]:
    """A budget allows at least one turn."""
    for slot in _slots(facts.topology):
        if slot.calls is not None and slot.calls < 1:
            message = f"slot {slot.name!r} may have {slot.calls} turns, so it can never be called"
            yield error("bad-budget", message, slot.span, "allow one turn or more, or remove the budget")
        if slot.cost is not None and not 0 < slot.cost < float("inf"):
            message = f"the turns of slot {slot.name!r} may cost {slot.cost:g} dollars, so it can never be called"
            yield error("bad-budget", message, slot.span, "allow more than 0, or remove the budget")


def one_thing_coordinates(facts: Facts) -> Iterator[Diagnostic]:
    """A team has a flow or a pattern, not both."""
    topology = facts.topology
    if topology.pattern is not None and topology.flow is not None:
        message = f"{topology.name!r} has both a pattern and a flow"
        hint = "move the pattern to a separate file, and import it as a node of the flow"
        yield error("two-coordinations", message, topology.pattern.span, hint)


def agents_are_used(facts: Facts) -> Iterator[Diagnostic]:
    """Every agent of a pattern file fills a slot somewhere in it, or is the fallback of one that does."""
    if facts.topology.pattern is None or any(slot.node not in facts.declared for slot in _slots(facts.topology)):
        return
    used = set(asked(facts.topology, set()))
    for name, node in facts.declared.items():
        if name not in used:
            message = f"{title(node)} is declared but fills no slot"
            yield warning("unused-agent", message, node.span, "give it a slot, or remove it")


def asked(topology: Topology, looked_at: set[int]) -> Iterator[str]:
    """The nodes that fill slots of *topology* and its inline teams, and their fallbacks.

    Args:
        looked_at: Teams to skip, by identity; visited ones are added.
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
    """The span of the part *where* of *pattern*, `config.max_rounds`; if not written, that of its parent."""
    while where and where not in pattern.spans:
        where = where.rpartition(".")[0]
    return pattern.spans.get(where) or pattern.span


def _slots(topology: Topology) -> "tuple[Slot, ...]":
    return topology.pattern.slots if topology.pattern is not None else ()
