"""What a pattern is given: where its task stands, and what must be there before anybody is asked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coterie.topology.patterns import slots
from coterie.topology.patterns.configs import CompoundConfig, DelegationConfig
from coterie.topology.patterns.faults import Fault
from coterie.topology.patterns.kinds import Kind

COMMON = ("prompt", "question", "task", "topic")
"""Where a task may stand, whatever the pattern."""


def task_of(keys: Sequence[str], given: Mapping[str, Any]) -> str:
    """The task in *given*: what stands under the first of *keys*, else of `COMMON`, that says something; else empty.

    What is no text is one as JSON writes it.
    """
    return next((text for key in (*keys, *COMMON) if (text := _text(given.get(key))).strip()), "")


def tasks_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The tasks of a delegation: `tasks`, else the one task there is."""
    several = given.get("tasks")
    if isinstance(several, list | tuple):
        return tuple(_text(task) for task in several)
    task = task_of(("task",), given)
    return (task,) if task else ()


def faults_of_input(
    kind: Kind, config: Any, capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
) -> Iterator[Fault]:
    """What *given* lacks for a pattern of *kind* with these slots; *capabilities* by slot, in their order."""
    if kind.name == "delegation":
        yield from _of_delegation(config, capabilities, given)
    elif kind.keys and not task_of(kind.keys, given):
        wanted = " or ".join(f"`{key}`" for key in kind.keys)
        yield Fault("missing-input", f"{kind.title} needs an input {wanted}", hint=f"--input {kind.keys[0]}=…")
    if isinstance(config, CompoundConfig) and config.composition_type == "conditional":
        route, known = given.get("route_to"), slots.subs(config, tuple(capabilities))
        if route not in (None, "", *known):
            yield Fault("bad-route", f"Invalid route: {route}", hint=f"there are {', '.join(known)}")


def _of_delegation(
    config: DelegationConfig, capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
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
            yield Fault("no-match", f"nobody has the capabilities {wanted}", hint=hint)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
