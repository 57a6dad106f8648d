"""Loops: each ends, and its continuation is unambiguous."""

from collections.abc import Iterator, Sequence, Set
from itertools import islice

from coterie.base.diagnostics import Diagnostic, Fix, Span, error, warning
from coterie.team.topology.checks.facts import Facts, listing
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.loops import IMPLIED_MAX, Unbounded
from coterie.team.topology.model import ArrowGroup


def cycles_are_bounded(facts: Facts) -> Iterator[Diagnostic]:
    """A cycle has a `max`; if its back arrow is conditional, one is implied."""
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


def fan_outs_run_at_once(facts: Facts) -> Iterator[Diagnostic]:
    """No back arrow makes the branches of a fan-out run one after the other; reported once for each set of cycles."""
    graph, groups = facts.graph, facts.flow.groups
    if not graph.looping:
        return
    ahead = FlowGraph(graph.nodes, [group for i, group in enumerate(groups) if not graph.is_loop_group(i)])
    for part in graph.cyclic_parts:
        nodes = sorted(part, key=graph.place.__getitem__)
        ways_back = [groups[i] for node in nodes for i in graph.groups_of(node) if graph.is_loop_group(i)]
        pairs = (
            (*pair, branches)
            for node in nodes
            for branches in _branches(graph, node)
            if (pair := _one_after_the_other(graph, ahead, part, branches))
        )
        for first, second, branches in islice(pairs, 1 if ways_back else 0):
            culprit = next((group for group in ways_back if graph.leads_to(first, group.source)), ways_back[0])
            message = f"{second!r} starts after {first!r}, not beside it: {culprit} may lead from one to the other"
            if graph.upstream(first) >> graph.rank[second] & 1:
                hint = f"lead it back to {listing(branches)} themselves, or to a node after their join"
            else:
                rest = ", ".join(name for name in branches if name not in (first, second))
                targets = ", ".join(filter(None, (second, first, rest)))
                hint = f"both start at once if {second!r} is mentioned before {first!r} in the flow: … -> [{targets}]"
            yield warning("serial-fan-out", message, culprit.span, hint)


def _branches(graph: FlowGraph, node: str) -> Iterator[tuple[str, ...]]:
    """The targets of each fan-out of *node* that goes forward."""
    forward = [graph.groups[i] for i in graph.groups_of(node) if not graph.is_loop_group(i)]
    yield tuple(dict.fromkeys(name for group in forward if group.when is None for name in group.targets))
    yield from (group.targets for group in forward if group.when is not None)


def _one_after_the_other(
    graph: FlowGraph, ahead: FlowGraph, part: Set[str], branches: Sequence[str]
) -> tuple[str, str] | None:
    """Two of *branches* in *part*: the second waits for the first although no arrow of *ahead* leads to it."""
    ranked = sorted(branches, key=graph.rank.__getitem__)
    for n, second in enumerate(ranked):
        upstream = graph.upstream(second) if n else 0
        for first in ranked[:n]:
            if first in part and upstream >> graph.rank[first] & 1 and not ahead.leads_to(first, second):
                return first, second
    return None


def _split(facts: Facts, node: str) -> tuple[list[int], list[int]]:
    """The groups of *node* that loop, and those that lead forward."""
    indices = facts.graph.groups_of(node)
    loops = [i for i in indices if facts.graph.is_loop_group(i)]
    looping = set(loops)
    return loops, [i for i in indices if i not in looping]
