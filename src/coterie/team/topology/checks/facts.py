"""Facts about a topology that rules share, each computed once."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import assert_never

from msgspec import structs
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Fix, Span, did_you_mean, error
from coterie.team.topology.conditions import Condition, Scalar
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.loops import Unbounded, unbounded, with_implied
from coterie.team.topology.model import (
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
"""Placeholder for a word that a reader rejected and reported; rules ignore it."""

GATE_OUTPUTS = (Output(name="passed", type="boolean"),)
"""Outputs of a gate that a condition may read."""


_HINTS = 20


class Facts:
    """A topology and facts derived from it.

    Attributes:
        declared: The nodes by name; the first of several with the same name.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.declared: dict[str, AnyNode] = {node.name: node for node in reversed(topology.nodes)}
        self._written = topology.flow or Flow()
        self._shape = FlowGraph(self._written.mentions, self._written.groups)  # usually also the graph of `flow`
        self._near: dict[str, str] = {}

    @cached_property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, in declaration order."""
        return tuple([node for node in self.topology.nodes if isinstance(node, Agent)])

    @cached_property
    def undeclared(self) -> dict[str, Span | None]:
        """Undeclared names in the flow and its conditions, with the span of their first mention."""
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
        for name, place in self._written.spans.items():
            if name not in self.declared:
                found.setdefault(name, place)
        return found

    @cached_property
    def written(self) -> Flow:
        """The flow as written, without arrows from or to undeclared names."""
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
        """The flow that runs: `written` with the implied bounds."""
        return with_implied(self.written, self.unbounded)

    @cached_property
    def graph(self) -> FlowGraph:
        """The graph of `flow`."""
        return self._shape if self.flow is self._written else FlowGraph(self.flow.mentions, self.flow.groups)

    @cached_property
    def conditional(self) -> list[tuple[ArrowGroup, Condition]]:
        """The conditional groups of `flow`, with their conditions."""
        return [(group, group.when) for group in self.flow.groups if group.when is not None]

    @cached_property
    def mentioned(self) -> set[str]:
        """The declared names in the flow."""
        return set(self.graph.nodes)

    def first_mention(self, name: str) -> Span | None:
        """The span of the first mention of *name*, which is in the flow."""
        group = next((group for group in self.flow.groups if name == group.source or name in group.targets), None)
        if group is None:
            return self.flow.spans.get(name)
        return group.spans.get("source" if name == group.source else name) or group.span

    def near(self, name: str) -> str:
        """`did you mean …?` for an undeclared name. The search is slow, so only the first ones get it."""
        if name not in self._near:
            self._near[name] = did_you_mean(name, self.declared) if len(self._near) < _HINTS else ""
        return self._near[name]

    def unknown(self, message: str, name: str, span: Span | None) -> Diagnostic:
        """The error that *name* is not declared, with a suggestion or how to declare it."""
        declare = f"declare it: agent {name} {{ model: … }}" if self.topology.pattern is None else ""
        hint = self.near(name) or declare or "declare it under agents:"
        return error("unknown-agent", message, span, hint, mended(hint, name, span))

    def leads_to(self, start: str, end: str) -> bool:
        """Whether a path of arrows, loop arrows included, leads from *start* to *end*, or they are the same."""
        return start in self.graph.place and end in self.graph.place and self.graph.leads_to(start, end)

    def output(self, agent: str, name: str) -> Output | None:
        """The declaration of the output *name*, in any case, of *agent*, if there is one."""
        return next((output for output in self.outputs(agent) if output.name.lower() == name.lower()), None)

    def outputs(self, agent: str) -> Sequence[Output]:
        """The outputs that *agent* declares; those of a gate are fixed."""
        node = self.declared.get(agent)
        if isinstance(node, Gate):
            return GATE_OUTPUTS
        return node.outputs if node is not None else ()


def values_of(output: Output) -> tuple[Scalar, ...] | None:
    """Every value that *output* can have, if finite."""
    return {"enum": output.values, "boolean": (True, False)}.get(output.type)


def kind_of(node: AnyNode) -> str:
    """The keyword of each node type."""
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
    """The name of a node in messages: `agent 'writer'`."""
    return "the orchestrator" if isinstance(node, Orchestrator) else f"{kind_of(node)} {node.name!r}"


def listing(names: Iterable[object], last: str = "and", limit: int = 6) -> str:
    """`'a', 'b' and 'c'`; a long list is cut, with the number of further items."""
    quoted = [repr(name) for name in names]
    if len(quoted) > limit:
        quoted[limit - 1 :] = [f"{len(quoted) - limit + 1} more"]
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if len(quoted) > 1 else "".join(quoted)


def mended(close: str, wrong: str, span: Span | None) -> Fix | None:
    """The fix that replaces *wrong* at *span* as the hint *close*, `did you mean 'reviewer'?`, suggests."""
    if not close.startswith("did you mean ") or span is None or span.length not in (len(wrong), len(wrong) + 2):
        return None
    meant = close.split("'")[1]
    return Fix("correct the name", span, meant if span.length == len(wrong) else f'"{meant}"')
