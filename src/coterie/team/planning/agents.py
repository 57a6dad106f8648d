"""The plan of each node: its prompt and role, outputs, limits and backend."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Span, error, warning
from coterie.team.options.agents import AGENT_KEYS, HUMAN_KEYS, PROCESS_KEYS
from coterie.team.options.backends import usual_policy
from coterie.team.options.values import VARIABLE
from coterie.team.planning.backend_choice import choose_backend, coding_options
from coterie.team.planning.extension import Extension, Report, read_extension
from coterie.team.planning.files import read_text
from coterie.team.planning.gates import PASSED, sends_back
from coterie.team.planning.models import idle_keys, model_options
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import NO_TREE_PLAN, AgentPlan, MapPlan, Plan, TreePlan, Wanted
from coterie.team.planning.safety import variables_of
from coterie.team.planning.steps import located, split
from coterie.team.topology.checks.facts import title
from coterie.team.topology.checks.names import fallback_of
from coterie.team.topology.composition import fill, values_of
from coterie.team.topology.conditions import Condition, Scalar
from coterie.team.topology.model import (
    Action,
    Agent,
    AgentGroup,
    AnyNode,
    ArrowGroup,
    Gate,
    Human,
    Orchestrator,
    Topology,
)

Asked = Mapping[str, Mapping[str, tuple[Scalar, ...]]]
"""For each agent and field that conditions read, the constants compared with it, in source order."""


class Setting(Struct, frozen=True, kw_only=True):
    """Data shared by the plans of all nodes of a topology.

    Attributes:
        default: The topology's own extension.
        backend: The run's default backend.
        needed: The agents and fields that conditions on the agents' own arrows read.
        phases: The phase of each inserted gate.
    """

    topology: Topology
    folder: Path | None
    default: Extension
    backend: str | None
    report: Report
    asked: Asked = {}
    needed: Collection[tuple[str, str]] = ()
    phases: Mapping[str, float | None] = {}


def asked_of(groups: Sequence[ArrowGroup], maps: Iterable[MapPlan] = ()) -> Asked:
    """The outputs that conditions on *groups* and *maps* read, with the constants compared with them."""
    found: dict[str, dict[str, dict[str, Scalar]]] = {}
    for when in (*(group.when for group in groups), *(one.until for one in maps)):
        match when:
            case Condition(agent=agent, field=name, value=value):
                found.setdefault(agent, {}).setdefault(name, {}).setdefault(repr(value), value)
            case None:
                pass
    return {agent: {name: tuple(values.values()) for name, values in fields.items()} for agent, fields in found.items()}


def needed_of(groups: Sequence[ArrowGroup]) -> set[tuple[str, str]]:
    """The agents and outputs that conditions on *groups* read where the agent is the arrow's source."""
    return {(one.source, one.when.field) for one in groups if one.when is not None and one.when.agent == one.source}


def plan_node(node: AnyNode, setting: Setting) -> tuple[AgentPlan, str] | None:
    """The plan of *node*, and the file of its topology, if any; None for a group."""
    match node:
        case Agent() | Orchestrator():
            return _agent(node, setting)
        case Action():
            return _action(node, setting), ""
        case Gate():
            return _gate(node, setting), ""
        case Human():
            return _human(node, setting), ""
        case AgentGroup():
            return None
        case _:
            assert_never(node)


def tree_plan(own: Extension) -> TreePlan:
    """What the block of a topology says about work trees."""
    if not own.worktree_copy and not own.worktree_setup:
        return NO_TREE_PLAN
    return TreePlan(copy=own.worktree_copy, setup=own.worktree_setup)


def with_child(agent: AgentPlan, child: Plan) -> AgentPlan:
    """Replace *agent* by a child run of *child*.

    A pattern has fixed outputs; outputs that only conditions read are not requested from its agents.
    """
    outputs = agent.outputs
    if isinstance(child.coordination, PatternPlan):
        outputs = tuple(wanted for wanted in outputs if wanted.declared)
    return replace(agent, kind="topology", backend="", child=child, outputs=outputs)


