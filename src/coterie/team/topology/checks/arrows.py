"""Single arrows: fan-outs, and conditions that can hold."""

import re
from collections.abc import Iterator, Sequence

from coterie.base.diagnostics import Diagnostic, Fix, Span, did_you_mean, error, warning
from coterie.team.topology.checks.facts import Facts, listing, title, values_of
from coterie.team.topology.conditions import Condition, Operator, Scalar, as_text, equal, is_number
from coterie.team.topology.model import ArrowGroup, Output

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")

_UNCHECKED = ("ask", "command", "pattern", "topology", "type")
"""Keys of an agent's extension whose answers are not checked for undeclared outputs."""

FAN_OUT = "Fan-out requires the topology to declare the fan-out pattern"


def fan_out_is_declared(facts: Facts) -> Iterator[Diagnostic]:
    """A topology with a fan-out declares the fan-out pattern in its header; only the first fan-out is reported."""
    if "fan-out" in facts.topology.patterns:
        return
    unconditional: dict[str, ArrowGroup] = {}
    for i, group in enumerate(facts.flow.groups):
        if len(group.targets) > 1:
            yield _no_fan_out(facts, f"{group} leads to several nodes at once", group)
            return
        if group.when is None and not facts.graph.is_loop(i, group.targets[0]):
            first = unconditional.setdefault(group.source, group)
            if first.targets != group.targets:
                yield _no_fan_out(facts, f"{first} and {group} both always fire", group)
                return


def _no_fan_out(facts: Facts, what: str, group: ArrowGroup) -> Diagnostic:
    bracket = facts.topology.spans.get("patterns")
    fix = None
    if bracket is not None:
        inside = Span(bracket.line, bracket.column + 1, 0, bracket.offset + 1)
        fix = Fix("declare it", inside, "fan-out, " if facts.topology.patterns else "fan-out")
    tags = ", ".join([*facts.topology.patterns, "fan-out"])
    return error("fan-out-not-declared", f"{what}. {FAN_OUT}", group.span, f"write : [{tags}] in the header", fix)


def max_is_positive(facts: Facts) -> Iterator[Diagnostic]:
    """`max` is a number of firings, at least 1."""
    for group in facts.flow.groups:
        if group.max is not None and group.max < 1:
            message = f"'max' cannot be '{group.max}'"
            yield error("bad-max", message, group.spans.get("max") or group.span, "write a whole number, 1 or more")


def scope_needs_max(facts: Facts) -> Iterator[Diagnostic]:
    """`per` is the scope of `max`, and `on-max` what happens when it is reached; without `max` they have no effect."""
    unbounded = {cycle.implied for cycle in facts.unbounded}  # reported by another rule
    for i, group in enumerate(facts.flow.groups):
        if group.max is not None:
            continue
        idle = [name for name, value in (("per", group.per != "run"), ("on-max", group.on_max != "forward")) if value]
        known = group.per in ("run", "phase") or group.per in facts.declared
        if idle and known and i not in unbounded:
            span = group.spans.get(idle[0]) or group.span
            yield warning("scope-without-max", f"{idle[0]!r} has no effect: {group} has no 'max'", span)


def conditions_read_outputs(facts: Facts) -> Iterator[Diagnostic]:
    """A condition reads a declared output, if its agent declares any, and compares it with a possible value."""
    for group, condition in facts.conditional:
        node = facts.declared.get(condition.agent)
        if node is None:
            continue
        output = facts.output(condition.agent, condition.field)
        if output is None and (outputs := facts.outputs(condition.agent)):
            names = [each.name for each in outputs]
            message = f"{title(node)} declares no output {condition.field!r}"
            hint = did_you_mean(condition.field, names) or f"it declares {listing(names)}"
            yield error("unknown-output", message, _place(group), hint)
        else:
            yield from _answerable(group, condition, output)


def _answerable(group: ArrowGroup, condition: Condition, output: Output | None) -> Iterator[Diagnostic]:
    ordered = condition.op not in (Operator.EQ, Operator.NE)
    if not ordered and (output is None or _can_be(output, condition.value)):
        return
    value_span = group.spans.get("when.value") or _place(group)
    name = f"{condition.agent}.{condition.field}"
    if ordered and not is_number(condition.value):
        message = f"'{condition.op.value}' compares numbers, but {condition.value!r} is not a number"
        yield error("not-a-number", message, value_span, "compare words with == or !=")
    elif ordered and output is not None and not _can_be_number(output):
        kind = listing(output.values, "or") if output.type == "enum" else f"a {output.type}"
        message = f"'{condition.op.value}' compares numbers, but {name} is {kind}"
        yield error("not-a-number", message, _place(group), "compare it with == or !=")
    elif not ordered and output is not None:
        words = [as_text(value) for value in values_of(output) or ()]
        kind = listing(words, "or") if words else {"integer": "an integer"}.get(output.type, f"a {output.type}")
        hint = did_you_mean(as_text(condition.value), words) or f"it is {kind}"
        yield error("unknown-value", f"{as_text(condition.value)!r} is not a value of {name}", value_span, hint)


