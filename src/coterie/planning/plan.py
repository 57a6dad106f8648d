"""A plan: a topology with every default and precedence resolved, ready to run and to be written down.

Plans are values that travel (into a journal, to a worker), so they are `msgspec.Struct`s and hold plain data only.
`coterie.planning.plan()` makes them; engines and the core of a run read them and resolve nothing.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from coterie.planning.coordination import Coordination, read_coordination
from coterie.topology.conditions import Scalar
from coterie.topology.graph import FlowGraph
from coterie.topology.model import ArrowGroup


class Wanted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One output that an agent's reply should hold.

    Attributes:
        type: `enum`, `text`, `number`, `integer`, `boolean`, `list` (of texts) or `any`.
        values: The members of an enum; for a text those that will do; for an undeclared output the values that
            conditions compare it with.
        declared: A declared output must be there and fit; an undeclared one is only asked for.
    """

    name: str
    type: str = "any"
    values: tuple[Scalar, ...] = ()
    declared: bool = True


class AgentPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who thinks at one node, and under which rules.

    Attributes:
        kind: `agent`, `action`, `gate`, `human` (an agent whose backend is one, too), or `topology` (a child run of
            *child*).
        backend: The name of the backend that is asked, `command`, `human`, `model` or `scripted`; empty until one is
            chosen.
        model: The model's name, for the backend.
        argv: The command and its arguments; may hold `{python}`, `{here}`, `{model}` and `{prompt_file}`.
        steps: Commands run in order by an action or a gate; each an argv list.
        prompt_via: `stdin`, `file`, or `arg`: the last word of its command, which names a file where it is too long.
        cwd: Where its process runs; empty is the run's working directory.
        env: Further environment variables of its process.
        prompt: The agent's own prompt, whole.
        role: Its role text.
        outputs: What its reply should hold.
        reads: Agents or files whose content joins the prompt.
        timeout: Seconds one attempt may take; None is without limit.
        retry: Further attempts after a failure that is not transient.
        attempts: Attempts of one turn in all, in whatever way they fail; interrupted ones do not count. None: as
            *retry* says, and the kind of failure.
        on_fail: `halt`, `skip`, `continue` or `fallback`.
        fallback: Who is asked instead, with `on_fail = "fallback"`.
        on_interrupt: After a crash of the run: `retry`, `resume`, `adopt` (as the backend can) or `ask` a human.
        options: Further settings for the backend, as the extension block writes them.
        verdict: A gate whose exit status is its output `passed`; without it a status other than 0 fails the turn.
        child: The plan of the topology that answers at this node.
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
    prompt: str = ""
    role: str = ""
    tools: tuple[str, ...] | None = None
    outputs: tuple[Wanted, ...] = ()
    reads: tuple[str, ...] = ()
    timeout: float | None = None
    retry: int = 0
    attempts: int | None = None
    on_fail: str = "halt"
    fallback: str = ""
    on_interrupt: str = "retry"
    phase: float | None = None
    options: dict[str, Any] = {}
    verdict: bool = False
    child: "Plan | None" = None


class FlowPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, dict=True, tag="flow"):
    """The flow to run, gates inserted as nodes on their arrows.

    Attributes:
        mentions: Every node of the flow, in order of first mention.
        groups: In source order, without spans.
        entries: Where it starts, in order of first mention; empty: where the arrows say. (The way back from a gate
            leads to nodes that start all the same.)
        exit: The node whose latest result is that of the run; empty: those of all nodes where paths ended.
    """

    mentions: tuple[str, ...]
    groups: tuple[ArrowGroup, ...]
    entries: tuple[str, ...] = ()
    exit: str = ""

    @cached_property
    def graph(self) -> FlowGraph:
        """The shape of the arrows, found once for all runs of the plan."""
        return FlowGraph(self.mentions, self.groups)


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an owner allows a run, over all it has done and its children together. Given anew at every resume.

    Attributes:
        max_turns: Turns of agents that may start; None is without limit.
        max_cost: US dollars; checked before each start.
        max_parallel: Turns that may run at once; humans and child runs do not count.
        add_iterations: Iterations that a loop may have beyond what its plan says, from here on.
    """

    max_turns: int | None = None
    max_cost: float | None = None
    max_parallel: int | None = 16
    add_iterations: int = 0


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a run needs to know about its team.

    Attributes:
        agents: By node name, in declaration order; also those only a fallback names.
        coordination: What decides which agent runs next, a `Coordination`; None: nothing does.
        folder: The folder of the topology's file, for `{here}`; not part of the content hash.
        notes: What the file says and coterie does not execute, one sentence each.
    """

    name: str
    version: int = 1
    agents: dict[str, AgentPlan] = {}
    coordination: Any = None
    folder: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Turn a coordination that was just decoded, still plain data, into the class of its kind."""
        if isinstance(self.coordination, dict):
            msgspec.structs.force_setattr(self, "coordination", read_coordination(self.coordination))

    @property
    def flow(self) -> FlowPlan | None:
        """The flow that coordinates it, if one does."""
        return self.coordination if isinstance(self.coordination, FlowPlan) else None

    def content_hash(self) -> str:
        """A stable SHA-256 of what the plan says, in hex; where its file lies does not count."""
        import hashlib  # few who plan ask for it

        return hashlib.sha256(to_json(_without_folders(self))).hexdigest()


def to_json(plan: Plan) -> bytes:
    """*plan* as JSON with a fixed key order: equal plans give equal bytes."""
    return msgspec.json.encode(plan, order="deterministic")


def from_json(text: bytes | str) -> Plan:
    """The plan that `to_json` wrote.

    Raises:
        msgspec.ValidationError: If *text* is not a plan.
    """
    return msgspec.json.decode(text, type=Plan)


def from_record(text: str, content_hash: str) -> Plan:
    """The plan that a journal holds as *text*, beside its *content_hash*; empty: it has none.

    Raises:
        ValueError: If *text* is not a plan, or not the one that was hashed.
    """
    plan = from_json(text)
    if content_hash and plan.content_hash() != content_hash:
        raise ValueError("it does not match its plan_hash: the text was changed after it was recorded")
    return plan


def _without_folders(plan: Plan) -> Plan:
    agents = {
        name: msgspec.structs.replace(agent, child=_without_folders(agent.child)) if agent.child else agent
        for name, agent in plan.agents.items()
    }
    coordination: Coordination | None = plan.coordination
    if coordination is not None:
        coordination = coordination.without_folders()
    return msgspec.structs.replace(plan, folder="", agents=agents, coordination=coordination)


def environments(plan: Plan) -> Iterator[dict[str, str]]:
    """The variables that *plan* gives processes by their values: of its agents, their MCP servers, and its teams."""
    for agent in plan.agents.values():
        yield agent.env
        yield from (server.get("env", {}) for server in agent.options.get("mcp_servers", {}).values())
        if agent.child is not None:
            yield from environments(agent.child)
