"""Single nodes: backend, outputs and failure policy."""

from collections.abc import Iterator

from coterie.diagnostics import Diagnostic, error, warning
from coterie.topology.checks.facts import Facts, title
from coterie.topology.model import Agent, Gate, Orchestrator

SAYS_WHO_THINKS = ("backend", "command", "pattern", "topology")
"""Keys of an agent's coterie extension that replace `model`."""


def somebody_thinks(facts: Facts) -> Iterator[Diagnostic]:
    """An agent has a model, a backend in its extension, or an inline team."""
    for node in facts.topology.nodes:
        if not isinstance(node, Agent | Orchestrator) or node.model or node.topology is not None:
            continue
        if not any(key in node.extension for key in SAYS_WHO_THINKS):
            hint = 'write model: NAME, or extensions { coterie { command: ["program"] } }'
            if facts.topology.pattern is not None:
                hint = 'write model: NAME, command: ["program"], type: human, or pattern: {type: …}'
            yield error("no-model", f"{title(node)} has no model", node.span, hint)


def outputs_declared_once(facts: Facts) -> Iterator[Diagnostic]:
    """An output is declared once, and an enum has members."""
    for node in facts.topology.nodes:
        if not node.outputs:
            continue
        seen = set[str]()
        for output in node.outputs:
            if output.name in seen:
                yield error("duplicate-output", f"{title(node)} declares the output {output.name!r} twice", output.span)
            elif output.type == "enum" and not output.values:
                yield error("empty-enum", f"the output {output.name!r} of {title(node)} has no values", output.span)
            seen.add(output.name)


def bounce_back_is_for_gates(facts: Facts) -> Iterator[Diagnostic]:
    """Only a gate can send work back."""
    for node in facts.topology.nodes:
        if node.on_fail == "bounce-back" and not isinstance(node, Gate):
            hint = "write halt, skip, continue or fallback NAME"
            span = node.spans.get("on-fail") or node.span
            yield error("bounce-back-without-gate", f"{title(node)} cannot bounce work back", span, hint)


def gates_do_something(facts: Facts) -> Iterator[Diagnostic]:
    """A gate runs a command; otherwise it lets everything through."""
    for node in facts.topology.nodes:
        if isinstance(node, Gate) and not node.run:
            message = f"{title(node)} runs no command, so it lets everything through"
            yield warning("empty-gate", message, node.span, 'write run: "script.sh"')