def _agent(node: Agent | Orchestrator, setting: Setting) -> tuple[AgentPlan, str]:
    own, owner = _own(node, AGENT_KEYS, setting), title(node)
    chosen = choose_backend(owner, own, setting.default, setting.backend, setting.report)
    process, human, options = _process(node, own, setting, chosen.backend), chosen.backend == "human", chosen.options
    if chosen.backend == "model":
        options = model_options(node, own, setting.default, options, setting.topology, setting.report)
    options = {**options, **coding_options(chosen.backend, own, setting.default)}
    for idle in idle_keys(owner, chosen.backend, own):
        setting.report(idle)
    if chosen.topology and own.thread:
        why = f"'thread' of {owner} has no effect: a team inside a team is not shown the thread"
        setting.report(warning("idle-key", why, own.spans.get("thread")))
    if human or chosen.topology:
        process["timeout"] = _timeout(
            node, own
        )  # this default is meant for one program; it is too short for humans and teams
    elif process["timeout"] is None:
        process["timeout"] = setting.topology.block("defaults").get("timeout", None)
    own_words: dict[str, Any] = {}
    if isinstance(node, Agent):
        own_words = {
            "prompt": _prompt(node, setting),
            "role": role_of(node, setting.topology.roles),
            "tools": node.tools,
            "reads": node.reads,
            "isolation": node.isolation,
        }
    words = _common(node, setting)
    if own.schemas:
        words["outputs"] = tuple(
            replace(wanted, schema=dict(own.schemas.get(wanted.name, wanted.schema))) for wanted in words["outputs"]
        )
    if own.command or own.topology or own.pattern or own.type or own.ask:
        words["outputs"] = tuple(replace(wanted, needed=False) for wanted in words["outputs"])
    plan = AgentPlan(
        kind="human" if human else "agent",
        backend=chosen.backend,
        model=node.model,
        argv=located(chosen.argv, setting.folder),
        prompt_via=chosen.prompt_via,
        options=options,
        given=dict(own.with_),
        **own_words,
        **words,
        **process,
    )
    if own.with_ and not (chosen.topology or node.topology or getattr(node, "imported", None)):
        setting.report(error("bad-value", f"{owner} is no team, which 'with' is for", own.spans.get("with")))
    return plan, chosen.topology


def _action(node: Action, setting: Setting) -> AgentPlan:
    own = _own(node, PROCESS_KEYS, setting)
    span = node.spans.get("commands") or node.span
    return AgentPlan(
        kind="action",
        backend="command",
        steps=split(node.commands, node.lang, setting.folder, title(node), span, setting.report),
        options=_confined(own),
        **_common(node, setting),
        **_process(node, own, setting),
    )


def _gate(node: Gate, setting: Setting) -> AgentPlan:
    own = _own(node, PROCESS_KEYS, setting)
    span = node.spans.get("run") or node.span
    verdict = node.behavior == "advisory" or sends_back(node) or PASSED in setting.asked.get(node.name, ())
    common = _common(node, setting) | {"outputs": (Wanted(name=PASSED, type="boolean"),) if verdict else ()}
    if sends_back(node):
        common["retry"] = 0  # its retries are further rounds
    if node.name in setting.phases:
        common["phase"] = setting.phases[node.name]
    return AgentPlan(
        kind="gate",
        backend="command",
        steps=split([node.run] if node.run else [], "", setting.folder, title(node), span, setting.report),
        verdict=verdict,
        options=_confined(own),
        **common,
        **_process(node, own, setting),
    )


def _human(node: Human, setting: Setting) -> AgentPlan:
    own = _own(node, HUMAN_KEYS, setting)
    common = _common(node, setting)
    common["on_fail"] = _policy(node.on_fail if node.on_fail is not None else node.on_timeout)
    # The question to a human is the node's description: there is no other text.
    return AgentPlan(kind="human", backend="human", prompt=node.description, timeout=_timeout(node, own), **common)


