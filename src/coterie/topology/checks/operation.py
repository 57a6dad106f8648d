"""How a team is started and kept: what a schedule, a depth, the meta block and the orchestrator name is there."""

from collections.abc import Iterator

from coterie.diagnostics import Diagnostic, Fix, Span, did_you_mean, error, warning
from coterie.topology.checks.facts import UNREADABLE, Facts, mended, title
from coterie.topology.model import Action, Agent, Gate, Orchestrator

PATTERNS = (
    "pipeline",
    "fan-out",
    "supervisor",
    "orchestrator-worker",
    "human-gate",
    "debate",
    "consensus",
    "blackboard",
    "market-routing",
    "event-driven",
)
"""The tags that the published notation has for a header."""


def patterns_are_spelt_right(facts: Facts) -> Iterator[Diagnostic]:
    """A pattern of the header that is nearly one of the notation's is meant for it; others are the file's own."""
    for name in facts.topology.patterns:
        if name not in PATTERNS and (hint := did_you_mean(name, PATTERNS)):
            span = facts.topology.spans.get(f"patterns.{name}") or facts.topology.spans.get("patterns")
            fix = Fix("mend the name", span, hint.split("'")[1]) if span is not None and span.length > 1 else None
            yield warning("unknown-pattern", f"there is no pattern {name!r}", span, hint, fix)


def jobs_are_clear(facts: Facts) -> Iterator[Diagnostic]:
    """A job says when, once, and who, once; whoever that is, is declared."""
    for job in facts.topology.block("schedule").entries:
        owner = f"job {job.name!r}"
        for one, other, what in (("cron", "every", "when it is done"), ("agent", "action", "who does it")):
            first, second = job.get(one), job.get(other)
            if first and second:
                message = f"{owner} says twice {what}: {one!r} and {other!r}"
                yield warning("bad-job", message, job.place(other), "keep one of them")
            elif not first and not second:
                yield warning("bad-job", f"{owner} does not say {what}", job.span, f"write {one}: … or {other}: …")
        for what in ("agent", "action"):
            yield from _declared(facts, job.get(what), f"{owner} is for", job.place(what))


def omitted_nodes_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """What a level of depth omits is declared."""
    for level in facts.topology.block("depth").entries:
        for name in level.get("omit", ()):
            yield from _declared(facts, name, f"level {level.name} omits", level.place("omit", name))


def error_handler_is_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The node that hears of every failure is declared."""
    name = facts.topology.meta.get("error-handler", "")
    span = facts.topology.spans.get("meta.error-handler") or facts.topology.spans.get("meta")
    yield from _declared(facts, str(name), "the error handler is", span)


def error_arrows_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """Error arrows lead from and to what is declared."""
    flow = facts.topology.flow
    seen = set(facts.undeclared)
    for arrow in flow.errors if flow is not None else ():
        for name in (*arrow.sources, *arrow.targets):
            if name not in seen:
                yield from _declared(facts, name, "an error arrow names", arrow.spans.get(name) or arrow.span)
            seen.add(name)


def handled_actions_are_there(facts: Facts) -> Iterator[Diagnostic]:
    """An orchestrator that lists the actions it does itself lists those that are declared, and all in the flow."""
    orchestrator = next((node for node in facts.topology.nodes if isinstance(node, Orchestrator)), None)
    if orchestrator is None or not orchestrator.handles:
        return
    span = orchestrator.spans.get("handles") or orchestrator.span
    for name in orchestrator.handles:
        place = orchestrator.spans.get(f"handles.{name}") or span
        yield from _declared(facts, name, "the orchestrator handles", place)
    for node in facts.topology.nodes:
        if isinstance(node, Action) and node.name in facts.mentioned and node.name not in orchestrator.handles:
            message = f"{title(node)} is in the flow, and the orchestrator does not list it in 'handles'"
            yield warning("unhandled-action", message, span, f"add {node.name!r}")


def work_is_sent_back_to_agents(facts: Facts) -> Iterator[Diagnostic]:
    """A gate sends work back to somebody who can do it better: an action does the same once more."""
    for node in facts.topology.nodes:
        if not isinstance(node, Gate) or node.on_fail != "bounce-back":
            continue
        back = facts.declared.get(node.after)
        if back is not None and not isinstance(back, Agent | Orchestrator):
            message = f"{title(node)} sends work back to {title(back)}, which is no agent"
            yield warning("bounce-back-to-no-agent", message, node.spans.get("after") or node.span)


def _declared(facts: Facts, name: str, what: str, span: Span | None) -> Iterator[Diagnostic]:
    if name not in ("", UNREADABLE) and name not in facts.declared:
        hint = facts.near(name) or facts.declaring(name)
        message = f"{what} {name!r}, which is not declared"
        yield error("unknown-agent", message, span, hint, mended(hint, name, span))
