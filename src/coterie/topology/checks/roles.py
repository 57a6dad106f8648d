"""What the roles of a loop must keep, and the map of events to them.

Whether a loop can complete depends on its settings: that is looked at in `coterie.planning.loops.checks`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.topology.checks.facts import Facts, listing
from coterie.topology.conditions import Operator, comparison, is_number
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


def roles_are_answered_one_way(facts: Facts) -> Iterator[Diagnostic]:
    """Who answers for a role is said once: a backend, or a team."""
    for role in _roles(facts):
        if role.topology and role.backend:
            name = next(each for each in role.spans if each.startswith("backend_")) if role.spans else ""
            message = f"role {role.id!r} says twice who thinks: 'topology' and {name or 'a backend'!r}"
            yield error("two-thinkers", message, role.spans.get(name, role.span), "keep one of them")


def teams_say_what_they_emit(facts: Facts) -> Iterator[Diagnostic]:
    """A role whose team may emit several events says when it emits which: `events`."""
    for role in _roles(facts):
        several = len(role.emits) > 1 or any(map(is_pattern, role.emits))
        if role.topology and several and "events" not in role.spans:
            message = f"the team of role {role.id!r} may emit {listing(role.emits, 'or')}, and nothing says when which"
            hint = f'write events = {{"{role.emits[0]}" = "OUTPUT == VALUE", …}}; "" stands for otherwise'
            yield error("no-events", message, role.spans.get("emits") or role.span, hint)


def team_events_are_emitted(facts: Facts) -> Iterator[Diagnostic]:
    """An event that a team emits is one that its role may emit."""
    for role, event, _, span in _team_events(facts):
        if is_pattern(event) or not matches_any(role.emits, event):
            message = f"role {role.id!r} does not emit {event!r}"
            hint = did_you_mean(event, role.emits) or "name it in 'emits', or leave it out"
            yield error("event-not-emitted", message, span, hint)


def team_events_can_be_chosen(facts: Facts) -> Iterator[Diagnostic]:
    """When a team emits an event is one comparison of its outputs, or empty."""
    for role, event, when, span in _team_events(facts):
        condition = comparison(role.id, when)
        if when.strip() and condition is None:
            message = f"{when!r}, when {event!r} is emitted, is not one comparison of an output with a value"
            yield error("bad-condition", message, span, 'write OUTPUT == VALUE, or "" for otherwise')
        elif (
            condition is not None and condition.op not in (Operator.EQ, Operator.NE) and not is_number(condition.value)
        ):
            message = f"'{condition.op.value}' compares numbers, and {condition.value!r} is none"
            yield error("not-a-number", message, span, "compare words with == or !=")


def team_events_have_effect(facts: Facts) -> Iterator[Diagnostic]:
    """Only a team chooses among `events`, and nothing is chosen behind one that always holds."""
    for role in _roles(facts):
        span = role.spans.get("events") or role.span
        if role.events and not role.topology:
            message = f"the 'events' of role {role.id!r} have no effect: its agent emits by itself"
            yield warning("idle-events", message, span, 'leave them out, or name a team: topology = "…"')
            continue
        always = ""
        for event, when in role.events.items():
            if always:
                message = f"{event!r} of role {role.id!r} is never chosen: {always!r} before it always is"
                yield warning("idle-events", message, role.spans.get(f"events.{event}", span), "put it before that")
            always = always or ("" if when.strip() else event)


def _team_events(facts: Facts) -> "Iterator[tuple[Role, str, str, Span | None]]":
    """Each event of a role's team, its condition, and where it stands."""
    for role in _roles(facts):
        for event, when in role.events.items() if role.topology else ():
            yield role, event, when, role.spans.get(f"events.{event}") or role.spans.get("events") or role.span


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
