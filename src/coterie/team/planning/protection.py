"""Reload a plan without weakening its protection: limits, gates, sandbox, permissions, programs, environment."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from coterie.team.options.agents import PLAN_OPTIONS
from coterie.team.options.backends import CODING
from coterie.team.options.protection import AsStrict, same
from coterie.team.planning.loop import REVIEW, LoopPlan
from coterie.team.planning.plan import AgentPlan, Plan

Held = tuple[str, str, str]
"""A held-back setting with its old value, which stays, and the new, weaker one."""
Weakens = Callable[[str, Any, Any, AsStrict], bool]
"""Whether a setting with its old and new value must be held back."""

LOOP_SETTINGS = {
    "completion": "completion",
    "promise": "event_loop.completion_promise",
    "required": "event_loop.required_events",
    "objective": "event_loop.prompt",
    "harness": "harness.instructions_file",
    "max_iterations": "event_loop.max_iterations",
    "max_runtime": "event_loop.max_runtime",
    "max_cost": "event_loop.max_cost_usd",
    "stall": "event_loop.stall_iterations",
    "max_failures": "event_loop.max_failures",
    "memory_chars": "memory.prompt_budget_chars",
    "tasks_chars": "tasks.prompt_budget_chars",
    "notify": "notify.command",
}
"""The settings for fields of a loop's plan."""
_SHAPING = ("name", "description", "model", "prompt", "role", "outputs", "reads", "phase", "on_interrupt")
"""The fields of an agent without a protective function."""
_FIELDS = {"argv": "backend.command", "timeout": "backend.timeout_ms", "queue": "backend.queue"}
"""The settings for fields of an agent's plan."""


def strictest(
    old: Plan, new: Plan, taken: Collection[Held] = (), changed: Collection[str] = ()
) -> tuple[Plan, tuple[Held, ...]]:
    """Return *new* with the old value of each protective setting that is weaker than in *old*, and these settings.

    Args:
        taken: Weaker values that a person has accepted.
        changed: Settings that a person has changed, which are never held back.
    """
    held: dict[Held, None] = {}

    def weakens(name: str, before: Any, after: Any, is_as_strict: AsStrict) -> bool:
        one = (name, _shown(before), _shown(after))
        if is_as_strict(before, after) or one in taken or any(_is_of(name, setting) for setting in changed):
            return False
        held[one] = None
        return True

    return _plan(old, new, weakens), tuple(held)


def _protecting() -> Mapping[str, AsStrict]:
    from coterie.team.formats.settings.keys import protecting  # only reloaded plans need all settings

    return protecting()


def _plan(old: Plan, new: Plan, weakens: Weakens) -> Plan:
    agents = {}
    for name, agent in new.agents.items():
        before = old.agents.get(name) or _nearest(old.agents, agent)
        agents[name] = _agent(before, agent, weakens) if before is not None else agent
    found = replace(new, agents=agents)
    if not isinstance(old.coordination, LoopPlan) or not isinstance(new.coordination, LoopPlan):
        return found
    return replace(found, coordination=_loop(old.coordination, new.coordination, agents, weakens))


def _loop(old: LoopPlan, new: LoopPlan, agents: Mapping[str, AgentPlan], weakens: Weakens) -> LoopPlan:
    for field, key in LOOP_SETTINGS.items():
        before, after = getattr(old, field), getattr(new, field)
        if key in _protecting() and weakens(key, before, after, _protecting()[key]):
            new = replace(new, **{field: before})
    key = "parallel.enabled"
    if weakens(key, old.parallel is not None, new.parallel is not None, _protecting()[key]):
        new = replace(new, parallel=None)
    sections = {
        "parallel": {"most": "max_branches", "timeout": "branch_timeout_ms"},
        "review": {"timeout": "timeout_ms"},
    }
    for section, fields in sections.items():
        before, after = getattr(old, section), getattr(new, section)
        for field, name in fields.items() if before is not None and after is not None else ():
            key = f"{section}.{name}"
            if weakens(key, getattr(before, field), getattr(after, field), _protecting()[key]):
                after = replace(after, **{field: getattr(before, field)})
        new = replace(new, **{section: after})
    known = {role.id: role for role in old.roles}
    roles = []
    for role in new.roles:  # the events of a team come from its file
        is_team = role.id in agents and agents[role.id].child is not None
        if is_team != (role.events is not None):
            role = replace(role, events=known[role.id].events if is_team else None)
        roles.append(role)
    return replace(new, roles=tuple(roles))


def _agent(old: AgentPlan, new: AgentPlan, weakens: Weakens) -> AgentPlan:
    shape = {field: getattr(new, field) for field in _SHAPING}
    kinds = [(one.kind, one.backend, one.child is not None) for one in (old, new)]
    before, after = (" ".join(filter(None, kind[:2])) for kind in kinds)
    if weakens(_name(new, "kind"), before, after, same):
        return replace(old, **shape)
    if kinds[0] != kinds[1]:  # a person has accepted all of it
        return new
    found = replace(new, options=_options(old, new, weakens))
    if old.child is not None and new.child is not None:
        found = replace(found, child=_plan(old.child, new.child, weakens))
    for field in AgentPlan.__struct_fields__:
        if field in (*_SHAPING, "kind", "backend", "child", "options"):
            continue
        key = _FIELDS.get(field, "")
        if weakens(_name(new, key or field), getattr(old, field), getattr(new, field), _protecting().get(key, same)):
            found = replace(found, **{field: getattr(old, field)})
    return found


def _options(old: AgentPlan, new: AgentPlan, weakens: Weakens) -> dict[str, Any]:
    options = dict(new.options)
    for name in dict.fromkeys((*old.options, *new.options)):
        option = PLAN_OPTIONS.get(name)
        if option is not None and option.protects is None:
            continue
        key, default = option.in_settings if option else "", option.default if option else None
        if name == "sandbox":
            default = "auto" if new.backend in CODING else "off"
        before, after = old.options.get(name, default), new.options.get(name, default)
        if weakens(_name(new, key or f"options.{name}"), before, after, _protecting().get(key, same)):
            options.pop(name, None)
            options |= {name: old.options[name]} if name in old.options else {}
    return options


def _name(agent: AgentPlan, key: str) -> str:
    """The name of the setting *key*, with that of *agent* unless the setting is for the whole loop."""
    if key.startswith("event_loop."):
        return key
    return f"{'review' if agent.name == REVIEW else f'role {agent.name}'}: {key.removeprefix('backend.')}"


def _is_of(name: str, setting: str) -> bool:
    """Whether *name*, made by `_name`, is the name of *setting*."""
    return name == setting or name.endswith(f": {setting.removeprefix('backend.')}")


def _nearest(known: Mapping[str, AgentPlan], new: AgentPlan) -> AgentPlan | None:
    """The known agent that is most similar to a *new* one."""

    def distance(old: AgentPlan) -> int:
        return len(strictest(Plan(name="", agents={new.name: old}), Plan(name="", agents={new.name: new}))[1])

    return min(known.values(), key=distance, default=None)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