def _can_be(output: Output, wanted: Scalar) -> bool:
    values = values_of(output)
    if output.type in ("integer", "number"):
        return is_number(wanted) or bool(_NUMBER.fullmatch(as_text(wanted)))
    return values is None or any(equal(value, wanted) for value in values)


def _can_be_number(output: Output) -> bool:
    return output.type in ("number", "integer", "any") or any(map(is_number, output.values))


def conditions_look_upstream(facts: Facts) -> Iterator[Diagnostic]:
    """A condition reads an output of the arrow's source or of a node before it."""
    for group, condition in facts.conditional:
        if condition.agent == group.source or condition.agent not in facts.declared:
            continue
        if not facts.leads_to(condition.agent, group.source):
            message = f"{condition.agent!r} does not come before {group.source!r}: '{condition}' may never hold"
            yield warning("condition-not-upstream", message, _place(group), "a node that has not run has no outputs")


def outputs_are_covered(facts: Facts) -> Iterator[Diagnostic]:
    """Where the flow branches on a declared output, every value has an arrow.

    A node with only back arrows ends its path whenever none of them fires, and is not reported.
    """
    place = facts.graph.place
    for node in sorted({group.source for group, _ in facts.conditional}, key=place.__getitem__):
        indices = facts.graph.groups_of(node)
        conditions = [when for i in indices if (when := facts.flow.groups[i].when) is not None]
        reads = {(condition.agent, condition.field.lower()) for condition in conditions}
        if len(conditions) < len(indices) or len(reads) != 1 or all(map(facts.graph.is_loop_group, indices)):
            continue
        agent, name = reads.pop()
        output = facts.output(agent, name) if all(one.node != agent for one in facts.flow.each) else None
        values = values_of(output) if output is not None else None
        open_ = [value for value in values or () if not any(condition.holds(value) for condition in conditions)]
        # An impossible value is reported by another rule; do not also report the intended one as uncovered.
        if open_ and all(any(map(condition.holds, values or ())) for condition in conditions):
            words = listing(map(as_text, open_), "or")
            first = facts.flow.groups[indices[0]]
            message = f"no arrow from {node!r} covers {conditions[0].agent}.{conditions[0].field} == {words}"
            yield warning("uncovered-output", message, _place(first), "the path ends there; add an arrow for it")


def ways_on_have_values(facts: Facts) -> Iterator[Diagnostic]:
    """Where all arrows of a node read outputs of an agent, that agent declares them, or answers are checked for them.

    A model and a person must give what conditions read; a program, a function or a team may leave it out. A node
    with only back arrows ends its path whenever none of them fires, and is not reported.
    """
    for node in dict.fromkeys(group.source for group, _ in facts.conditional):
        indices = facts.graph.groups_of(node)
        groups = [facts.flow.groups[i] for i in indices]
        conditions = [when for group in groups if (when := group.when) is not None]
        agent = facts.declared.get(conditions[0].agent)
        if all(map(facts.graph.is_loop_group, indices)) or len(conditions) < len(groups) or agent is None:
            continue
        if {when.agent for when in conditions} != {agent.name} or facts.outputs(agent.name):
            continue
        if not any(key in agent.extension for key in _UNCHECKED):
            continue
        read = {when.field: [one for one in conditions if one.field == when.field] for when in conditions}
        message = f"all arrows from {node!r} read {listing(read)} of {agent.name!r}, which declares no outputs"
        types = ", ".join(f"{name}: {_type_read(found)}" for name, found in read.items())
        hint = f"without a value the flow ends there; write outputs {{ {types} }} in {agent.name!r}"
        yield warning("undeclared-output", message, _place(groups[0]), hint)


def _type_read(conditions: Sequence[Condition]) -> str:
    """The type of an output, as the *conditions* on it suggest."""
    if any(one.op not in (Operator.EQ, Operator.NE) for one in conditions):
        return "number"
    values = dict.fromkeys(as_text(one.value) for one in conditions)
    return " | ".join(values) if len(values) > 1 else "text"


def _place(group: ArrowGroup) -> Span | None:
    return group.spans.get("when") or group.span
