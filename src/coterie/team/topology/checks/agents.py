"""Single nodes: backend, outputs and failure policy."""

import re
from collections.abc import Iterator

from coterie.base.diagnostics import Diagnostic, did_you_mean, error, warning
from coterie.team.topology.checks.facts import Facts, title
from coterie.team.topology.model import Agent, Gate, Orchestrator

SAYS_WHO_THINKS = ("ask", "backend", "command", "pattern", "topology", "type")
"""Keys of an agent's coterie extension that replace `model`."""


_LIKE_A_TYPE = re.compile(
    "any|array|bool(ean)?|date(time)?|dict|double|float|int(eger)?|json|list|map|number|object|str(ing)?|text|tuple",
    re.IGNORECASE,
)


def somebody_thinks(facts: Facts) -> Iterator[Diagnostic]:
    """An agent has a model, a backend in its extension, or an inline team."""
    for node in facts.topology.nodes:
        if not isinstance(node, Agent | Orchestrator) or node.model or node.topology is not None:
            continue
        if not any(key in node.extension for key in SAYS_WHO_THINKS):
            hint = 'write model: NAME, or extensions { coterie { command: ["program"] } }'
            if facts.topology.pattern is not None:
                hint = 'write model: NAME, command: ["program"], type: human, flow: FILE.at, or pattern: {type: …}'
            own = [word for word in node.kept.get("extensions", ()) if did_you_mean(word, ["coterie"])]
            hint = f"write coterie in place of {own[0]}" if own else hint
            near = ((key, did_you_mean(key, SAYS_WHO_THINKS)) for key in (*node.extension, *node.kept))
            key, close = next((pair for pair in near if pair[1]), ("", ""))
            if close and key in node.extension:
                message = f"{title(node)} has no model: its extension has {key!r}"
                yield error("no-model", message, node.spans.get(f"extension.{key}", node.span), close)
            elif key in SAYS_WHO_THINKS:
                hint = f"write it in its extension: extensions {{ coterie {{ {key}: … }} }}"
                yield error("no-model", f"{title(node)} has no model: {key!r} is not a field of it", node.span, hint)
            else:
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


def enums_are_meant(facts: Facts) -> Iterator[Diagnostic]:
    """An output whose only value looks like a type is probably meant to have that type."""
    for node in facts.topology.nodes:
        for output in node.outputs:
            if len(output.values) == 1 and _LIKE_A_TYPE.fullmatch(str(output.values[0])):
                message = f"the output {output.name!r} of {title(node)} can only be the word {output.values[0]!r}"
                hint = "the types are text, number, integer, boolean, list of text, and any, which may be an object"
                yield warning("type-as-value", message, output.span, hint)


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
