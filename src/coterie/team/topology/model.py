"""The topology model as frozen values: the nodes, and the order in which they run.

No I/O, no asyncio, no resolved defaults: a `Topology` mirrors its file, including spans. `coterie.team.planning`
applies settings and precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coterie.base.diagnostics import Located, Span
from coterie.team.topology.block import NOTHING, Block
from coterie.team.topology.composition import Included, Interface, Param
from coterie.team.topology.conditions import Condition, Scalar

if TYPE_CHECKING:  # loaded on demand: most files need few of these
    from coterie.team.topology.loop import Loop
    from coterie.team.topology.patterns.model import Pattern
    from coterie.team.topology.system.model import System
else:
    Loop = Pattern = System = Any


class Output(Located, frozen=True, kw_only=True):
    """A declared output of an agent.

    Attributes:
        type: `enum`, `text`, `number`, `integer`, `boolean` or `any`.
        values: The members of an enum, in the order written; empty for other types.
    """

    name: str
    type: str = "text"
    values: tuple[Scalar, ...] = ()
    span: Span | None = None


class Import(Located, frozen=True, kw_only=True):
    """An `import`: a topology that runs as a node.

    Attributes:
        source: Path relative to the folder of the importing topology, or a registry name, `team@1.2.0`.
        given: Parameter values from `with`.
        sha256: Expected SHA-256 of the file, in hex; empty: not checked.
        topology: The imported topology with these values; None if it is unreadable or in the registry.
    """

    unshown = frozenset({"topology"})

    source: str
    given: Mapping[str, Scalar] = {}
    sha256: str = ""
    topology: Topology | None = None

    @property
    def is_file(self) -> bool:
        """Whether the source is a file, not a registry name."""
        return self.source.endswith((".at", ".yaml", ".yml"))


class Node(Located, frozen=True, kw_only=True):
    """Base class of everything a flow can lead to.

    Attributes:
        kept: Fields that have no effect, by name, as plain values.
        extension: The node's own `extensions { coterie { … } }`, as plain values.
        spans: Span of each field, by name.
    """

    name: str
    description: str = ""
    timeout: float | None = None
    """Timeout of one attempt, in seconds."""
    retry: int | None = None
    """Further attempts after a failure that is not transient."""
    retrying: Block = NOTHING
    """Backoff between attempts, from `retry { … }`."""
    on_fail: str | None = None
    """`halt`, `skip`, `continue`, `fallback NAME`, or for a gate `bounce-back`."""
    outputs: tuple[Output, ...] = ()
    phase: float | None = None
    topology: Topology | None = None
    """The team that runs at this node, if declared inline."""
    extension: Mapping[str, Any] = {}
    kept: Mapping[str, Any] = {}
    span: Span | None = None
    """Span of the name in its declaration."""
    spans: Mapping[str, Span] = {}


class Agent(Node, frozen=True, kw_only=True):
    """An agent: a model, a coding agent, a program, or a whole topology, depending on its extension."""

    model: str = ""
    prompt: str = ""
    """The text, or a path (`prompt_is_path`) that is read at planning."""
    prompt_is_path: bool = False
    role: str = ""
    tools: tuple[str, ...] | None = None
    """None: the backend's default; empty: no tools."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    isolation: str = ""
    """`worktree`: each of its turns has a separate git work tree."""
    manual: bool = False
    """`invocation: manual`: deliberately not in the flow."""
    extra: Block = NOTHING
    """Options for the model, working style and permissions; only models use them, if anything does."""
    imported: Import | None = None
    """Set for an agent declared by `import`: its extension names the file, its outputs are that topology's."""


class Orchestrator(Node, frozen=True, kw_only=True):
    """The agent declared by `orchestrator { … }`; its name is always `orchestrator`."""

    model: str = ""
    generates: str = ""
    handles: tuple[str, ...] = ()
    delegation: str = ""
    """`subagent` or `inline`."""


