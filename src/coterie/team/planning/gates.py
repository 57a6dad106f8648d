"""Gates become nodes on their arrows: they pass the flow on, stop it, or send the work back.

An arrow `writer -> reviewer` with a gate becomes two, `writer -> gate -> reviewer`. Its condition and bound stay on the
first, so they work as before; the bound of a back arrow is also on the second, which so remains a back arrow. A gate
with only `after` is a separate branch.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import ArrowGroup, Flow, Gate

PASSED = "passed"
"""The output of a gate that gives a verdict instead of failing."""


def sends_back(gate: Gate) -> bool:
    """Whether a failure of *gate* sends the work back to `after`; without a retry it stops the flow instead."""
    return gate.on_fail == "bounce-back" and bool(gate.retry) and gate.behavior != "advisory" and bool(gate.after)


def insert(flow: Flow, gates: Sequence[Gate]) -> Flow:
    """Insert *gates* into the arrows of *flow*, in which all bounds are given."""
    if not gates:
        return flow
    named = [gate for gate in gates if gate.name in flow.mentions]
    chains: dict[tuple[str, str], list[Gate]] = {}
    for gate in gates:
        if gate.name not in flow.mentions:
            chains.setdefault((gate.after, gate.before), []).append(gate)
    groups = list(_on_arrows(flow, chains))
    for (after, before), chain in chains.items():
        if not before:
            groups += [arrow for gate in chain for arrow in (_arrow(after, gate.name), *_way_back(gate))]
    for gate in named:
        groups = _named(groups, gate)
    return replace(flow, groups=tuple(groups), mentions=tuple(_mentions(flow, chains)))


def phases(flow: Flow, gates: Sequence[Gate], given: Mapping[str, float | None]) -> dict[str, float | None]:
    """The phase of each gate: its own, else that of its `after` node, so that it never ends a phase."""
    named = set(flow.mentions)
    return {
        gate.name: given.get(gate.after) if gate.phase is None and gate.name not in named else gate.phase
        for gate in gates
    }


def _on_arrows(flow: Flow, chains: Mapping[tuple[str, str], Sequence[Gate]]) -> Iterator[ArrowGroup]:
    """The arrows, led through their gates; arrows out of a gate follow the first arrow into it."""
    graph = FlowGraph(flow.mentions, flow.groups)
    loops: dict[tuple[str, str], list[ArrowGroup]] = {}
    for i, group in enumerate(flow.groups):
        for target in group.targets:
            if (group.source, target) in chains and graph.is_loop(i, target):
                loops.setdefault((group.source, target), []).append(group)
    done = set[tuple[str, str]]()
    for group in flow.groups:
        pairs = [(group.source, target) for target in group.targets]
        first = {
            target: chains[pair][0].name if (pair := (group.source, target)) in chains else target
            for target in group.targets
        }
        yield replace(group, targets=tuple(first.values()))
        for pair in pairs:
            if pair in chains and pair not in done:
                done.add(pair)
                yield from _chain(chains[pair], pair[1], loops.get(pair, ()))


def _chain(gates: Sequence[Gate], target: str, loops: Sequence[ArrowGroup]) -> Iterator[ArrowGroup]:
    """The arrows from each of *gates* to the next, then to *target*; *loops* are their back arrows."""
    for gate, onward in zip(gates, [*(gate.name for gate in gates[1:]), target], strict=True):
        arrow = _arrow(gate.name, onward, _verdict(gate, True) if sends_back(gate) else None)
        scopes = {group.per for group in loops}
        if onward == target and len(scopes) == 1:
            arrow = replace(arrow, max=sum(group.max or 0 for group in loops), per=scopes.pop())
        yield arrow
        yield from _way_back(gate)


def _way_back(gate: Gate) -> Iterator[ArrowGroup]:
    if sends_back(gate):
        yield replace(_arrow(gate.name, gate.after, _verdict(gate, False)), max=gate.retry, on_max="fail")


def _named(groups: Sequence[ArrowGroup], gate: Gate) -> list[ArrowGroup]:
    """*groups* plus the back arrow of a gate that the flow names, unless the flow has one."""
    own = [group for group in groups if group.source == gate.name]
    if not sends_back(gate) or any(gate.after in group.targets for group in own):
        return list(groups)
    passed = _verdict(gate, True)
    led = [replace(g, when=passed) if g.source == gate.name and g.when is None else g for g in groups]
    return [*led, *_way_back(gate)]


def _mentions(flow: Flow, chains: Mapping[tuple[str, str], Sequence[Gate]]) -> Iterator[str]:
    """Every node, each gate following its `after` node."""
    behind: dict[str, list[str]] = {}
    for (after, _), chain in chains.items():
        behind.setdefault(after, []).extend(gate.name for gate in chain)
    for name in flow.mentions:
        yield name
        yield from behind.get(name, ())


def _arrow(source: str, target: str, when: Condition | None = None) -> ArrowGroup:
    return ArrowGroup(source=source, targets=(target,), when=when)


def _verdict(gate: Gate, passed: bool) -> Condition:
    return Condition(gate.name, PASSED, Operator.EQ, passed)
