"""What is doubtful of a loop only in the light of its settings: whether it can complete."""

from collections.abc import Callable, Iterator

from coterie.diagnostics import Diagnostic, did_you_mean, warning
from coterie.planning.loop import LoopPlan
from coterie.planning.loops.texts import Place
from coterie.topology.routing import COORDINATION, matches_any


def check(plan: LoopPlan, completion: Place, place_of: Callable[[str], Place]) -> Iterator[Diagnostic]:
    """What is to be said of *plan*.

    Args:
        completion: Where its completion event is named.
        place_of: Where a setting got its value.
    """
    emits = [event for role in plan.roles for event in role.emits]
    if plan.roles:
        yield from _somebody_completes(plan, emits, completion)
    yield from _required_events_come(plan, emits, place_of("event_loop.required_events"))


def _somebody_completes(plan: LoopPlan, emits: list[str], place: Place) -> Iterator[Diagnostic]:
    """Some role may emit the event that completes the loop."""
    if plan.completion and not matches_any(emits, plan.completion):
        message = f"no role may emit {plan.completion!r}, which completes the loop"
        hint = did_you_mean(plan.completion, emits) or "let a role emit it, or name another as 'completion'"
        yield place.told(warning("nobody-completes", message, hint=hint))


def _required_events_come(plan: LoopPlan, emits: list[str], place: Place) -> Iterator[Diagnostic]:
    """Every event that has to come before completion is one that some role may emit, and that counts."""
    for event in plan.required:
        message, hint = "", ""
        if event in COORDINATION:
            message = f"the required event {event!r} never counts: it is noted, and satisfies nothing"
        elif event == plan.completion:
            message = f"the event {event!r} is to come before itself, so it never can"
        elif plan.roles and not matches_any(emits, event):
            message = f"no role may emit the required event {event!r}, so the loop never completes"
            hint = did_you_mean(event, emits) or "let a role emit it"
        if message:
            yield place.told(warning("required-event-missing", message, hint=hint))
