"""Operation of a team: the names in schedules, depths, the meta block and the orchestrator are declared."""

from collections.abc import Iterator

from coterie.base.diagnostics import Diagnostic, Fix, Span, did_you_mean, warning
from coterie.team.topology.checks.facts import UNREADABLE, Facts, title
from coterie.team.topology.model import Action, Agent, Gate, Orchestrator

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
"""Header tags of the published notation."""


def patterns_are_spelt_right(facts: Facts) -> Iterator[Diagnostic]:
    """A header pattern is not a misspelling of a known one; other names are custom tags."""
    for name in facts.topology.patterns:
        if name not in PATTERNS and (hint := did_you_mean(name, PATTERNS)):
            span = facts.topology.spans.get(f"patterns.{name}") or facts.topology.spans.get("patterns")
            fix = Fix("correct the name", span, hint.split("'")[1]) if span is not None and span.length > 1 else None
            yield warning("unknown-pattern", f"unknown pattern {name!r}", span, hint, fix)


def jobs_are_clear(facts: Facts) -> Iterator[Diagnostic]:
    """A job has exactly one schedule and one declared agent."""
    for job in facts.topology.block("schedule").entries:
        owner = f"job {job.name!r}"
        for one, other, what in (("cron", "every", "schedule"), ("agent", "action", "agent")):
            first, second = job.get(one), job.get(other)
            if first and second:
                message = f"{owner} has two {what}s: {one!r} and {other!r}"
                yield warning("bad-job", message, job.place(other), "keep one of them")
            elif not first and not second:
                yield warning("bad-job", f"{owner} has no {what}", job.span, f"write {one}: … or {other}: …")
        for what in ("agent", "action"):
            yield from _declared(facts, job.get(what), f"{owner} is for", job.place(what))


def omitted_nodes_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """Nodes that a level of depth omits are declared."""
    for level in facts.topology.block("depth").entries:
        for name in level.get("omit", ()):
            yield from _declared(facts, name, f"level {level.name} omits", level.place("omit", name))


def error_handler_is_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The error handler is declared."""
    name = facts.topology.meta.get("error-handler", "")
    span = facts.topology.spans.get("meta.error-handler") or facts.topology.spans.get("meta")
    yield from _declared(facts, str(name), "the error handler is", span)


def error_arrows_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """Error arrows connect declared nodes."""
    flow = facts.topology.flow
    seen = set(facts.undeclared)
    for arrow in flow.errors if flow is not None else ():
        for name in (*arrow.sources, *arrow.targets):
            if name not in seen:
                yield from _declared(facts, name, "an error arrow names", arrow.spans.get(name) or arrow.span)
            seen.add(name)


def handled_actions_are_there(facts: Facts) -> Iterator[Diagnostic]:
    """The actions an orchestrator handles are declared, and include every action in the flow."""
    orchestrator = next((node for node in facts.topology.nodes if isinstance(node, Orchestrator)), None)
    if orchestrator is None or not orchestrator.handles:
        return
    span = orchestrator.spans.get("handles") or orchestrator.span
    for name in orchestrator.handles:
        place = orchestrator.spans.get(f"handles.{name}") or span
        yield from _declared(facts, name, "the orchestrator handles", place)
    for node in facts.topology.nodes:
        if isinstance(node, Action) and node.name in facts.mentioned and node.name not in orchestrator.handles:
            message = f"{title(node)} is in the flow, but not in the orchestrator's 'handles'"
            yield warning("unhandled-action", message, span, f"add {node.name!r}")


def work_is_sent_back_to_agents(facts: Facts) -> Iterator[Diagnostic]:
    """A gate sends work back to an agent: an action would only repeat the same work."""
    for node in facts.topology.nodes:
        if not isinstance(node, Gate) or node.on_fail != "bounce-back":
            continue
        back = facts.declared.get(node.after)
        if back is not None and not isinstance(back, Agent | Orchestrator):
            message = f"{title(node)} sends work back to {title(back)}, which is not an agent"
            yield warning("bounce-back-to-no-agent", message, node.spans.get("after") or node.span)


def _declared(facts: Facts, name: str, what: str, span: Span | None) -> Iterator[Diagnostic]:
    if name not in ("", UNREADABLE) and name not in facts.declared:
        yield facts.unknown(f"{what} {name!r}, which is not declared", name, span)
