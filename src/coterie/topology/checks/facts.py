"""What the rules need to know of a topology, each thing found out once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import assert_never

from msgspec import structs

from coterie.diagnostics import Fix, Span, did_you_mean
from coterie.topology.conditions import Condition, Scalar
from coterie.topology.graph import FlowGraph
from coterie.topology.loops import Unbounded, unbounded, with_implied
from coterie.topology.model import (
    Action,
    Agent,
    AgentGroup,
    AnyNode,
    ArrowGroup,
    Flow,
    Gate,
    Human,
    Orchestrator,
    Output,
    Topology,
)

UNREADABLE = "?"
"""What a reader gives for a word that it could not read, and reported; no rule looks at it."""

GATE_OUTPUTS = (Output(name="passed", type="boolean"),)
"""What a condition may ask a gate."""


_HINTS = 20


class Facts:
    """A topology, and what follows from it.

    Attributes:
        declared: The nodes by name; of several with one name the first.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.declared: dict[str, AnyNode] = {node.name: node for node in reversed(topology.nodes)}
        self._written = topology.flow or Flow()
        self._shape = FlowGraph(self._written.mentions, self._written.groups)  # mostly that of `flow` as well
        self._near: dict[str, str] = {}

    @cached_property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, in declaration order."""
        return tuple([node for node in self.topology.nodes if isinstance(node, Agent)])

    @cached_property
    def undeclared(self) -> dict[str, Span | None]:
        """The names in the flow, its conditions included, that nothing declares, and where they stand first."""
        asked = [group.when.agent for group in self._written.groups if group.when is not None]
        if self.declared.keys() >= {*self._shape.nodes, *asked}:
            return {}
        found: dict[str, Span | None] = {}
        for group in self._written.groups:
            for name in (group.source, *group.targets):
                if name not in self.declared and name not in found:
                    found[name] = group.spans.get("source" if name == group.source else name) or group.span
            name = group.when.agent if group.when is not None else group.source
            if name not in self.declared and name not in found:
                span = group.spans.get("when") or group.span
                found[name] = structs.replace(span, length=len(name)) if span is not None else None
        return found

    @cached_property
    def written(self) -> Flow:
        """The flow as the file has it, without the arrows from and to undeclared names."""
        if self.undeclared.keys().isdisjoint(self._written.mentions):
            return self._written
        groups = []
        for group in self._written.groups:
            targets = tuple(name for name in group.targets if name in self.declared)
            if group.source in self.declared and targets:
                groups.append(replace(group, targets=targets))
        return replace(
            self._written,
            groups=tuple(groups),
            mentions=tuple(name for name in self._written.mentions if name in self.declared),
        )

    @cached_property
    def unbounded(self) -> list[Unbounded]:
        """The cycles that no written `max` bounds."""
        shape = self._shape if self.written is self._written else None
        phases = {name: node.phase for name, node in self.declared.items()}
        return unbounded(self.written, phases, shape)

    @cached_property
    def flow(self) -> Flow:
        """The flow that runs: as `written`, with the implied bounds."""
        return with_implied(self.written, self.unbounded)

    @cached_property
    def graph(self) -> FlowGraph:
        """The shape of `flow`."""
        return self._shape if self.flow is self._written else FlowGraph(self.flow.mentions, self.flow.groups)

    @cached_property
    def conditional(self) -> list[tuple[ArrowGroup, Condition]]:
        """The groups of `flow` that have a condition, with it."""
        return [(group, group.when) for group in self.flow.groups if group.when is not None]

    @cached_property
    def mentioned(self) -> set[str]:
        """The declared names in the flow."""
        groups = self.flow.groups
        return {group.source for group in groups}.union(*[group.targets for group in groups])

    def first_mention(self, name: str) -> Span | None:
        """Where *name*, which is in the flow, stands there first."""
        group = next(group for group in self.flow.groups if name == group.source or name in group.targets)
        return group.spans.get("source" if name == group.source else name) or group.span

    def near(self, name: str) -> str:
        """`did you mean …?` for a name that nothing declares. Looking takes time, so only the first ones are served."""
        if name not in self._near:
            self._near[name] = did_you_mean(name, self.declared) if len(self._near) < _HINTS else ""
        return self._near[name]

    def declaring(self, name: str) -> str:
        """How *name* is declared, in the notation of the team."""
        return (
            f"declare it: agent {name} {{ model: … }}" if self.topology.pattern is None else "declare it under agents:"
        )

    def leads_to(self, start: str, end: str) -> bool:
        """Whether a path of arrows, loop arrows included, leads from *start* to *end*, or they are the same."""
        return start in self.graph.place and end in self.graph.place and self.graph.leads_to(start, end)

    def output(self, agent: str, name: str) -> Output | None:
        """The declaration of the output *name* of *agent*, if there is one."""
        return next((output for output in self.outputs(agent) if output.name == name), None)

    def outputs(self, agent: str) -> Sequence[Output]:
        """The outputs that *agent* declares; those of a gate are always the same."""
        node = self.declared.get(agent)
        if isinstance(node, Gate):
            return GATE_OUTPUTS
        return node.outputs if node is not None else ()


def values_of(output: Output) -> tuple[Scalar, ...] | None:
    """Every value that *output* can have, where these can be counted."""
    return {"enum": output.values, "boolean": (True, False)}.get(output.type)


def kind_of(node: AnyNode) -> str:
    """What a file calls such a node."""
    match node:
        case Agent():
            return "agent"
        case Orchestrator():
            return "orchestrator"
        case Action():
            return "action"
        case Gate():
            return "gate"
        case Human():
            return "human"
        case AgentGroup():
            return "group"
        case _:
            assert_never(node)


def title(node: AnyNode) -> str:
    """How a message names a node: `agent 'writer'`."""
    return "the orchestrator" if isinstance(node, Orchestrator) else f"{kind_of(node)} {node.name!r}"


def listing(names: Iterable[object], last: str = "and", limit: int = 6) -> str:
    """`'a', 'b' and 'c'`; of many the first, and how many more."""
    quoted = [repr(name) for name in names]
    if len(quoted) > limit:
        quoted[limit - 1 :] = [f"{len(quoted) - limit + 1} more"]
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if len(quoted) > 1 else "".join(quoted)


def mended(close: str, wrong: str, span: Span | None) -> Fix | None:
    """The fix that writes what *close*, `did you mean 'reviewer'?`, suggests for *wrong*, which stands at *span*."""
    if not close.startswith("did you mean ") or span is None or span.length not in (len(wrong), len(wrong) + 2):
        return None
    meant = close.split("'")[1]
    return Fix("mend the name", span, meant if span.length == len(wrong) else f'"{meant}"')
