"""Build patterns in Python: each function returns a `Topology`, which `coterie.run` runs like one read from a file.

    from coterie.patterns import agent, debate

    talk = debate(
        proponent=agent(model="opus", prompt="You believe in it."),
        opponent=agent(command=["python3", "skeptic.py"]),
        mediator="haiku",
        max_rounds=2,
    )
    outcome = await coterie.run(talk, {"question": "Will it rain?"})

A slot is filled by an `agent(…)`; a text, the name of a model; a path, the file of a team; or a team: the result of
another of these functions or of `coterie.load`. Invalid arguments are rejected at once, with all faults: the same
diagnostics as for a pattern file; its warnings are Python warnings.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from coterie.diagnostics import did_you_mean, error
from coterie.errors import TopologyError, UsageError
from coterie.formats.yaml.agents import BACKENDS, EXTENSION
from coterie.options.backends import CODING
from coterie.options.models import MODEL_SETTINGS
from coterie.topology.checks import check
from coterie.topology.model import Agent, Topology
from coterie.topology.patterns.configs import Config, Natural
from coterie.topology.patterns.kinds import kind_of, read_config
from coterie.topology.patterns.model import Pattern, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """An agent without a name, with the settings of its slot; `agent` makes one."""

    node: Agent
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None
    fallback: "Filling | None" = None


Filler = Filling | Topology | Path | str
"""What may fill a slot."""


def agent(
    *,
    model: str = "",
    command: Sequence[str] = (),
    type: str = "",
    prompt: str = "",
    description: str = "",
    tools: Iterable[str | Callable[..., Any]] | None = None,
    capabilities: Iterable[str] = (),
    max_retries: int | None = None,
    timeout_seconds: float | None = None,
    fallback: "Filling | str | None" = None,
    calls: int | None = None,
    cost: float | None = None,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> Filling:
    """Define an agent: a model, a program, or with *type* a person (`human`) or a coding agent (`pi`, `acp`, …).

    Args:
        tools: The tools it may use: names, functions, or their paths, `module:function`.
        capabilities: Its capabilities, for a delegation.
        max_retries: Further attempts after a failure; by default 3.
        timeout_seconds: The limit of one attempt; by default 300.
        fallback: The agent that is called after the last failed attempt.
        calls: The most turns in a run; *cost*: the most US dollars for them.
        settings: Of a model: `temperature`, `max_tokens`, `provider`, `base_url`, `api_key`, …; of a coding agent:
            `provider`, `mode`, `trust_all_tools`, `attention`, `sandbox`, `gates`, …

    Raises:
        TopologyError: If a value has the wrong type, or is out of range; it carries all faults.
        UsageError: If the backend is given twice, a setting is unknown, or a tool is a function that another process
            cannot import.
    """
    said: dict[str, Any] = {
        "model": model,
        "command": command,
        "prompt": prompt,
        "description": description,
        "tools": tools if isinstance(tools, str) else (),
        "capabilities": capabilities if isinstance(capabilities, str) else tuple(capabilities),
        "max_retries": max_retries,
        "timeout_seconds": timeout_seconds,
        "calls": calls,
        "cost": cost,
        "cwd": cwd,
        "env": env or {},
    }
    if type:
        said["type"] = type
    _refuse(said, settings)
    extension: dict[str, Any] = {}
    if type:
        extension["backend"] = type
    if command:
        extension["command"] = list(command)
    for key, value in (("cwd", cwd), ("env", dict(env or {}))):
        if value:
            extension[key] = value
    own = {name: settings.pop(name) for name in _OF_THE_EXTENSION if name in settings}
    extension |= {name.replace("_", "-"): value for name, value in own.items()}
    if settings:
        extension["options"] = settings
    listed = None if tools is None else [_tool(tool) for tool in tools]
    if functions := {path.rpartition(":")[2]: path for path in listed or () if ":" in path}:
        extension["tools"] = functions
    return Filling(
        node=Agent(
            name="",
            model=model,
            prompt=prompt,
            description=description,
            tools=None if listed is None else tuple(path.rpartition(":")[2] for path in listed),
            retry=max_retries,
            timeout=None if timeout_seconds is None else float(timeout_seconds),
            extension=extension,
        ),
        capabilities=said["capabilities"],
        calls=calls,
        cost=None if cost is None else float(cost),
        fallback=None if fallback is None else _filling("fallback", fallback),
    )


def collaboration(
    play: Callable[..., Any], slots: Mapping[str, Filler], /, *, name: str = "", description: str = "", **config: Any
) -> Topology:
    """Use a pattern of your own: *play* is a generator function decorated with `@pattern`.

    Raises:
        UsageError: If it is not decorated.
    """
    from coterie.engines.patterns.registry import type_of

    if not callable(play):
        raise UsageError(f"a user-defined pattern is a function decorated with @pattern(name), not {play!r}")
    return make_team(type_of(play), slots, config, name or play.__name__, description)


if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[BACKENDS]


class _Said(Config, frozen=True, kw_only=True):
    """The arguments of an agent with their types."""

    model: str
    command: tuple[str | int | float, ...]
    type: Kind = "model"
    prompt: str
    description: str
    tools: tuple[Any, ...]
    capabilities: tuple[str, ...]
    max_retries: Natural | None
    timeout_seconds: Annotated[float, Meta(gt=0, le=1e9)] | None
    calls: int | None
    cost: float | None
    cwd: str
    env: dict[str, str | int | float | bool]


def _refuse(said: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise if the arguments of an agent are invalid."""
    if wrong := read_config(_Said, said)[1]:
        raise TopologyError([error(fault.code, fault.message, hint=fault.hint) for fault in wrong])
    kind = said.get("type")
    ways = [way for way in ("model", "command") if said[way] and kind not in CODING]
    if kind and kind not in ways:
        ways.append(f"type={kind!r}")
    if len(ways) > 1:
        raise UsageError(f"an agent has {len(ways)} backends: {', '.join(ways)}; keep one of them")
    for name, value in settings.items():
        known = (*MODEL_SETTINGS, *_OF_THE_EXTENSION)
        if name not in known:
            hint = did_you_mean(name, (*known, *said, "type", "fallback")) or f"known are {', '.join(known)}"
            raise UsageError(f"unknown setting {name!r} of an agent; {hint}")
        if name in MODEL_SETTINGS and not MODEL_SETTINGS[name].fits(value):
            raise UsageError(f"{name!r} of an agent is {MODEL_SETTINGS[name].wanted}, not {value!r}")


