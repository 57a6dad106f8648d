"""What a team is, as frozen values: who there is, and in what order they run.

No I/O, no asyncio, no defaults resolved: a `Topology` says what the file says, spans included. What follows from
settings and precedence is decided in `coterie.planning`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.diagnostics import Span
from coterie.topology.block import NOTHING, Block
from coterie.topology.composition import Import, Included, Interface, Param
from coterie.topology.conditions import Condition, Scalar

if TYPE_CHECKING:  # each is loaded when a file has such a part: most have few
    from coterie.topology.loop import Loop
    from coterie.topology.patterns.model import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A value that an agent declares to give back.

    Attributes:
        type: `enum`, `text`, `number`, `integer`, `boolean` or `any`.
        values: The members of an enum, in the order written; empty for other types.
    """

    name: str
    type: str = "text"
    values: tuple[Scalar, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Something a flow can lead to: what every kind of node has in common.

    Attributes:
        kept: Fields that were read and are not executed, by name, as plain values.
        extension: The node's own `extensions { coterie { … } }`, as plain values.
        spans: Where each field stands, by field name.
    """

    name: str
    description: str = ""
    timeout: float | None = None
    """Seconds one attempt may take."""
    retry: int | None = None
    """Further attempts after a failure that is not transient."""
    retrying: Block = NOTHING
    """How they are spaced, where `retry { … }` says so."""
    on_fail: str | None = None
    """`halt`, `skip`, `continue`, `fallback NAME`, or for a gate `bounce-back`."""
    outputs: tuple[Output, ...] = ()
    phase: float | None = None
    topology: Topology | None = None
    """The team that answers here, when it is written in place."""
    extension: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    """Where the name stands at its declaration."""
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(Node):
    """Someone who thinks: a model, a coding agent, a program, or a whole topology (as its extension says)."""

    model: str = ""
    prompt: str = ""
    """The text, or the path the file gives (`prompt_is_path`), read at planning."""
    prompt_is_path: bool = False
    role: str = ""
    tools: tuple[str, ...] | None = None
    """None: the backend's own choice; empty: none."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    manual: bool = False
    """`invocation: manual`: not meant to be in the flow."""
    extra: Block = NOTHING
    """How its model answers, how it works and what it may touch: what only a model acts on, or nothing yet."""
    imported: Import | None = None
    """It was declared by `import`; its extension names the file, its outputs are those of that topology."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator(Node):
    """The agent that `orchestrator { … }` declares; its name is always `orchestrator`."""

    model: str = ""
    generates: str = ""
    handles: tuple[str, ...] = ()
    delegation: str = ""
    """`subagent` or `inline`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Node):
    """A step that runs commands and thinks nothing.

    Attributes:
        commands: Shell-free command lines (split like a shell would, run in order), or with `lang: bash` scripts.
    """

    kind: str = ""
    source: str = ""
    commands: tuple[str, ...] = ()
    lang: str = ""
    join: str = ""
    """When it starts: `all`, `any`, `all-done`, `none-failed` or `2-of-3`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(Node):
    """A check on the arrow from *after* to *before*: it lets the flow through, stops it, or sends it back."""

    after: str = ""
    before: str = ""
    run: str = ""
    checks: tuple[str, ...] = ()
    behavior: str = "blocking"
    """`blocking`, or `advisory`: a failure is recorded and the flow goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Human(Node):
    """A person who is asked through the run's inbox."""

    on_timeout: str = "halt"
    """`halt`, `skip` or `fallback NAME`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGroup(Node):
    """A conversation of several agents: read and shown; a run that leads through it is refused."""

    members: tuple[str, ...] = ()
    speaker_selection: str = ""
    max_rounds: int | None = None
    termination: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowGroup:
    """One flow statement seen from one source: the unit on which `when` is judged and `max` counted.

    Attributes:
        targets: More than one for a fan-out list.
        max: How often the group may fire within its scope; None is without limit.
        per: The scope of the count: `run`, `phase`, or an agent's name.
        on_max: What happens when nothing but a spent group would fire: `forward`, `end`, `fail` or `human`.
        implied_max: The `max` was not written: it bounds a conditional way back that the file left unbounded.
        kept: Attributes that are read and not executed (`race`, `tolerance`, …).
        span: The statement's arrow, from source to target.
        spans: Where each name and attribute stands: `source`, each target's name, `when`, `max`, `per`, `on-max`.
    """

    source: str
    targets: tuple[str, ...]
    when: Condition | None = None
    max: int | None = None
    per: str = "run"
    on_max: str = "forward"
    implied_max: bool = False
    kept: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.source} -> {_shown(self.targets)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorArrow:
    """`writer -x[timeout]-> editor`: where work goes after a failure. Read and shown; it is not executed.

    Attributes:
        type: Which failures it is for; empty for all.
        spans: Where each name and attribute stands.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    type: str = ""
    when: Condition | None = None
    max: int | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        arrow = f"-x[{self.type}]->" if self.type else "-x->"
        return f"{_shown(self.sources)} {arrow} {_shown(self.targets)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """In what order the nodes run.

    Attributes:
        groups: In source order; a statement with a list on the left gives one group per source.
        mentions: Every name the flow mentions, in order of first mention; those of error arrows apart.
        errors: Where work goes after a failure.
    """

    groups: tuple[ArrowGroup, ...] = ()
    mentions: tuple[str, ...] = ()
    errors: tuple[ErrorArrow, ...] = ()
    span: Span | None = field(default=None, compare=False)


AnyNode = Agent | Orchestrator | Action | Gate | Human | AgentGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A team, as one file describes it.

    Attributes:
        patterns: The tags of the header, `[pipeline, fan-out]`.
        nodes: Everything a flow can lead to, in declaration order; names may repeat (a check says so).
        flow: In what order the nodes run; *loop* which roles events lead to; *pattern* which slots they fill. A team
            has one of them, or none.
        roles: Role name to its text.
        meta: `version`, `description` and whatever else the block says; `timeout` in seconds.
        extension: The top-level `extensions { coterie { … } }`, as plain values.
        kept: Blocks that the notation does not know.
        params: The values that those who use it may give it, or must.
        interface: Where it starts and whose result is its own.
        fragment: It is a part for others to include, and is not run by itself.
        blocks: What the file says beside, by keyword.
        included: The files that were included, in the order of their offsets.
        file: The path it was read from, as the user named it; empty for one made in Python.
    """

    name: str
    patterns: tuple[str, ...] = ()
    nodes: tuple[AnyNode, ...] = ()
    flow: Flow | None = None
    loop: Loop | None = None
    pattern: Pattern | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    extension: Mapping[str, Any] = field(default_factory=dict)
    kept: tuple[Block, ...] = ()
    params: tuple[Param, ...] = ()
    interface: Interface | None = None
    fragment: bool = False
    blocks: Mapping[str, Block] = field(default_factory=dict)
    included: tuple[Included, ...] = field(default=(), compare=False)
    file: str = ""
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
    """Where the header's parts stand: `name`, `patterns`."""

    def node(self, name: str) -> AnyNode | None:
        """The first node declared as *name*, or None."""
        return next((node for node in self.nodes if node.name == name), None)

    def block(self, kind: str) -> Block:
        """The block *kind*; one that says nothing where the file has none."""
        return self.blocks.get(kind, NOTHING)


def _shown(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"
