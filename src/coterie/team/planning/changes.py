"""Change agents of a plan: prompt, model, failure rules.

For forks: the plan is taken from the journal, so its file is not read again. Keys and values are those of the file; an
invalid one raises a `UsageError` that says what is expected.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, did_you_mean
from coterie.errors import UsageError
from coterie.team.planning.extension import read_extension
from coterie.team.planning.loop import REVIEW, LoopPlan
from coterie.team.planning.plan import AgentPlan, Plan


class AgentChange(Struct, frozen=True, kw_only=True):
    """A change of one field of an agent.

    Attributes:
        agent: Its name, `node/name` inside a team; empty: every agent with a backend, at any depth.
        key: One of `KEYS`, or `env.NAME` or `options.NAME`.
        value: A text, or any JSON value that the file could contain.
    """

    agent: str
    key: str
    value: Any


def word(name: str, value: Any) -> AgentChange:
    """Parse `AGENT.KEY`, or `KEY` for every agent with a backend."""
    agent, dot, key = name.partition(".")
    return AgentChange(agent=agent, key=key, value=value) if dot else AgentChange(agent="", key=name, value=value)


def change(plan: Plan, changes: Iterable[AgentChange]) -> Plan:
    """*plan* after *changes*; later ones take precedence. A loop keeps them when it reads its files again.

    Raises:
        UsageError: If an agent or a key is unknown, or a value is invalid.
    """
    wanted = tuple(changes)
    plan = _after(plan, wanted)
    loop = plan.coordination
    if not isinstance(loop, LoopPlan):
        return plan
    kept = tuple((one.agent, one.key, one.value) for one in wanted if _base(one.key) not in NAMED)  # may be secrets
    given = replace(loop.given, changes=(*loop.given.changes, *kept))
    return replace(plan, coordination=replace(loop, given=given))


def again(plan: Plan) -> Plan:
    """*plan*, made of the files of a loop, after the changes that the loop keeps."""
    loop = plan.coordination
    kept = loop.given.changes if isinstance(loop, LoopPlan) else ()
    return _after(plan, [AgentChange(agent=agent, key=key, value=value) for agent, key, value in kept])


def _after(plan: Plan, changes: Iterable[AgentChange]) -> Plan:
    for one in changes:
        _check_key(one.key)
        if one.agent:
            _check_agent(one.agent, [name for name, _, _ in agents(plan)])
            plan = _change_one(plan, one.agent.split("/"), one)
        elif not _has_takers(plan, one.key):
            raise UsageError(f"no agent of {plan.name!r} has {one.key!r}{_INSTEAD}")
        else:
            plan = _change_all(plan, one)
    return plan


def agents(plan: Plan, path: str = "") -> Iterable[tuple[str, Plan, AgentPlan]]:
    """The agents of *plan* that can be changed, including those in teams: each with its path and its team's plan."""
    for name, agent in plan.agents.items():
        yield path + name, plan, agent
        if agent.child is not None:
            yield from agents(agent.child, f"{path}{name}/")


def _change_one(plan: Plan, path: list[str], wanted: AgentChange) -> Plan:
    agent = plan.agents[path[0]]
    if len(path) > 1:
        assert agent.child is not None
        return _with(plan, replace(agent, child=_change_one(agent.child, path[1:], wanted)))
    allowed = KEYS[_base(wanted.key)].kinds
    if not _means(agent, wanted.key):
        raise UsageError(f"{wanted.agent!r} is a function, which has no {wanted.key!r}{_INSTEAD}")
    if agent.kind not in allowed:
        below = f"; it is a team: name one of its agents, {wanted.agent}/NAME" if agent.child is not None else ""
        raise UsageError(f"{wanted.agent!r} is {_article(agent.kind)}, which has no {wanted.key!r}{below}")
    return _applied(plan, agent, wanted)


def value_of(plan: Plan, agent: AgentPlan, key: str) -> str | None:
    """The `prompt` or the `model` of *agent* of *plan*, which is that of its role in a loop; None: it has none."""
    if agent.kind not in KEYS[key].kinds or not _means(agent, key):
        return None
    loop = plan.coordination
    if key == "prompt" and isinstance(loop, LoopPlan):
        prompts = {one.id: one.prompt for one in loop.roles}
        return (prompts | ({REVIEW: loop.review.prompt} if loop.review is not None else {})).get(agent.name)
    return str(getattr(agent, key))


