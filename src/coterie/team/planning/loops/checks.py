"""Checks of a loop that depend on its settings: whether it can complete, and where its events lead."""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, did_you_mean, warning
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.loops.texts import TextLocation
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.checks.facts import listing
from coterie.team.topology.events import COORDINATION, JOINED, START, is_pattern, matches, matches_any, suggested
from coterie.team.topology.loop import Loop
from coterie.team.topology.patterns.kinds import KINDS, keys_of, scalars_of


def check(
    plan: LoopPlan,
    loop: Loop,
    topology: TextLocation,
    completion: TextLocation,
    place_of: Callable[[str], TextLocation],
) -> Iterator[Diagnostic]:
    """The diagnostics of *plan*.

    Args:
        loop: Its loop, from the file *topology*.
        completion: The location of its completion event.
        place_of: Locates the value of a setting.
    """
    emits = [event for role in plan.roles for event in role.emits]
    if plan.roles:
        yield from _somebody_completes(plan, emits, completion)
    yield from _required_events_come(plan, emits, place_of("event_loop.required_events"))
    yield from _every_role_is_reached(plan, loop, topology)
    yield from _every_event_is_handled(plan, loop, topology)


def outputs_are_given(
    plan: LoopPlan, agents: Mapping[str, AgentPlan], loop: Loop, place: TextLocation
) -> Iterator[Diagnostic]:
    """A condition that selects a team's event reads an output of its pattern type."""
    written = {role.id: role for role in loop.roles}
    for role in plan.roles:
        child = agents[role.id].child if role.id in agents else None
        pattern = child.coordination if child is not None else None
        if not isinstance(pattern, PatternPlan) or pattern.type not in KINDS:
            continue
        for event, when in role.events or ():
            if when is not None and when.field not in keys_of(pattern.type):
                message = f"a {pattern.type} has no output {when.field!r}, so role {role.id!r} never emits {event!r}"
                known = (*scalars_of(pattern.type), "text")
                hint = did_you_mean(when.field, known) or f"its outputs: {listing(known)}"
                spans = written[role.id].spans
                span = spans.get(f"events.{event}") or spans.get("events")
                yield replace(place, span=span).locate(warning("output-never-given", message, hint=hint))


def _somebody_completes(plan: LoopPlan, emits: list[str], place: TextLocation) -> Iterator[Diagnostic]:
    """Some role may emit the event that completes the loop."""
    if plan.completion and not matches_any(emits, plan.completion):
        message = f"no role may emit {plan.completion!r}, which completes the loop"
        hint = did_you_mean(plan.completion, emits) or "let a role emit it, or name another event as 'completion'"
        yield place.locate(warning("nobody-completes", message, hint=hint))


def _required_events_come(plan: LoopPlan, emits: list[str], place: TextLocation) -> Iterator[Diagnostic]:
    """Every required event can be emitted by a role and satisfies the requirement."""
    for event in plan.required:
        message, hint = "", ""
        if event in COORDINATION:
            message = f"the required event {event!r} never counts: it is only recorded"
        elif event == plan.completion:
            message = f"the event {event!r} requires itself, so it can never be accepted"
        elif plan.roles and not matches_any(emits, event):
            message = f"no role may emit the required event {event!r}, so the loop never completes"
            hint = did_you_mean(event, emits) or "let a role emit it"
        if message:
            yield place.locate(warning("required-event-missing", message, hint=hint))


def _every_role_is_reached(plan: LoopPlan, loop: Loop, place: TextLocation) -> Iterator[Diagnostic]:
    """Some chain of events leads from the start to every role."""
    reached = _reached(plan)
    for role in loop.roles:
        if role.id not in reached:
            message = f"no chain of events leads from {START!r} to role {role.id!r}"
            found = warning("unreachable-role", message, hint="name it in [handoff], or remove it")
            yield replace(place, span=role.span).locate(found)


def _every_event_is_handled(plan: LoopPlan, loop: Loop, place: TextLocation) -> Iterator[Diagnostic]:
    """If a loop has a handoff map, it covers each event: an event without a key leads to all roles."""
    keys = [key for key, _ in plan.handoff]
    seen = set[str]()
    for role in loop.roles if keys else ():
        for event in role.emits:
            if event not in seen and not _is_handled(event, keys, plan.completion):
                message = f"{event!r} is in no key of [handoff], so it leads to all roles"
                found = warning("unrouted-event", message, hint=did_you_mean(event, keys) or "add it to [handoff]")
                yield replace(place, span=role.spans.get("emits") or role.span).locate(found)
            seen.add(event)


def _is_handled(event: str, keys: list[str], completion: str) -> bool:
    """Whether *event* is routed or needs no routing."""
    if event == completion or event in COORDINATION or event.endswith(JOINED):
        return True
    if is_pattern(event):
        return any(is_pattern(key) or matches(event, key) for key in keys)
    return matches_any(keys, event)


def _reached(plan: LoopPlan) -> set[str]:
    """The roles reachable by events; a pattern may emit any key it matches, and other events."""
    ids = [role.id for role in plan.roles]
    emits = {role.id: role.emits for role in plan.roles}
    keys = [key for key, _ in plan.handoff]
    reached, front = set[str](), list(suggested(plan.handoff, ids, START))
    while front:
        role = front.pop()
        if role in reached:
            continue
        reached.add(role)
        for emitted in emits[role]:
            if emitted == plan.completion or emitted in COORDINATION:
                continue
            for event in _events_of(emitted, keys):
                front += suggested(plan.handoff, ids, event)
                front += suggested(plan.handoff, ids, event + JOINED) if matches_any(keys, event + JOINED) else ()
    return reached


def _events_of(emitted: str, keys: list[str]) -> list[str]:
    """The possible events of *emitted*: itself, or for a pattern every key it matches and one that matches none."""
    if not is_pattern(emitted):
        return [emitted]
    return [*(key for key in keys if not is_pattern(key) and matches(emitted, key)), emitted]
