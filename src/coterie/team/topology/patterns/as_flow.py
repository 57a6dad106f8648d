"""A pattern as a flow, for outlines and drawings.

The arrows are for display only. For a debate they show that both sides answer each other and report to a mediator.
"""

import json
from collections.abc import Iterator

from msgspec.structs import replace

from coterie.team.topology.checks.patterns import asked
from coterie.team.topology.model import AnyNode, ArrowGroup, Flow, Topology
from coterie.team.topology.patterns.kinds import kind_of, read_config
from coterie.team.topology.patterns.model import Pattern, Slot


def as_flow(topology: Topology) -> Topology:
    """Convert the pattern *topology* to a flow: one node per slot, with its name, and one arrow per handoff."""
    pattern = topology.pattern
    assert pattern is not None
    names = tuple(dict.fromkeys(slot.name for slot in pattern.slots))
    kind = kind_of(pattern.type)
    return replace(
        topology,
        patterns=(kind.name if kind is not None else pattern.type,),
        nodes=tuple(_nodes(topology, pattern)),
        flow=Flow(groups=tuple(arrows(pattern)), mentions=names),
        pattern=None,
    )


def rules(slot: Slot) -> Iterator[str]:
    """Short descriptions of the capabilities and budgets of *slot*."""
    if slot.capabilities:
        yield f"can {', '.join(slot.capabilities)}"
    if slot.calls is not None:
        yield f"at most {slot.calls} {'turn' if slot.calls == 1 else 'turns'}"
    if slot.cost is not None:
        yield f"at most ${slot.cost:g}"


def settings(pattern: Pattern) -> Iterator[str]:
    """The settings of *pattern* that differ from the default, `max_rounds: 2`."""
    kind = kind_of(pattern.type)
    usual = kind.config() if kind is not None else None
    for name, value in pattern.config.items():
        plain = list(value) if isinstance(value, tuple) else value
        default = getattr(usual, name, None)
        if plain != (list(default) if isinstance(default, tuple) else default):
            yield f"{name}: {json.dumps(plain, ensure_ascii=False, default=str)}"


def arrows(pattern: Pattern) -> Iterator[ArrowGroup]:
    """Handoffs between slots; empty for an unknown type or an invalid configuration."""
    kind = kind_of(pattern.type)
    config = read_config(kind.config, pattern.config)[0] if kind is not None else None
    names = [slot.name for slot in pattern.slots]
    if kind is None or config is None:
        return
    for group in config.handoffs(names):
        targets = tuple(name for name in dict.fromkeys(group.targets) if name in names)
        if group.source in names and targets:
            yield replace(group, targets=targets)


def _nodes(topology: Topology, pattern: Pattern) -> Iterator[AnyNode]:
    """The nodes by the names of their slots, then fallbacks and unused nodes.

    Nodes used only in a team at one of the slots are shown there.
    """
    declared = {node.name: node for node in reversed(topology.nodes)}
    for slot in pattern.slots:
        if slot.node in declared:
            yield replace(declared[slot.node], name=slot.name)
    taken = {slot.node for slot in pattern.slots} | {slot.name for slot in pattern.slots}
    here = set(asked(topology, {id(node.topology) for node in topology.nodes}))
    taken |= set(asked(topology, set())) - here
    yield from (node for node in topology.nodes if node.name not in taken)