def _own(node: AnyNode, keys: tuple[str, ...], setting: Setting) -> Extension:
    spans: dict[str, Span | None] = {key: node.spans.get(f"extension.{key}") for key in node.extension}
    spans[""] = node.spans.get("extensions") or node.span
    called = {
        key: entry for key in node.extension if (entry := key.replace("-", "_")) in node.spans
    }  # the option in YAML
    return read_extension(node.extension, keys, title(node), spans, setting.report, called)


def _common(node: AnyNode, setting: Setting) -> dict[str, Any]:
    """Plan fields of every kind of node."""
    return {
        "name": node.name,
        "description": node.description,
        "retry": node.retry or 0,
        "on_fail": _policy(node.on_fail),
        "fallback": fallback_of(node),
        "outputs": _wanted(node, setting),
        "phase": node.phase,
    }


def _process(node: AnyNode, own: Extension, setting: Setting, backend: str = "command") -> dict[str, Any]:
    """Plan fields of everything but humans: from the extension, then the node, then the topology."""
    default, timeout = setting.default, _timeout(node, own)
    variables = variables_of(setting.topology)
    references = {name: value for name, value in variables.items() if VARIABLE.search(value)}
    env = {**variables, **default.env, **own.env}
    return {
        "timeout": default.timeout if timeout is None else timeout,
        "cwd": own.cwd or default.cwd,
        "env": {name: value for name, value in env.items() if references.get(name) != value},
        "env_from": {name: value for name, value in references.items() if env[name] == value},
        "on_interrupt": own.on_interrupt or default.on_interrupt or usual_policy(backend),
        "queue": own.queue or default.queue,
    }


def _confined(own: Extension) -> dict[str, Any]:
    return {"sandbox": own.sandbox} if own.sandbox else {}


def _timeout(node: AnyNode, own: Extension) -> float | None:
    return node.timeout if own.timeout is None else own.timeout


def _policy(policy: str | None) -> str:
    """`halt`, `skip`, `continue` or `fallback`; a gate that sends work back has arrows for that."""
    word = (policy or "halt").split(" ")[0]
    return "halt" if word == "bounce-back" else word


def _wanted(node: AnyNode, setting: Setting) -> tuple[Wanted, ...]:
    """The declared outputs, then those only conditions read. Outputs of an import are checked in its own run."""
    judged = isinstance(node, Agent) and node.imported is not None
    declared = [
        Wanted(
            name=output.name,
            type=output.type.partition(" ")[0],
            values=output.values,
            declared=not judged,
            schema=_list_schema(output.type),
        )
        for output in node.outputs
    ]
    names = {output.name for output in node.outputs}
    can_answer = isinstance(node, Agent | Orchestrator | Human) and not judged
    read = [
        Wanted(name=name, values=values, declared=False, needed=can_answer and (node.name, name) in setting.needed)
        for name, values in setting.asked.get(node.name, {}).items()
        if name not in names
    ]
    return (*declared, *read)


def _list_schema(type_: str) -> dict[str, Any]:
    """The schema of `list` and `list of text`."""
    name, _, of = type_.partition(" of ")
    if name != "list":
        return {}
    return {"type": "array", "items": {"type": "string" if of == "text" else of}} if of else {"type": "array"}


def _prompt(node: Agent, setting: Setting) -> str:
    if not node.prompt_is_path:
        return node.prompt
    span = node.spans.get("prompt") or node.span
    text = read_text(setting.folder, node.prompt, f"the prompt of {title(node)}", span, setting.report)
    return fill(text, values_of(setting.topology.params))


def role_of(node: Agent, roles: Mapping[str, str]) -> str:
    """The text of the agent's role: the named one, else the longest role name that is a prefix of the agent's."""
    if node.role:
        return roles.get(node.role, "")
    begins = [name for name in roles if node.name.startswith(name)]
    return roles[max(begins, key=len)] if begins else ""