class Action(Node, frozen=True, kw_only=True):
    """A step that runs commands without a model.

    Attributes:
        commands: Shell-free command lines (split like a shell would, run in order), or with `lang: bash` scripts.
    """

    kind: str = ""
    source: str = ""
    commands: tuple[str, ...] = ()
    lang: str = ""
    join: str = ""
    """When it starts: `all`, `any`, `all-done`, `none-failed` or `2-of-3`."""


class Gate(Node, frozen=True, kw_only=True):
    """A check on the arrow from *after* to *before*: it lets the flow through, stops it, or sends it back."""

    after: str = ""
    before: str = ""
    run: str = ""
    checks: tuple[str, ...] = ()
    behavior: str = "blocking"
    """`blocking`, or `advisory`: a failure is recorded and the flow goes on."""


class Human(Node, frozen=True, kw_only=True):
    """A person who answers through the run's inbox."""

    on_timeout: str = "halt"
    """`halt`, `skip` or `fallback NAME`."""


class AgentGroup(Node, frozen=True, kw_only=True):
    """A conversation of several agents: read and shown; a flow that leads through it cannot run."""

    members: tuple[str, ...] = ()
    speaker_selection: str = ""
    max_rounds: int | None = None
    termination: str = ""


class ArrowGroup(Located, frozen=True, kw_only=True):
    """One flow statement from one source: the unit to which `when` and `max` apply.

    Plans contain it, so the order of its fields is part of their hashes.

    Attributes:
        targets: More than one for a fan-out list.
        max: How often the group may fire within its scope; None: unlimited.
        per: The scope of the count: `run`, `phase`, or an agent's name.
        on_max: What happens when only exhausted groups would fire: `forward`, `end`, `fail` or `human`.
        implied_max: The `max` is not in the file; it bounds a conditional back arrow that the file leaves unbounded.
        kept: Attributes that have no effect (`race`, `tolerance`, …).
        span: The statement's arrow, from source to target.
        spans: Span of each name and attribute: `source`, each target's name, `when`, `max`, `per`, `on-max`.
    """

    source: str
    targets: tuple[str, ...]
    when: Condition | None = None
    max: int | None = None
    per: str = "run"
    on_max: str = "forward"
    implied_max: bool = False
    kept: Mapping[str, Any] = {}
    span: Span | None = None
    spans: Mapping[str, Span] = {}

    def __str__(self) -> str:
        return f"{self.source} -> {_shown(self.targets)}"


class ErrorArrow(Located, frozen=True, kw_only=True):
    """`writer -x[timeout]-> editor`: where work goes after a failure. Read and shown, not executed.

    Attributes:
        type: The failure type it applies to; empty for all.
        spans: Span of each name and attribute.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    type: str = ""
    when: Condition | None = None
    max: int | None = None
    kept: Mapping[str, Any] = {}
    span: Span | None = None
    spans: Mapping[str, Span] = {}

    def __str__(self) -> str:
        arrow = f"-x[{self.type}]->" if self.type else "-x->"
        return f"{_shown(self.sources)} {arrow} {_shown(self.targets)}"


RUN_INPUT = "input"
"""What `each input.files` names in place of an agent: the run's input."""


