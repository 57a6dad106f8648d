"""Mapped nodes: a list that is there, a bound, and conditions that say which items they are about."""

import json
from collections.abc import Iterator

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, did_you_mean, error, warning
from coterie.team.topology.checks.facts import Facts, listing, mended, title
from coterie.team.topology.conditions import Condition
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import RUN_INPUT, Each, Gate, Output


def maps_are_bounded(facts: Facts) -> Iterator[Diagnostic]:
    """A mapped node says how many items it takes at most: without it nothing could be proved."""
    for one in facts.flow.each:
        if one.at_most is None:
            message = f"'each {one.agent}.{one.field}' has no 'at-most'"
            yield error("each-without-bound", message, one.span, "write at-most 50 behind it; in Python at_most=50")


def maps_agree(facts: Facts) -> Iterator[Diagnostic]:
    """All arrows that map one node say the same."""
    first: dict[str, Each] = {}
    for one in facts.flow.each:
        known = first.setdefault(one.node, one)
        if replace(known, group=one.group) != one:
            message = f"{one.node!r} is mapped in two ways: [{known}] and [{one}]"
            yield error("two-maps", message, one.span, "say the same on both arrows, or on one of them only")


def maps_have_lists(facts: Facts) -> Iterator[Diagnostic]:
    """A node is mapped over a declared list output of an agent, or over a value of the run's input."""
    for one in facts.flow.each:
        if one.agent == RUN_INPUT:
            continue
        node = facts.declared.get(one.agent)
        if node is None:
            yield facts.unknown(f"{one.agent!r} is not declared", one.agent, one.span)
        elif (output := facts.output(one.agent, one.field)) is None:
            hint = did_you_mean(one.field, [each.name for each in facts.outputs(one.agent)])
            message = f"{title(node)} declares no output {one.field!r}"
            hint = hint or f"declare it: outputs {{ {one.field}: list of text }}"
            yield error("not-a-list", message, one.span, hint, mended(hint, one.field, one.span))
        elif not _is_list(facts, one, output):
            kind = listing(output.values, "or") if output.type == "enum" else f"of the type {output.type!r}"
            hint = f"declare it as {one.field}: list, or list of text"
            yield error("not-a-list", f"{one.agent}.{one.field} is {kind}, not a list", one.span, hint)


def _is_list(facts: Facts, one: Each, output: Output) -> bool:
    if output.type.partition(" ")[0] == "list" or any(each.node == one.agent for each in facts.flow.each):
        return True
    schemas = facts.declared[one.agent].extension.get("schemas")
    schema = json.loads(schemas.get(output.name, "{}")) if isinstance(schemas, dict) else {}
    return isinstance(schema, dict) and schema.get("type") == "array"


def maps_follow_their_lists(facts: Facts) -> Iterator[Diagnostic]:
    """Whenever a mapped node starts, the agent that gives its list has run: no way leads past it."""
    if facts.undeclared:
        return
    for one in facts.flow.each:
        if one.agent not in facts.mentioned or one.node not in facts.mentioned:
            lacks = one.agent != RUN_INPUT and one.agent in facts.declared
        else:
            left = [
                replace(group, targets=targets)
                for group in facts.flow.groups
                if group.source != one.agent and (targets := tuple(t for t in group.targets if t != one.agent))
            ]
            entries = [name for name in facts.graph.entries if name != one.agent]
            lacks = one.agent == one.node or one.node in FlowGraph(facts.flow.mentions, left).beyond(entries)
        if lacks:
            message = f"{one.node!r} may start before {one.agent!r} has given {one.field!r}, which fails the run"
            yield warning("list-may-be-missing", message, one.span, f"lead every way to {one.node!r} through it")


def conditions_say_which_items(facts: Facts) -> Iterator[Diagnostic]:
    """A condition on a mapped node says `any` or `all`; on another node it does not."""
    mapped = {one.node for one in facts.flow.each}
    found = [(condition, group.spans.get("when") or group.span) for group, condition in facts.conditional]
    for condition, span in found:
        if condition.agent in mapped and not condition.over:
            message = f"{condition.agent!r} has an output for each item, so {str(condition)!r} does not say of which"
            yield error("items-not-said", message, span, f"write when any {condition}, or when all {condition}")
        elif condition.over and condition.agent not in mapped and condition.agent in facts.declared:
            message = f"{condition.agent!r} is not mapped, so it has no items for {condition.over!r}"
            yield error("no-items", message, span, f"write when {replace(condition, over='')}")
    for one in facts.flow.each:
        if one.until is not None and (why := _until(facts, one, one.until)):
            hint = f'write until any {one.node}.OUTPUT == "value"'
            yield error("bad-until", why, one.spans.get("until") or one.span, hint)


def _until(facts: Facts, one: Each, until: Condition) -> str:
    if until.agent != one.node:
        return f"'until' reads {until.agent!r}, but only items of {one.node!r} itself can end its set"
    if until.over != "any":
        return "'until' does not say 'any'"
    if facts.outputs(one.node) and facts.output(one.node, until.field) is None:
        return f"{one.node!r} declares no output {until.field!r}"
    return ""


def maps_can_run(facts: Facts) -> Iterator[Diagnostic]:
    """A gate is neither mapped nor on an arrow into a mapped node, and `tolerate` is for nodes that would halt."""
    mapped = {one.node: one for one in reversed(facts.flow.each)}
    for name, one in mapped.items():
        node = facts.declared.get(name)
        if isinstance(node, Gate):
            message = f"{title(node)} is mapped, but it judges a whole set, once"
            yield error("gate-before-items", message, one.span, "map the node before it")
        elif node is not None and one.tolerate is not None and (node.on_fail or "halt") in ("skip", "continue"):
            message = f"'tolerate' has no effect on {title(node)}, which {node.on_fail!r} lets fail anyway"
            yield error("idle-tolerate", message, one.spans.get("tolerate") or one.span, "keep one of them")
    for node in facts.topology.nodes:
        if isinstance(node, Gate) and node.before in mapped:
            message = f"{title(node)} is on the arrow into {node.before!r}, which is mapped"
            hint = f"put it behind {node.before!r}, or in the agent's own gates: [[…]]"
            yield error("gate-before-items", message, node.spans.get("before") or node.span, hint)
