"""The input of a pattern: where its task is, and what must be present before an agent is called."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.topology.patterns import slots
from coterie.topology.patterns.configs import CompoundSettings, DelegationSettings
from coterie.topology.patterns.faults import Fault
from coterie.topology.patterns.kinds import PatternSpec

COMMON = ("prompt", "question", "task", "topic")
"""Input keys that may hold the task of any pattern."""

_REQUIRED = "required_capabilities"


class Task(NamedTuple):
    """A task of a delegation, and the capabilities that it requires."""

    text: str
    required: tuple[str, ...] = ()


ORIGINAL = "original_input"
"""The input key that holds the whole input of the outermost run, where a pattern works on what came of it."""


def task_of(keys: Sequence[str], given: Mapping[str, Any]) -> str:
    """The task in *given*: the first non-blank value of *keys*, then of `COMMON`; else empty.

    Values that are not texts are written as JSON.
    """
    return next((text for key in (*keys, *COMMON) if (text := _text(given.get(key))).strip()), "")


def tasks_of(given: Mapping[str, Any]) -> tuple[Task, ...]:
    """The tasks of a delegation: `task`, then `tasks`; without either, the input's common task.

    A task requires its own capabilities and those required of all.
    """
    common = tuple(given.get(_REQUIRED) or ())
    one = _entry(given.get("task"))
    entries = [*([one] if one.text.strip() else []), *map(_entry, given.get("tasks") or ())]
    if not entries and (task := task_of((), given)):
        entries = [Task(task)]
    return tuple(Task(text, tuple(dict.fromkeys((*common, *required)))) for text, required in entries)


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
    several, required = given.get("tasks"), given.get(_REQUIRED, ())
    listed = several is None or isinstance(several, list | tuple)
    if not (listed and all(isinstance(one, str) or _is_entry(one) for one in several or ())):
        message = "`tasks` must be a list of texts, or of {task, required_capabilities}"
        yield Fault("bad-input", message, hint="--input 'tasks:=[\"…\"]'")
        return
    if not (_is_list_of_texts(required) and _is_list_of_texts(_requirement(given.get("task")))):
        hint = "--input 'required_capabilities:=[\"…\"]'"
        yield Fault("bad-input", "`required_capabilities` must be a list of texts", hint=hint)
        return
    tasks = tasks_of(given)
    if not all(_entry(task).text.strip() for task in several or ()):
        yield Fault("bad-input", "one of `tasks` is empty")
    elif not tasks:
        yield Fault("missing-input", "Delegation needs an input `task` or `tasks`", hint="--input task=…")
    elif config.routing_strategy == "capability_match" and config.fallback_agent_name is None:
        able = [set(capabilities[name]) for name in slots.workers(tuple(capabilities))]
        if not any(set(task.required) <= has for task in tasks for has in able):
            wanted = ", ".join(dict.fromkeys(name for task in tasks for name in task.required))
            hint = "give a slot these capabilities, or set fallback_agent_name"
            yield Fault("no-match", f"no agent has the capabilities {wanted}", hint=hint)


def _entry(value: Any) -> Task:
    """The task that *value* is: a text, or `{task, required_capabilities}`."""
    if _is_entry(value):
        return Task(value["task"], tuple(_requirement(value)))
    return Task(_text(value))


def _is_entry(value: Any) -> bool:
    if not (isinstance(value, dict) and value.keys() <= {"task", _REQUIRED}):
        return False
    return isinstance(value.get("task"), str) and _is_list_of_texts(_requirement(value))


def _requirement(value: Any) -> Any:
    return value.get(_REQUIRED, ()) if isinstance(value, dict) else ()


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
