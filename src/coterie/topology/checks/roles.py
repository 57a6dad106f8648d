"""What the roles of a loop must keep, and the map of events to them.

Whether a loop can complete depends on its settings: that is looked at in `coterie.planning.loops.checks`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.diagnostics import Diagnostic, did_you_mean, error, warning
from coterie.topology.checks.facts import Facts, listing
from coterie.topology.routing import COORDINATION, JOINED, START, is_pattern, matches, matches_any

if TYPE_CHECKING:
    from coterie.topology.loop import Handoff, Role

RESERVED = ("@branch", "@loop", "@review")
"""Who is asked beside the roles: in waves, and between iterations."""


def roles_are_told_apart(facts: Facts) -> Iterator[Diagnostic]:
    """Every role has an id of its own, and none that something else goes by."""
    seen = set[str]()
    for role in _roles(facts):
        if role.id in seen:
            yield error("duplicate-role", f"two roles have the id {role.id!r}", role.span, "rename one of them")
        elif role.id in RESERVED:
            message = f"a role cannot be called {role.id!r}: the loop itself asks somebody of that name"
            yield error("reserved-role", message, role.span, "choose another id")
        seen.add(role.id)


def handoffs_lead_to_roles(facts: Facts) -> Iterator[Diagnostic]:
    """An event is handed to roles that are declared; others do not count."""
    ids = [role.id for role in _roles(facts)]
    for handoff in _handoffs(facts):
        for target in dict.fromkeys(handoff.targets):
            if target not in ids:
                message = f"{handoff.event!r} leads to {target!r}, which is no role and does not count"
                hint = did_you_mean(target, ids) or "declare it as [[role]], or leave it out"
                yield warning("handoff-to-nobody", message, handoff.span, hint)


def roles_emit(facts: Facts) -> Iterator[Diagnostic]:
    """A role emits something: what may emit nothing hands nothing on."""
    for role in _roles(facts):
        if not role.emits and "emits" in role.spans:
            message = f"role {role.id!r} may emit nothing, so it is asked again and again"
            yield warning("silent-role", message, role.spans["emits"], "say what it hands on")


def emitted_events_count(facts: Facts) -> Iterator[Diagnostic]:
    """An event that a role emits is one that a role can emit."""
    for role in _roles(facts):
        for event in role.emits:
            if event.endswith(JOINED):
                message = f"role {role.id!r} emits {event!r}, which only the join of a wave does"
                yield warning("joined-event", message, role.spans.get("emits"), "leave it out")


def handled_events_come(facts: Facts) -> Iterator[Diagnostic]:
    """Every key of the handoff map is an event that comes: a role emits it, a wave joins, or the loop begins."""
    roles = _roles(facts)
    emits = [event for role in roles for event in role.emits]
    for handoff in _handoffs(facts) if roles else ():
        event = handoff.event
        if event in COORDINATION:
            message = f"{event!r} leads nowhere: it is noted whoever emits it, and the loop stays where it is"
            yield warning("unemitted-event", message, handoff.span, "leave it out")
        elif not is_pattern(event) and not _comes(event, emits):
            message = f"no role emits {event!r}, so nothing is handed on by it"
            hint = did_you_mean(event, emits) or "let a role emit it, or leave it out"
            yield warning("unemitted-event", message, handoff.span, hint)
        elif is_pattern(event) and not _may_match(event, emits):
            message = f"{event!r} matches no event that a role emits"
            yield warning("unemitted-event", message, handoff.span, f"they emit {listing(dict.fromkeys(emits))}")


def _roles(facts: Facts) -> "tuple[Role, ...]":
    return facts.topology.loop.roles if facts.topology.loop is not None else ()


def _handoffs(facts: Facts) -> "tuple[Handoff, ...]":
    return facts.topology.loop.handoff if facts.topology.loop is not None else ()


def _may_match(pattern: str, emits: list[str]) -> bool:
    """Whether *pattern* may match an event that comes; of two patterns that cannot be told."""
    return any(is_pattern(event) or matches(pattern, event) for event in (START, *emits))


def _comes(event: str, emits: list[str]) -> bool:
    """Whether *event* is emitted, or begins the loop, or joins a wave that an event opens which is emitted."""
    base = event.removesuffix(JOINED)
    return event == START or matches_any(emits, event) or (base != event and matches_any(emits, base))
