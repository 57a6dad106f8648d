"""A plan: a topology with every default and precedence resolved, ready to run and to be stored.

Plans are stored in journals and sent to workers, so they are `msgspec.Struct`s with only plain data.
`coterie.team.planning.plan()` makes them; engines and the core of a run only read them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct, structs

from coterie.team.planning.coordination import Coordination, read_coordination
from coterie.team.topology.conditions import Condition, Scalar
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import ArrowGroup


class Wanted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One expected output of an agent's reply.

    Attributes:
        type: `enum`, `text`, `number`, `integer`, `boolean`, `list` (of texts) or `any`.
        values: The members of an enum; the accepted values of a text; for an undeclared output the values that
            conditions compare it with.
        declared: A declared output must be present and valid; an undeclared one is only requested, unless it is
            *needed* by a condition on an arrow from an agent with a model, or from a person.
        schema: The JSON Schema that it must match, for a type without a name above; with a `default` it may be missing.
    """

    name: str
    type: str = "any"
    values: tuple[Scalar, ...] = ()
    declared: bool = True
    needed: bool = False
    schema: dict[str, Any] = {}

    @property
    def optional(self) -> bool:
        """Whether a reply may leave it out."""
        return "default" in self.schema


class AgentPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The plan of one node: its backend and rules.

    Attributes:
        kind: `agent`, `action`, `gate`, `human` (also an agent with the backend `human`), or `topology` (a child run of
            *child*).
        backend: The name of the backend, `command`, `human`, `model` or `scripted`; empty until one is chosen.
        model: The model's name, for the backend.
        argv: The command and its arguments; may contain `{python}`, `{here}`, `{model}` and `{prompt_file}`.
        steps: Commands run in order by an action or a gate; each an argv list.
        prompt_via: `stdin`, `file`, or `arg`: the last argument of its command, or a file's name if it is too long.
        cwd: Where its process runs; empty is the run's working directory.
        env: Further environment variables of its process.
        env_from: Likewise, with values that contain `${NAME}`, filled in when a process starts.
        prompt: The agent's complete prompt.
        role: Its role text.
        outputs: Expected outputs of its reply.
        reads: Agents or files whose content is added to the prompt.
        timeout: Seconds one attempt may take; None: unlimited.
        retry: Further attempts after a failure that is not transient.
        attempts: Total attempts of one turn, for any failure, without interrupted ones. None: determined by *retry* and
            the kind of failure.
        repairs: Invalid replies of one turn that are never its last attempt, whatever *attempts* says.
        on_fail: `halt`, `skip`, `continue` or `fallback`.
        fallback: The agent called instead, with `on_fail = "fallback"`.
        on_interrupt: After a crash of the run: `retry`, `resume`, `adopt` (as the backend can) or `ask` a human.
        options: Further settings of the backend, as written in the extension block.
        queue: On a cluster, the queue of the nodes that may perform its turns; empty: `default`.
        isolation: `worktree`: each of its turns works in a separate git work tree, which is merged at its end.
        verdict: A gate whose exit status is its output `passed`; without it a status other than 0 fails the turn.
        child: The plan of the topology that runs at this node.
        given: Values of the input of *child*, by name.
    """

    name: str
    kind: str = "agent"
    description: str = ""
    backend: str = ""
    model: str = ""
    argv: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    prompt_via: str = "stdin"
    cwd: str = ""
    env: dict[str, str] = {}
    env_from: dict[str, str] = {}
    prompt: str = ""
    role: str = ""
    tools: tuple[str, ...] | None = None
    outputs: tuple[Wanted, ...] = ()
    reads: tuple[str, ...] = ()
    timeout: float | None = None
    retry: int = 0
    attempts: int | None = None
    repairs: int = 0
    on_fail: str = "halt"
    fallback: str = ""
    on_interrupt: str = "retry"
    phase: float | None = None
    options: dict[str, Any] = {}
    queue: str = ""
    isolation: str = ""
    verdict: bool = False
    child: "Plan | None" = None
    given: dict[str, Any] = {}

    @property
    def gates(self) -> tuple[tuple[str, ...], ...]:
        """The commands that must succeed before its answer, or its completion of a loop, counts: `options["gates"]`."""
        gates = self.options.get("gates")
        return tuple(tuple(argv) for argv in gates) if gates else ()

    @property
    def is_function(self) -> bool:
        """Whether a function of Python performs its turns."""
        return ":" in self.options.get("type", "")

    @property
    def gives_none(self) -> bool:
        """Whether it answers with None: a function that declares no outputs, or a flow with such an exit."""
        if self.outputs or self.child is None:
            return not self.outputs and self.is_function
        exit = self.child.agents.get(getattr(self.child.coordination, "exit", ""))
        return exit is not None and exit.gives_none


class MapPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node is mapped over a list.

    Attributes:
        agent: The agent whose output *field* is the list; `input` for a value of the run's input.
        by: How many neighbours in the list an item is, itself a list then; None: one, itself.
        at_once: How many items run at once; None: the run's `max_parallel`.
        on_more: What happens with more than *at_most* items: `fail`, or `first` to take the first ones.
        tolerate: How many items may fail: a number, or `10%` of the set's items, rounded down; None: none.
        until: The condition on the node's own output that ends a set early.
    """

    agent: str
    field: str
    by: int | None = None
    at_most: int
    at_once: int | None = None
    on_more: str = "fail"
    tolerate: int | str | None = None
    until: Condition | None = None

    def items(self, found: Sequence[Any]) -> Sequence[Any]:
        """The items of a set that is given the list *found*."""
        return found if self.by is None else [found[n : n + self.by] for n in range(0, len(found), self.by)]

    def said(self, items: int) -> str:
        """How many *items* there are, in words."""
        return f"{items} items" if self.by is None else f"{items} lists of up to {self.by} items"

    def tolerated(self, items: int) -> int:
        """How many of *items* may end as null."""
        if isinstance(self.tolerate, str):
            return items * int(self.tolerate.removesuffix("%")) // 100
        return self.tolerate or 0


class FlowPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, dict=True, tag="flow"):
    """The flow to run, gates inserted as nodes on their arrows.

    Attributes:
        mentions: Every node of the flow, in order of first mention.
        groups: In source order, without spans.
        entries: Where it starts, in order of first mention; empty: derived from the arrows. (A node still counts as an
            entry if a gate's back arrow leads to it.)
        exit: The node whose latest result is the run's; empty: the results of all nodes where paths ended.
        maps: How each mapped node is mapped; only in a `MappedFlowPlan`.
    """

    mentions: tuple[str, ...]
    groups: tuple[ArrowGroup, ...]
    entries: tuple[str, ...] = ()
    exit: str = ""
    maps: dict[str, MapPlan] = {}

    @cached_property
    def graph(self) -> FlowGraph:
        """The graph of the arrows, built once for all runs of the plan."""
        return FlowGraph(self.mentions, self.groups)


class MappedFlowPlan(FlowPlan, frozen=True, kw_only=True, omit_defaults=True, dict=True, tag="flow-each"):
    """A flow with mapped nodes. Releases that do not know maps refuse its tag, instead of running the nodes once."""


class ChunkedFlowPlan(FlowPlan, frozen=True, kw_only=True, omit_defaults=True, dict=True, tag="flow-each-by"):
    """A flow with nodes that are mapped over several items at once; the same holds for its tag."""


