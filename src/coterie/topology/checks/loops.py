"""Loops: each ends, and its continuation is unambiguous."""

from collections.abc import Iterator

from coterie.diagnostics import Diagnostic, Fix, Span, error, warning
from coterie.topology.checks.facts import Facts
from coterie.topology.loops import IMPLIED_MAX, Unbounded
from coterie.topology.model import ArrowGroup


def cycles_are_bounded(facts: Facts) -> Iterator[Diagnostic]:
    """A cycle has a `max`; if its back arrow is conditional and an arrow enters the cycle, one is implied."""
    for cycle in facts.unbounded:
        if cycle.implied is None:
            yield _endless(facts, cycle)
    # Two cycles may share the arrow that bounds them.
    for cycle in {cycle.implied: cycle for cycle in reversed(facts.unbounded)}.values():
        if cycle.implied is not None:
            yield _implied(facts.written.groups[cycle.implied], cycle)


def _endless(facts: Facts, cycle: Unbounded) -> Diagnostic:
    group = facts.written.groups[cycle.back]
    message = f"nothing bounds the cycle {cycle.path}"
    if cycle.conditional is not None:
        way_back = facts.written.groups[cycle.conditional]
        hint = f"write ', max {IMPLIED_MAX}' after the condition of {way_back}"
        return error("unbounded-cycle", f"{message}; nothing starts it", way_back.span, hint, _bound(way_back))
    if cycle.renewed:
        scopes = " and ".join(f"'per {scope}'" for scope in cycle.renewed)
        hint = "count per run, or per agent outside the cycle"
        return error("unbounded-cycle", f"{message}: the count {scopes} is reset inside it", group.span, hint)
    hint = f"give the arrow that goes back a bound: {group.source} -> {cycle.target} [max 3]"
    return error("unbounded-cycle", message, group.span, hint)


def _implied(group: ArrowGroup, cycle: Unbounded) -> Diagnostic:
    message = f"nothing bounds the cycle {cycle.path}: {group} counts as 'max {IMPLIED_MAX}'"
    hint = f"write ', max {IMPLIED_MAX}' after its condition"
    return warning("implied-max", message, group.span, hint, _bound(group))


def _bound(group: ArrowGroup) -> Fix | None:
    """Fix: write the bound behind the condition."""
    when = group.spans.get("when")
    if when is None:
        return None
    end = Span(when.line, when.column + when.length, 0, when.offset + when.length)
    return Fix(f"write 'max {IMPLIED_MAX}'", end, f", max {IMPLIED_MAX}")


def exhaustion_is_clear(facts: Facts) -> Iterator[Diagnostic]:
    """When a loop reaches its `max`, the flow continues along the first forward arrow; with several, order decides."""
    groups = facts.flow.groups
    for node in facts.graph.looping:
        loops, forward = _split(facts, node)
        spent = [i for i in loops if groups[i].on_max == "forward"]
        always = any(groups[i].when is None and groups[i].max is None for i in forward)
        if not spent or always or len({groups[i].targets for i in forward}) < 2:
            continue
        first, second = groups[forward[0]], groups[forward[1]]
        message = f"when {groups[spent[0]]} reaches its max, {first} fires regardless of its condition, not {second}"
        hint = "their order decides; or write on-max end, fail or human after the bound"
        yield warning("ambiguous-exhaustion", message, groups[spent[0]].span, hint)


def loops_stand_alone(facts: Facts) -> Iterator[Diagnostic]:
    """A forward arrow without a condition beside a loop fires every round, but its target runs once, afterwards."""
    groups = facts.flow.groups
    for node in facts.graph.looping:
        loops, forward = _split(facts, node)
        for i in forward:
            if groups[i].when is None:
                message = f"{groups[i]} has no condition beside the loop {groups[loops[0]]}"
                hint = f"{' and '.join(groups[i].targets)} will run once, after the loop"
                yield warning("unconditional-beside-loop", message, groups[i].span, hint)


def _split(facts: Facts, node: str) -> tuple[list[int], list[int]]:
    """The groups of *node* that loop, and those that lead forward."""
    indices = facts.graph.groups_of(node)
    loops = [i for i in indices if facts.graph.is_loop_group(i)]
    looping = set(loops)
    return loops, [i for i in indices if i not in looping]