class Each(Located, frozen=True, kw_only=True):
    """`each scout.files, at-most 50`: a node is mapped over a list; each of its starts runs once for each item.

    Attributes:
        node: The mapped node.
        agent: The agent whose output *field* is the list; `input` for a value of the run's input.
        by: How many neighbours in the list an item is, itself a list then; None: one, itself.
        at_most: The most items; None: the file does not say it, which is an error.
        at_once: How many items run at once; None: as many as the run allows.
        on_more: What happens with a longer list: `fail`, or `first` to take its first items.
        tolerate: How many items may fail under `on-fail halt`, as a number or like `10%`; None: none.
        until: The condition on the node's own output that ends a set early.
        group: The place of its arrow among the groups of the flow (the first, if the statement makes several); -1: it
            is on a node without an arrow.
        spans: Span of each attribute.
    """

    node: str
    agent: str
    field: str
    by: int | None = None
    at_most: int | None = None
    at_once: int | None = None
    on_more: str = "fail"
    tolerate: int | str | None = None
    until: Condition | None = None
    group: int = -1
    span: Span | None = None
    spans: Mapping[str, Span] = {}

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by is not None else ""
        return ", ".join([f"each {self.agent}.{self.field}{by}", *self.bounds])

    @property
    def bounds(self) -> list[str]:
        """The attributes after the list, as in a file."""
        return [
            *([f"at-most {self.at_most}"] if self.at_most is not None else ()),
            *([f"at-once {self.at_once}"] if self.at_once is not None else ()),
            *([f"on-more {self.on_more}"] if self.on_more != "fail" else ()),
            *([f"tolerate {self.tolerate}"] if self.tolerate is not None else ()),
            *([f"until {self.until}"] if self.until is not None else ()),
        ]


class Flow(Located, frozen=True, kw_only=True):
    """The order in which the nodes run.

    Attributes:
        groups: In source order; a statement with a list on the left gives one group per source.
        mentions: Every name the flow mentions, in order of first mention, except those of error arrows.
        errors: The error arrows.
        each: Which nodes are mapped, in source order; several for one node say the same.
        spans: Span of each node that is mentioned without an arrow.
    """

    groups: tuple[ArrowGroup, ...] = ()
    mentions: tuple[str, ...] = ()
    errors: tuple[ErrorArrow, ...] = ()
    each: tuple[Each, ...] = ()
    span: Span | None = None
    spans: Mapping[str, Span] = {}


AnyNode = Agent | Orchestrator | Action | Gate | Human | AgentGroup


class Topology(Located, frozen=True, kw_only=True):
    """A team, as one file describes it.

    Attributes:
        patterns: The tags of the header, `[pipeline, fan-out]`.
        nodes: In declaration order; names may repeat (a check reports that).
        flow: The order of the nodes. A team has a *flow*, a *loop*, a *pattern* or a *system*, or none of them.
        roles: Role name to its text.
        meta: `version`, `description` and the block's other fields; `timeout` in seconds.
        extension: The top-level `extensions { coterie { … } }`, as plain values.
        kept: Unknown blocks.
        params: Its parameters.
        interface: Its entry and exit nodes.
        fragment: It is for inclusion in other files and cannot run by itself.
        blocks: The other blocks of the file, by keyword.
        included: The files that were included, in the order of their offsets.
        file: The path as given by the user; empty if made in Python.
        folder: Where a team made in Python finds its files and modules; empty: in the working directory.
    """

    uncompared = Located.uncompared | {"folder", "included"}

    name: str
    patterns: tuple[str, ...] = ()
    nodes: tuple[AnyNode, ...] = ()
    flow: Flow | None = None
    loop: Loop | None = None
    pattern: Pattern | None = None
    system: System | None = None
    """A supervision tree; its children that are no Python agents are nodes of the same name."""
    roles: Mapping[str, str] = {}
    meta: Mapping[str, Any] = {}
    extension: Mapping[str, Any] = {}
    kept: tuple[Block, ...] = ()
    params: tuple[Param, ...] = ()
    interface: Interface | None = None
    fragment: bool = False
    blocks: Mapping[str, Block] = {}
    included: tuple[Included, ...] = ()
    file: str = ""
    folder: str = ""
    span: Span | None = None
    spans: Mapping[str, Span] = {}
    """Spans of the header's parts: `name`, `patterns`."""

    def node(self, name: str) -> AnyNode | None:
        """The first node declared as *name*, or None."""
        return next((node for node in self.nodes if node.name == name), None)

    def block(self, kind: str) -> Block:
        """The block *kind*, or an empty one if the file has none."""
        return self.blocks.get(kind, NOTHING)


def _shown(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"