NO_LIMIT = -1
"""Lifts a limit of earlier owners of a run."""


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a run, for everything that it and its child runs have done.

    At a resume, a `max_turns` or `max_cost` of None keeps the earlier limit, and -1 lifts it.

    Attributes:
        max_turns: Maximum number of agent turns; None: unlimited.
        max_cost: Budget in US dollars, of which an estimate is reserved before each start; None: unlimited.
        max_parallel: Maximum turns that run at once, without humans and child runs.
        add_iterations: Further iterations of a loop beyond its plan, from here on.
    """

    max_turns: int | None = None
    max_cost: float | None = None
    max_parallel: int | None = 16
    add_iterations: int = 0

    def alone(self) -> "Limits":
        """These limits for an owner that keeps none of the earlier limits, as for a fork."""
        turns = NO_LIMIT if self.max_turns is None else self.max_turns
        return structs.replace(self, max_turns=turns, max_cost=NO_LIMIT if self.max_cost is None else self.max_cost)

    def after(self, earlier: "Limits") -> "Limits":
        """These limits for an owner that follows one with the limits *earlier*."""
        turns = earlier.max_turns if self.max_turns is None else self.max_turns
        cost = earlier.max_cost if self.max_cost is None else self.max_cost
        return structs.replace(
            self, max_turns=None if turns == NO_LIMIT else turns, max_cost=None if cost == NO_LIMIT else cost
        )


class TreePlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a new git work tree of a run gets: ignored files of the user's checkout, and commands that prepare it."""

    copy: tuple[str, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()


NO_TREE_PLAN = TreePlan()
"""The value that is left out of a plan's JSON, and so of its hash: msgspec compares it by identity."""


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a run needs to know about its team.

    Attributes:
        agents: By node name, in declaration order, including those only used as fallbacks.
        coordination: The `Coordination` that decides which agent runs next; None without one.
        folder: The folder of the topology's file, for `{here}`; not part of the content hash.
        notes: Parts of the file that have no effect, one sentence each.
        worktree: What a work tree of its runs gets; loops have that in their settings.
    """

    name: str
    version: int = 1
    agents: dict[str, AgentPlan] = {}
    coordination: Any = None
    folder: str = ""
    notes: tuple[str, ...] = ()
    worktree: TreePlan = NO_TREE_PLAN

    def __post_init__(self) -> None:
        """Convert a coordination that was just decoded as plain data to the class of its kind."""
        if isinstance(self.coordination, dict):
            msgspec.structs.force_setattr(self, "coordination", read_coordination(self.coordination))

    @property
    def has_functions(self) -> bool:
        """Whether functions of Python work in it, or programs, at any depth."""
        return (self.coordination is not None and self.coordination.reads_values) or any(
            agent.is_function if agent.child is None else agent.child.has_functions for agent in self.agents.values()
        )

    @property
    def flow(self) -> FlowPlan | None:
        """Its flow, if coordinated by one."""
        return self.coordination if isinstance(self.coordination, FlowPlan) else None

    def content_hash(self) -> str:
        """A stable SHA-256 of the plan's content, in hex, independent of its file's location."""
        import hashlib  # rarely needed

        return hashlib.sha256(msgspec.json.encode(_without_folders(self), order="deterministic")).hexdigest()


def to_json(plan: Plan) -> bytes:
    """Encode *plan* as JSON; its names keep their order, which prompts show of a schema."""
    return msgspec.json.encode(plan)


def from_json(text: bytes | str) -> Plan:
    """Decode a plan that `to_json` wrote.

    Raises:
        msgspec.ValidationError: If *text* is not a plan.
    """
    return msgspec.json.decode(text, type=Plan)


def from_record(text: str, content_hash: str) -> Plan:
    """Decode the plan *text* of a journal and verify its *content_hash*; an empty hash is not checked.

    Raises:
        ValueError: If *text* is not a plan, or does not match the hash.
    """
    plan = from_json(text)
    if content_hash and plan.content_hash() != content_hash:
        raise ValueError("it does not match its plan_hash: the text was changed after recording")
    return plan


def _without_folders(plan: Plan) -> Plan:
    def bare(coordination: Coordination | None) -> Coordination | None:
        return coordination.without_folders() if coordination is not None else None

    return mapped(plan, lambda one: structs.replace(one, folder="", coordination=bare(one.coordination)))


def mapped(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """*plan* as *change* makes it, and so the plans of its teams, these first."""
    agents = {
        name: structs.replace(agent, child=mapped(agent.child, change)) if agent.child else agent
        for name, agent in plan.agents.items()
    }
    return change(structs.replace(plan, agents=agents))


def moved(plan: Plan, move: Callable[[str], str]) -> Plan:
    """*plan* with the paths that *move* gives for those of its files and folders; texts and commands are as written."""

    def placed(one: Plan) -> Plan:
        agents = {name: structs.replace(agent, cwd=move(agent.cwd)) for name, agent in one.agents.items()}
        coordination = one.coordination.moved(move) if one.coordination is not None else None
        return structs.replace(one, agents=agents, coordination=coordination, folder=move(one.folder))

    return mapped(plan, placed)


def without_gates(plan: Plan) -> Plan:
    """*plan* for a trial without programs, in which no gate of an agent runs, and nothing is merged."""

    def bare(agent: AgentPlan) -> AgentPlan:
        options = {name: value for name, value in agent.options.items() if name != "gates"}
        return structs.replace(agent, options=options, isolation="")

    return mapped(
        plan, lambda one: structs.replace(one, agents={name: bare(agent) for name, agent in one.agents.items()})
    )


def environments(plan: Plan) -> Iterator[dict[str, str]]:
    """The environment variables that *plan* sets for processes of its agents, their MCP servers, and its teams.

    For a supervised system this includes the settings of its plugins and agents.
    """
    coordination: Coordination | None = plan.coordination
    if coordination is not None:
        yield from coordination.environments()
    for agent in plan.agents.values():
        yield agent.env
        if servers := agent.options.get("mcp_servers"):
            yield from (server.get("env", {}) for server in servers.values())
        if agent.child is not None:
            yield from environments(agent.child)
