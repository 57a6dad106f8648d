"""Rules for the roles of a loop and its handoff map.

Whether a loop can complete depends on its settings; `coterie.team.planning.loops.checks` checks that.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.team.topology.checks.facts import Facts, listing
from coterie.team.topology.conditions import Operator, comparison, is_number
from coterie.team.topology.events import COORDINATION, JOINED, START, is_pattern, matches, matches_any

if TYPE_CHECKING:
    from coterie.team.topology.loop import Handoff, Role

RESERVED = ("@branch", "@loop", "@review")
"""Auxiliary agents besides the roles: for waves, and between iterations."""


def roles_are_told_apart(facts: Facts) -> Iterator[Diagnostic]:
    """Every role has a unique id that is not reserved."""
    seen = set[str]()
    for role in _roles(facts):
        if role.id in seen:
            yield error("duplicate-role", f"two roles have the id {role.id!r}", role.span, "rename one of them")
        elif role.id in RESERVED:
            message = f"a role cannot be called {role.id!r}: the loop reserves this id"
            yield error("reserved-role", message, role.span, "choose another id")
        seen.add(role.id)


def handoffs_lead_to_roles(facts: Facts) -> Iterator[Diagnostic]:
    """Events are handed to declared roles; others are ignored."""
    ids = [role.id for role in _roles(facts)]
    for handoff in _handoffs(facts):
        for target in dict.fromkeys(handoff.targets):
            if target not in ids:
                message = f"{handoff.event!r} leads to {target!r}, which is not a role and is ignored"
                hint = did_you_mean(target, ids) or "declare it as [[role]], or remove it"
                yield warning("handoff-to-nobody", message, handoff.span, hint)


def some_handoff_leads_to_a_role(facts: Facts) -> Iterator[Diagnostic]:
    """Some event leads to a declared role: otherwise each leads to all roles, as if there were no handoff map."""
    ids = [role.id for role in _roles(facts)]
    targets = [target for handoff in _handoffs(facts) for target in handoff.targets]
    if ids and targets and not {*ids} & {*targets}:
        message = (
            f"no event leads to a role: the handoffs name {listing(dict.fromkeys(targets))}, not {listing(ids, 'or')}"
        )
        yield error("handoffs-lead-nowhere", message, _handoffs(facts)[0].span, "name roles, or remove the handoffs")


def roles_emit(facts: Facts) -> Iterator[Diagnostic]:
    """A role emits at least one event: otherwise it hands nothing on."""
    for role in _roles(facts):
        if not role.emits and "emits" in role.spans:
            message = f"role {role.id!r} emits no event, so it is called again and again"
            yield warning("silent-role", message, role.spans["emits"], "list the events it emits")


def emitted_events_count(facts: Facts) -> Iterator[Diagnostic]:
    """A role emits only events that roles may emit."""
    for role in _roles(facts):
        for event in role.emits:
            if event.endswith(JOINED):
                message = f"role {role.id!r} emits {event!r}, which only the join of a wave may emit"
                yield warning("joined-event", message, role.spans.get("emits"), "remove it")


def handled_events_come(facts: Facts) -> Iterator[Diagnostic]:
    """Every key of the handoff map can occur: a role emits it, a wave joins, or the loop starts with it."""
    roles = _roles(facts)
    emits = [event for role in roles for event in role.emits]
    for handoff in _handoffs(facts) if roles else ():
        event = handoff.event
        if event in COORDINATION:
            message = f"{event!r} is never routed: it is only recorded, and the loop does not move"
            yield warning("unemitted-event", message, handoff.span, "remove it")
        elif not is_pattern(event) and not _comes(event, emits):
            message = f"no role emits {event!r}, so this handoff is never used"
            hint = did_you_mean(event, emits) or "let a role emit it, or remove it"
            yield warning("unemitted-event", message, handoff.span, hint)
        elif is_pattern(event) and not _may_match(event, emits):
            message = f"{event!r} matches no event that a role emits"
            yield warning("unemitted-event", message, handoff.span, f"they emit {listing(dict.fromkeys(emits))}")


def roles_are_answered_one_way(facts: Facts) -> Iterator[Diagnostic]:
    """A role has a backend or a team, not both."""
    for role in _roles(facts):
        if role.topology and role.backend:
            name = next(each for each in role.spans if each.startswith("backend_")) if role.spans else ""
            message = f"role {role.id!r} has both a team and a backend: 'topology' and {name or 'a backend'!r}"
            yield error("two-thinkers", message, role.spans.get(name, role.span), "keep one of them")


def teams_say_what_they_emit(facts: Facts) -> Iterator[Diagnostic]:
    """A role whose team may emit several events has `events`, which selects one."""
    for role in _roles(facts):
        several = len(role.emits) > 1 or any(map(is_pattern, role.emits))
        if role.topology and several and "events" not in role.spans:
            message = f"the team of role {role.id!r} may emit {listing(role.emits, 'or')}, but has no 'events'"
            hint = f'write events = {{"{role.emits[0]}" = "OUTPUT == VALUE", …}}; "" is the default'
            yield error("no-events", message, role.spans.get("emits") or role.span, hint)


def team_events_are_emitted(facts: Facts) -> Iterator[Diagnostic]:
    """A team emits only events that its role may emit."""
    for role, event, _, span in _team_events(facts):
        if is_pattern(event) or not matches_any(role.emits, event):
            message = f"role {role.id!r} does not emit {event!r}"
            hint = did_you_mean(event, role.emits) or "name it in 'emits', or remove it"
            yield error("event-not-emitted", message, span, hint)


def team_events_can_be_chosen(facts: Facts) -> Iterator[Diagnostic]:
    """The condition of a team's event is one comparison of an output, or empty."""
    for role, event, when, span in _team_events(facts):
        condition = comparison(role.id, when)
        if when.strip() and condition is None:
            message = f"{when!r}, the condition of {event!r}, is not one comparison of an output with a value"
            yield error("bad-condition", message, span, 'write OUTPUT == VALUE, or "" as the default')
        elif (
            condition is not None and condition.op not in (Operator.EQ, Operator.NE) and not is_number(condition.value)
        ):
            message = f"'{condition.op.value}' compares numbers, but {condition.value!r} is not a number"
            yield error("not-a-number", message, span, "compare words with == or !=")