_OF_THE_EXTENSION = tuple(entry for entry in EXTENSION if entry not in ("command", "ask", "cwd", "env"))


def make_team(
    type: str, slots: Mapping[str, Filler], config: Mapping[str, Any], name: str, description: str
) -> Topology:
    """The team of the pattern *type*, for the constructors of patterns.

    Raises:
        TopologyError: If an argument does not fit; it carries all faults.
    """
    if not isinstance(slots, Mapping) or not all(isinstance(slot, str) for slot in slots):
        raise UsageError(f"slots must be a dict {{NAME: agent}}, not {_brief(slots)}")
    for what, value in (("name", name), ("description", description)):
        if not isinstance(value, str):
            raise UsageError(f"the {what} of a team must be a text, not {value!r}")
    nodes: list[Agent] = []
    filled: list[Slot] = []
    for slot, filler in slots.items():
        filling = _filling(slot, filler)
        nodes += _nodes(slot, filling)
        filled.append(
            Slot(name=slot, node=slot, capabilities=filling.capabilities, calls=filling.calls, cost=filling.cost)
        )
    team = Topology(
        name=name,
        nodes=tuple(nodes),
        pattern=Pattern(type=type, config=config, slots=tuple(filled)),
        meta={"description": description} if description else {},
    )
    kind = kind_of(type)
    hints = kind.python_hints if kind is not None else {}
    found = [replace(one, hint=hints.get(one.hint, one.hint)) for one in check(team)]
    if wrong := tuple(one for one in found if one.is_error):
        from coterie.runs.python_hints import for_python

        raise TopologyError(for_python(wrong, built=True))
    for one in found:
        if one.code == "own-pattern":  # says that a file's pattern is not imported yet; here its function is at hand
            continue
        hint = f"; {one.hint}" if one.hint else ""
        warnings.warn(f"{name}: {one.message}{hint} [{one.code}]", stacklevel=3)
    return team


def _brief(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _nodes(slot: str, filling: Filling) -> Iterable[Agent]:
    """The node of *slot*, and those of its fallbacks."""
    name: str = slot
    current: Filling | None = filling
    while current is not None:
        stands_in = f"{name}-fallback" if current.fallback is not None else ""
        yield replace(current.node, name=name, on_fail=f"fallback {stands_in}" if stands_in else None)
        name, current = stands_in, current.fallback


def _filling(slot: str, filler: Filler) -> Filling:
    match filler:
        case Filling():
            return filler
        case Topology():
            return Filling(node=Agent(name="", topology=filler))
        case Path():
            from coterie.runs.api import load

            return Filling(node=Agent(name="", topology=load(filler)))
        case str() if filler:
            return agent(model=filler)
        case _:
            wanted = "an agent(…), the name of a model, a Path, or a team"
            several = "; pass several agents one by one" if isinstance(filler, list | tuple) else ""
            raise UsageError(f"slot {slot!r} is filled by {wanted}, not by {_brief(filler)}{several}")


def _tool(tool: str | Callable[..., Any]) -> str:
    if isinstance(tool, str):
        return tool
    path = f"{getattr(tool, '__module__', '')}:{getattr(tool, '__qualname__', '')}"
    if "<" in path or path.startswith((":", "__main__:")) or path.endswith(":"):
        raise UsageError(f"{tool!r} cannot be found by its name in a run: put it at the top level of a module")
    return path