def _applied(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> Plan:
    changed, loop = _changed(plan, agent, wanted), plan.coordination
    if not isinstance(loop, LoopPlan) or wanted.key not in ("prompt", "role"):
        return _with(plan, changed)
    if wanted.key == "prompt" and agent.name == REVIEW and loop.review is not None:
        return replace(plan, coordination=replace(loop, review=replace(loop.review, prompt=changed.prompt)))
    if wanted.key == "role" or agent.name not in {one.id for one in loop.roles}:
        others = ", ".join(one.id for one in loop.roles) or "none"
        raise UsageError(f"{agent.name!r} has no {wanted.key!r}: a loop has a prompt for each role ({others})")
    roles = tuple(replace(one, prompt=changed.prompt) if one.id == agent.name else one for one in loop.roles)
    return replace(plan, coordination=replace(loop, roles=roles))


_INSTEAD = "; of a run of functions change the input or an answer: input={…}, outputs={…}"


def _means(agent: AgentPlan, key: str) -> bool:
    """Whether *key* means something for *agent*: a function has no prompt and no model."""
    return ":" not in agent.options.get("type", "") or _base(key) not in ("prompt", "role", "model", "prompt-via")


def _has_takers(plan: Plan, key: str) -> bool:
    return any(
        _has_takers(one.child, key) if one.child is not None else one.kind == "agent" and _means(one, key)
        for one in plan.agents.values()
    )


def _change_all(plan: Plan, wanted: AgentChange) -> Plan:
    for agent in plan.agents.values():
        if agent.child is not None:
            plan = _with(plan, replace(agent, child=_change_all(agent.child, wanted)))
        elif agent.kind == "agent" and _means(agent, wanted.key):
            plan = _applied(plan, agent, wanted)
    return plan


def _with(plan: Plan, agent: AgentPlan) -> Plan:
    return replace(plan, agents={**plan.agents, agent.name: agent})


def _changed(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> AgentPlan:
    try:
        return replace(agent, **KEYS[_base(wanted.key)].read(plan, agent, wanted))
    except _Wrong as wrong:
        what = f"{wanted.key!r} of {wanted.agent!r}" if wanted.agent else f"{wanted.key!r}"
        raise UsageError(f"{what} must be {wrong}, not {wanted.value!r}") from None


def _check_agent(name: str, known: list[str]) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f"its agents: {', '.join(known)}"
        raise UsageError(f"the plan has no agent {name!r}; {hint}")


def _check_key(key: str) -> None:
    base, dot, name = key.partition(".")
    if base not in KEYS or bool(name) != (base in NAMED) or bool(dot) != bool(name):
        listed = ", ".join(f"{known}.NAME" if known in NAMED else known for known in KEYS)
        raise UsageError(f"{key!r} cannot be set; {did_you_mean(key, KEYS) or f'known settings: {listed}'}")


def _base(key: str) -> str:
    return key.partition(".")[0]


def _article(kind: str) -> str:
    return {"topology": "a team", "agent": "an agent", "action": "an action"}.get(kind, f"a {kind}")


# -- the keys ---------------------------------------------------------------------------------------------------------


class _Wrong(Exception):
    """An invalid value; the message says what is expected."""


class _Key(Struct, frozen=True):
    """A key: the kinds of agents that have it, and the conversion of its value to plan fields."""

    kinds: tuple[str, ...]
    read: Callable[[Plan, AgentPlan, AgentChange], dict[str, Any]]


def _text(field: str) -> Callable[[Plan, AgentPlan, AgentChange], dict[str, Any]]:
    def read(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
        if not isinstance(wanted.value, str):
            raise _Wrong("a text")
        return {field: wanted.value}

    return read


def _retry(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
    text = str(wanted.value) if not isinstance(wanted.value, bool) else ""
    if not (text.isascii() and text.isdigit()):
        raise _Wrong("a number of retries, 0 or more")
    return {"retry": int(text)}


def _timeout(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
    if wanted.value in ("none", None):
        return {"timeout": None}
    seconds = wanted.value
    if isinstance(seconds, str) and seconds.replace(".", "", 1).isdigit():
        seconds = float(seconds)
    return {"timeout": _as_in_a_file(agent, "timeout", seconds)}


def _on_fail(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
    word, _, name = str(wanted.value).partition(" ")
    if word == "fallback" and name in plan.agents and name != agent.name:
        return {"on_fail": word, "fallback": name}
    if word not in ("halt", "skip", "continue") or name:
        raise _Wrong("halt, skip, continue or 'fallback NAME' with another agent of the plan")
    return {"on_fail": word, "fallback": ""}


def _backend(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
    backend = _as_in_a_file(agent, "backend", wanted.value)
    return {"backend": backend, "kind": "human" if backend == "human" else "agent"}


def _command(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
    return {"argv": _as_in_a_file(agent, "command", wanted.value), "backend": "command"}


def _field(key: str) -> Callable[[Plan, AgentPlan, AgentChange], dict[str, Any]]:
    def read(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
        return {key.replace("-", "_"): _as_in_a_file(agent, key, wanted.value)}

    return read


def _entry(field: str) -> Callable[[Plan, AgentPlan, AgentChange], dict[str, Any]]:
    def read(plan: Plan, agent: AgentPlan, wanted: AgentChange) -> dict[str, Any]:
        name = wanted.key.partition(".")[2]
        return {field: {**getattr(agent, field), **_as_in_a_file(agent, field, {name: wanted.value})}}

    return read


def _as_in_a_file(agent: AgentPlan, key: str, value: Any) -> Any:
    """*value* converted like *key* of an extension block."""
    found: list[Diagnostic] = []
    read = read_extension({key: value}, (key,), repr(agent.name), {}, found.append)
    if found:
        hint = f"; {found[0].hint}" if found[0].hint else ""
        raise UsageError(f"{found[0].message}{hint}")
    return getattr(read, key.replace("-", "_"))


_THINKS = ("agent",)
_ASKED = ("agent", "human", "topology")
_PROCESS = ("agent", "action", "gate")
_ANY = ("agent", "human", "topology", "action", "gate")
NAMED = ("env", "options")
"""Keys that are followed by a name, `env.NAME`."""

KEYS: Mapping[str, _Key] = {
    "prompt": _Key(_ASKED, _text("prompt")),
    "role": _Key(_ASKED, _text("role")),
    "model": _Key(_THINKS, _text("model")),
    "backend": _Key(_THINKS, _backend),
    "command": _Key(_THINKS, _command),
    "prompt-via": _Key(_THINKS, _field("prompt-via")),
    "options": _Key(_THINKS, _entry("options")),
    "timeout": _Key(("agent", "human", "action", "gate"), _timeout),
    "retry": _Key(_ANY, _retry),
    "on-fail": _Key(_ANY, _on_fail),
    "on-interrupt": _Key(_PROCESS, _field("on-interrupt")),
    "cwd": _Key(_PROCESS, _field("cwd")),
    "env": _Key(_PROCESS, _entry("env")),
}
"""All keys that can be changed."""