def team_events_have_effect(facts: Facts) -> Iterator[Diagnostic]:
    """Only a team uses `events`, and none follows one that always holds."""
    for role in _roles(facts):
        span = role.spans.get("events") or role.span
        if role.events and not role.topology:
            message = f"the 'events' of role {role.id!r} have no effect: its agent emits by itself"
            yield warning("idle-events", message, span, 'remove them, or name a team: topology = "…"')
            continue
        always = ""
        for event, when in role.events.items():
            if always:
                message = f"{event!r} of role {role.id!r} is never selected: {always!r} before it always holds"
                yield warning("idle-events", message, role.spans.get(f"events.{event}", span), "move it up")
            always = always or ("" if when.strip() else event)


def _team_events(facts: Facts) -> "Iterator[tuple[Role, str, str, Span | None]]":
    """Each event of a role's team, with its condition and span."""
    for role in _roles(facts):
        for event, when in role.events.items() if role.topology else ():
            yield role, event, when, role.spans.get(f"events.{event}") or role.spans.get("events") or role.span


def _roles(facts: Facts) -> "tuple[Role, ...]":
    return facts.topology.loop.roles if facts.topology.loop is not None else ()


def _handoffs(facts: Facts) -> "tuple[Handoff, ...]":
    return facts.topology.loop.handoff if facts.topology.loop is not None else ()


def _may_match(pattern: str, emits: list[str]) -> bool:
    """Whether *pattern* may match an event that can occur; two patterns are assumed to match."""
    return any(is_pattern(event) or matches(pattern, event) for event in (START, *emits))


def _comes(event: str, emits: list[str]) -> bool:
    """Whether *event* is emitted, starts the loop, or joins a wave opened by an emitted event."""
    base = event.removesuffix(JOINED)
    return event == START or matches_any(emits, event) or (base != event and matches_any(emits, base))
