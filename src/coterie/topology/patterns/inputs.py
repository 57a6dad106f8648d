"""The input of a pattern: where its task is, and what must be present before an agent is called."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coterie.topology.patterns import slots
from coterie.topology.patterns.configs import CompoundSettings, DelegationSettings
from coterie.topology.patterns.faults import Fault
from coterie.topology.patterns.kinds import PatternSpec

COMMON = ("prompt", "question", "task", "topic")
"""Input keys that may hold the task of any pattern."""


def task_of(keys: Sequence[str], given: Mapping[str, Any]) -> str:
    """The task in *given*: the first non-blank value of *keys*, then of `COMMON`; else empty.

    Values that are not texts are written as JSON.
    """
    return next((text for key in (*keys, *COMMON) if (text := _text(given.get(key))).strip()), "")


def tasks_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The tasks of a delegation: `tasks`, else its single task."""
    several = given.get("tasks")
    if isinstance(several, list | tuple):
        return tuple(_text(task) for task in several)
    task = task_of(("task",), given)
    return (task,) if task else ()


def faults_of_input(
    kind: PatternSpec, config: Any, capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
) -> Iterator[Fault]:
    """Faults of the input *given* for a pattern of *kind* with these slots; *capabilities* by slot, in order."""
    if kind.name == "delegation":
        yield from _of_delegation(config, capabilities, given)
    elif kind.keys and not task_of(kind.keys, given):
        wanted = " or ".join(f"`{key}`" for key in kind.keys)
        yield Fault("missing-input", f"{kind.title} needs an input {wanted}", hint=f"--input {kind.keys[0]}=…")
    if isinstance(config, CompoundSettings) and config.composition_type == "conditional":
        route, known = given.get("route_to"), slots.subs(config, tuple(capabilities))
        if route not in (None, "", *known):
            yield Fault("bad-route", f"Invalid route: {route}", hint=f"known sub-topologies: {', '.join(known)}")


def _of_delegation(
    config: DelegationSettings, capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
) -> Iterator[Fault]:
    several, required = given.get("tasks"), given.get("required_capabilities", ())
    if several is not None and not (isinstance(several, list | tuple) and all(isinstance(one, str) for one in several)):
        yield Fault("bad-input", "`tasks` must be a list of texts", hint="--input 'tasks:=[\"…\"]'")
    elif not all(task.strip() for task in several or ()):
        yield Fault("bad-input", "one of `tasks` is empty")
    elif not tasks_of(given):
        yield Fault("missing-input", "Delegation needs an input `task` or `tasks`", hint="--input task=…")
    if not (isinstance(required, list | tuple) and all(isinstance(one, str) for one in required)):
        hint = "--input 'required_capabilities:=[\"…\"]'"
        yield Fault("bad-input", "`required_capabilities` must be a list of texts", hint=hint)
        return
    if config.routing_strategy == "capability_match" and config.fallback_agent_name is None:
        able = [name for name in slots.workers(tuple(capabilities)) if set(required) <= set(capabilities[name])]
        if not able:
            wanted = ", ".join(required)
            hint = "give a slot these capabilities, or set fallback_agent_name"
            yield Fault("no-match", f"no agent has the capabilities {wanted}", hint=hint)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
