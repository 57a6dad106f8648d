"""Nodes by themselves: who thinks, what they give back, what happens when they fail."""

from collections.abc import Iterator

from coterie.diagnostics import Diagnostic, error, warning
from coterie.topology.checks.facts import Facts, title
from coterie.topology.model import Agent, Gate, Orchestrator

SAYS_WHO_THINKS = ("backend", "command", "pattern", "topology")
"""The keys of an agent's own coterie extension that stand in for `model`."""


def somebody_thinks(facts: Facts) -> Iterator[Diagnostic]:
    """An agent has a model, or its own extension says who thinks, or a team is written in its place."""
    for node in facts.topology.nodes:
        if not isinstance(node, Agent | Orchestrator) or node.model or node.topology is not None:
            continue
        if not any(key in node.extension for key in SAYS_WHO_THINKS):
            hint = 'write model: NAME, or extensions { coterie { command: ["program"] } }'
            if facts.topology.pattern is not None:
                hint = 'write model: NAME, command: ["program"], type: human, or pattern: {type: …}'
            yield error("no-model", f"{title(node)} has no model", node.span, hint)


def outputs_declared_once(facts: Facts) -> Iterator[Diagnostic]:
    """An output has one declaration, and an enum has members."""
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
    """Only a gate has somebody to send the work back to."""
    for node in facts.topology.nodes:
        if node.on_fail == "bounce-back" and not isinstance(node, Gate):
            hint = "write halt, skip, continue or fallback NAME"
            span = node.spans.get("on-fail") or node.span
            yield error("bounce-back-without-gate", f"{title(node)} cannot bounce work back", span, hint)


def gates_do_something(facts: Facts) -> Iterator[Diagnostic]:
    """A gate runs something; else it lets everything through."""
    for node in facts.topology.nodes:
        if isinstance(node, Gate) and not node.run:
            message = f"{title(node)} runs nothing: it lets everything through"
            yield warning("empty-gate", message, node.span, 'write run: "script.sh"')
