"""Define the nodes of a team in Python: agents, people, gates and actions.

    writer = agent("writer", model="sonnet", prompt="Write a note.")
    reviewer = agent("reviewer", model="opus", outputs=Review)
    checked = agent(check)  # an `async def` or a function at the top level of a module

An agent without a name fills the slot of a pattern.
"""

import builtins
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, overload

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from coterie.agents.actors.inputs import check_given
from coterie.base.diagnostics import did_you_mean, error
from coterie.errors import TopologyError, UsageError
from coterie.flows.arrows import ArrowEnd
from coterie.flows.calls import Callee
from coterie.team.formats.yaml.agents import BACKENDS, EXTENSION
from coterie.team.options.backends import CODING
from coterie.team.options.models import MODEL_SETTINGS
from coterie.team.planning import plan_or_raise
from coterie.team.topology.model import Action, Agent, Gate, Human, Topology
from coterie.team.topology.patterns.configs import Config, Natural
from coterie.team.topology.patterns.kinds import read_config
from coterie.team.topology.typed.flow import TypedFlow
from coterie.team.topology.typed.functions import Signature, folder_of, module_of, path_of, signature_of
from coterie.team.topology.typed.values import RESULT, TypedOutputs, as_outputs, outputs_of

if TYPE_CHECKING:
    from coterie.execution.runs.outcome import RunResult

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class MemberDefinition(Struct, frozen=True, kw_only=True):
    """What `agent` was given.

    Attributes:
        node: Its node; without a name it can only fill a slot.
        result: The type of its outputs; None: they have no type of Python.
        signature: What its function reads and gives; None: it is no function.
        folder: From which its function is imported.
    """

    node: Agent
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None
    fallback: "MemberDefinition | None" = None
    result: Any = None
    signature: Signature | None = None
    folder: str = ""

    def nodes(self, name: str = "") -> Iterator[Agent]:
        """Its node, called *name* if that is given, and those of its fallbacks."""
        name = name or self.node.name
        current: MemberDefinition | None = self
        while current is not None:
            stands_in = ""
            if current.fallback is not None:
                stands_in = current.fallback.node.name or f"{name}-fallback"
            on_fail = f"fallback {stands_in}" if stands_in else current.node.on_fail
            yield replace(current.node, name=name, on_fail=on_fail)
            name, current = stands_in, current.fallback


class Filling(ArrowEnd, Callee[T_co], Generic[T_co]):
    """An agent: of a slot, or with a name of a flow; `agent` makes one. Its outputs are its attributes."""

    def __init__(self, definition: MemberDefinition) -> None:
        self.definition = definition
        self.flow_name = definition.node.name

    def __repr__(self) -> str:
        return f"<agent {self.flow_name or 'without a name'}>"


class FlowStep(ArrowEnd, Callee[Any]):
    """A node that is no agent: a person, a gate or an action."""

    def __init__(self, definition: Human | Gate | Action) -> None:
        self.definition = definition
        self.flow_name = definition.name

    def __repr__(self) -> str:
        return f"<{type(self.definition).__name__.lower()} {self.flow_name}>"


Filler = Filling[Any] | Topology | Path | str
"""What may fill a slot, or work at a node."""

Outputs = type[Any] | Mapping[str, Any]
"""Outputs of an agent: a type, or the type of each by name."""


@overload
def agent(function: Callable[..., Awaitable[T]], /, **settings: Any) -> Filling[T]: ...
@overload
def agent(name: str, does: Callable[..., Awaitable[T]], /, **settings: Any) -> Filling[T]: ...
@overload
def agent(name: str, does: TypedFlow[T], /, **settings: Any) -> Filling[T]: ...
@overload
def agent(name: str = "", does: Any = None, /, *, outputs: type[T], **settings: Any) -> Filling[T]: ...
@overload
def agent(
    name: str = "",
    does: "Filler | type[Any] | None" = None,
    /,
    *,
    outputs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> "Filling[RunResult]": ...
@overload
def agent(function: Callable[..., T], /, **settings: Any) -> Filling[T]: ...
@overload
def agent(name: str, does: Callable[..., T], /, **settings: Any) -> Filling[T]: ...
def agent(
    name: "str | Callable[..., Any]" = "",
    does: "Filler | type[Any] | Callable[..., Any] | None" = None,
    /,
    *,
    model: str = "",
    command: Sequence[str] = (),
    type: str = "",
    ask: str = "",
    prompt: str = "",
    description: str = "",
    outputs: Outputs | None = None,
    reads: Iterable["ArrowEnd | str"] = (),
    tools: Iterable[str | Callable[..., Any]] | None = None,
    capabilities: Iterable[str] = (),
    max_retries: int | None = None,
    timeout_seconds: float | None = None,
    on_fail: str = "",
    fallback: "Filling[Any] | str | None" = None,
    phase: float | None = None,
    calls: int | None = None,
    cost: float | None = None,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    with_: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Filling[Any]:
    """Define an agent: a function, a model, a program, a team, or with *type* a person or a coding agent.

    Args:
        name: Its name in a flow, or a function, whose name it gets; a slot names the agent that fills it.
        does: What works at its node: a function, a team, the path of a team's file, or a class of `AgentProcess`.
        type: `human`, `pi`, `acp`, `claude-sdk`, …, or the dotted path of a class of agents in Python.
        ask: The name of an agent of the supervised system that the team is part of.
        outputs: The type of its answer: a dataclass, a `msgspec.Struct`, a pydantic model, or types by name. The agent
            is called again if its reply does not fit. A function has that of its return value.
        reads: Agents and files whose content its prompt shows; a function reads those of its parameters.
        tools: The tools it may use: names, functions, or their paths, `module:function`.
        capabilities: Its capabilities, for a delegation.
        max_retries: Further attempts after a failure; in a pattern 3 by default, in a flow none.
        timeout_seconds: The limit of one attempt; in a pattern 300 by default.
        on_fail: What follows the last failed attempt in a flow: `halt`, `skip` or `continue`.
        fallback: The agent that is called after the last failed attempt.
        phase: Its phase, for arrows with `per("phase")`.
        with_: Values of the input of a team, by name; its functions and typed inputs get them as they are.
        calls: The most turns in a run; *cost*: the most US dollars for them.
        settings: Of a model: `temperature`, `max_tokens`, `provider`, `base_url`, `api_key`, …; of a coding agent:
            `provider`, `mode`, `trust_all_tools`, `attention`, `sandbox`, `gates`, …

    Raises:
        TopologyError: If a value has the wrong type, or is out of range; it carries all faults.
        UsageError: If the backend is given twice, a setting is unknown, or a function cannot be imported by another
            process.
    """
    if callable(name) and does is not None:
        raise UsageError(f"the name of an agent comes first: agent({does!r}, {getattr(name, '__name__', 'f')})")
    if not isinstance(name, str) and (not callable(name) or isinstance(name, ArrowEnd)):
        raise UsageError(f'agent() begins with a name or a function, agent("writer", …), not {shorten(name)}')
    if not isinstance(name, str):
        does, name = name, getattr(name, "__name__", "")
    is_function = callable(does) and not isinstance(does, builtins.type | ArrowEnd | Topology)
    function: Any = does if is_function else None
    if function is not None:
        given = {"prompt": prompt, "tools": tools, "cwd": cwd, "env": env}
        if idle := [key for key, value in given.items() if value]:
            raise UsageError(f"{name} is a function, and takes no {', '.join(idle)}: leave out {idle[0]}=…")
    said: dict[str, Any] = {
        "model": model,
        "command": command,
        "prompt": prompt,
        "description": description,
        "tools": tools if isinstance(tools, str) else (),
        "capabilities": tuple(capabilities) if isinstance(capabilities, list | tuple | Set) else capabilities,
        "max_retries": max_retries,
        "timeout_seconds": timeout_seconds,
        "on_fail": on_fail or "halt",
        "calls": calls,
        "cost": cost,
        "cwd": cwd,
        "env": env or {},
        "phase": phase,
        "ask": ask,
    }
    own_class = isinstance(type, str) and "." in type
    if type and not own_class:
        said["type"] = type
    _refuse(said, settings, [way for way, value in (("ask", ask), ("type", own_class), ("does", does)) if value])
    extension: dict[str, Any] = {}
    for key, word in (("type", type if own_class else ""), ("ask", ask), ("backend", "" if own_class else type)):
        if word:
            extension[key] = word
    team = None
    if function is not None:
        extension["type"] = path_of(function)
    elif isinstance(does, builtins.type):
        extension["type"] = path_of(does).replace(":", ".")
        _check_class(name, does)
    elif does is not None:
        team = filling(name or "agent", does).definition.node.topology if isinstance(does, Topology | Path) else None
        if team is None:
            raise UsageError(f"agent({name!r}, …) takes a function, a class, a team or its path as second argument")
    if with_ is not None:
        extension["with"] = _values(name or "agent", with_, team)
    if command:
        extension["command"] = list(command)
    for key, value in (("cwd", cwd), ("env", dict(env or {}))):
        if value:
            extension[key] = value
    own = {setting: settings.pop(setting) for setting in _OF_THE_EXTENSION if setting in settings}
    extension |= {setting.replace("_", "-"): value for setting, value in own.items()}
    if settings:
        extension["options"] = settings
    listed = None if tools is None else [_tool(tool) for tool in _several("tools", tools)]
    if functions := {path.rpartition(":")[2]: path for path in listed or () if ":" in path}:
        extension["tools"] = functions
    signature = signature_of(function) if function is not None else None
    typed, result = _typed(name or "an agent", outputs, signature)
    if isinstance(does, TypedFlow) and outputs is None:
        result = does.result
    if typed.schemas:
        extension["schemas"] = {key: _json(schema) for key, schema in typed.schemas.items()}
    return Filling(
        MemberDefinition(
            node=Agent(
                name=name,
                model=model,
                prompt=prompt,
                description=description,
                outputs=typed.outputs,
                reads=tuple(_read(one) for one in _several("reads", reads)),
                tools=None if listed is None else tuple(path.rpartition(":")[2] for path in listed),
                retry=max_retries,
                timeout=None if timeout_seconds is None else float(timeout_seconds),
                on_fail=on_fail or None,
                phase=phase,
                topology=team,
                extension=extension,
            ),
            capabilities=said["capabilities"],
            calls=calls,
            cost=None if cost is None else float(cost),
            fallback=None if fallback is None else filling("fallback", fallback).definition,
            result=result,
            signature=signature,
            folder=folder_of(function) if function is not None else "",
        )
    )


def _check_class(name: str, does: "builtins.type[Any]") -> None:
    from coterie.agents.actors.process import AgentProcess  # rarely needed

    if not issubclass(does, AgentProcess):
        raise UsageError(
            f"{does.__name__}, which works as {name}, is no subclass of coterie.AgentProcess: write one, or a function"
        )


def _values(name: str, given: object, team: Any) -> dict[str, Any]:
    """The values *given* to the team *name*, as its journal has them.

    Raises:
        UsageError: If it is no team, JSON has no word for a value, or the team does not read it, or reads another one.
    """
    if team is None:
        raise UsageError(
            f"with_=… gives a team its input, and {name} is none: a function has defaults for its parameters"
        )
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UsageError(f'with_={{"depth": 3}} of {name} is a mapping of names to values, not {shorten(given)}')
    try:
        plain = {key: as_outputs(value, whole=True)[RESULT] for key, value in given.items()}
        with suppress(TopologyError):  # the flow that it is part of says so
            check_given(plan_or_raise(team), given, plain)
    except (TypeError, ValueError, UsageError) as wrong:
        raise UsageError(f"with_=… of {name}: {wrong}") from None
    return plain


def human(
    name: str,
    question: str = "",
    /,
    *,
    outputs: Outputs | None = None,
    timeout_seconds: float | None = None,
    on_timeout: str = "halt",
) -> FlowStep:
    """Define a person: the flow waits for an answer, which `coterie control respond` or a program gives.

    Args:
        question: The question to the person.
        outputs: The values that the answer must give.
        timeout_seconds: How long to wait.
        on_timeout: `halt`, `skip` or `fallback NAME`.
    """
    typed = _typed(name, outputs, None)[0]
    if typed.schemas:
        raise UsageError(
            f"{next(iter(typed.schemas))!r} of {name!r}: a person gives texts, numbers, and words of a list"
        )
    _check({"name": name, "question": question, "timeout_seconds": timeout_seconds})
    _check_policy("human", name, "on-timeout", on_timeout)
    timeout = None if timeout_seconds is None else float(timeout_seconds)
    return FlowStep(
        Human(name=name, description=question, outputs=typed.outputs, timeout=timeout, on_timeout=on_timeout)
    )


def gate(
    name: str,
    run: str,
    /,
    *,
    after: ArrowEnd,
    before: ArrowEnd,
    advisory: bool = False,
    on_fail: str = "halt",
    max_retries: int | None = None,
    timeout_seconds: float | None = None,
) -> FlowStep:
    """Define a gate: a command on the arrow from *after* to *before* that must succeed.

    Args:
        run: The command line, split like a shell would; no shell runs.
        advisory: Only record a failure.
        on_fail: `halt`, or `bounce-back`: send the work back to *after*, at most *max_retries* times.
    """
    _check({"name": name, "run": run, "timeout_seconds": timeout_seconds, "max_retries": max_retries})
    _check_policy("gate", name, "on-fail", on_fail)
    for end in (after, before):
        if not isinstance(end, ArrowEnd):
            raise UsageError(f"a gate is between two agents: after=writer, before=reviewer, not {shorten(end)}")
    timeout = None if timeout_seconds is None else float(timeout_seconds)
    return FlowStep(
        Gate(
            name=name,
            run=run,
            after=after.flow_name,
            before=before.flow_name,
            behavior="advisory" if advisory else "blocking",
            on_fail=on_fail if on_fail != "halt" else None,
            retry=max_retries,
            timeout=timeout,
        )
    )


def action(name: str, /, *commands: str, timeout_seconds: float | None = None, on_fail: str = "halt") -> FlowStep:
    """Define a step that runs *commands*, command lines without a shell, one after the other.

    Args:
        on_fail: What follows a failure: `halt`, `skip`, `continue` or `fallback NAME`.
    """
    _check({"name": name, "commands": commands, "timeout_seconds": timeout_seconds})
    _check_policy("action", name, "on-fail", on_fail)
    timeout = None if timeout_seconds is None else float(timeout_seconds)
    return FlowStep(
        Action(name=name, commands=commands, timeout=timeout, on_fail=on_fail if on_fail != "halt" else None)
    )


def _typed(name: str, outputs: Outputs | None, signature: Signature | None) -> tuple[TypedOutputs, Any]:
    """The outputs of the agent *name*, and their type in Python."""
    if signature is not None:
        if outputs is not None:
            raise UsageError(f"the outputs of {name}() are those of its return type: write `def {name}(…) -> TYPE`")
        result = signature.result
        return TypedOutputs() if result is Any else outputs_of(result, f"{name}()"), result
    if outputs is None:
        return TypedOutputs(), None
    return outputs_of(outputs, f"agent {name!r}"), None if isinstance(outputs, Mapping) else outputs


def _json(schema: Mapping[str, Any]) -> str:
    return msgspec.json.encode(schema, order="deterministic").decode()


if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[BACKENDS]


class _Said(Config, frozen=True, kw_only=True):
    """The arguments of an agent, a person, a gate or an action with their types."""

    name: str = ""
    model: str = ""
    command: tuple[str | int | float, ...] = ()
    commands: tuple[str, ...] = ()
    run: str = ""
    question: str = ""
    ask: str = ""
    type: Kind = "model"
    prompt: str = ""
    description: str = ""
    tools: tuple[Any, ...] = ()
    capabilities: tuple[str, ...] = ()
    max_retries: Natural | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    on_fail: Literal["halt", "skip", "continue"] = "halt"
    calls: int | None = None
    cost: float | None = None
    cwd: str = ""
    env: dict[str, str | int | float | bool] = {}
    phase: float | None = None


def _check(said: Mapping[str, Any]) -> None:
    if wrong := read_config(_Said, said)[1]:
        raise TopologyError([error(fault.code, fault.message, hint=fault.hint) for fault in wrong])


def _check_policy(block: str, name: str, field: str, said: object) -> None:
    """Raise if *said* is no word for *field* of the *block* called *name*, by the table of the notation."""
    from coterie.team.formats.at.language import BLOCKS

    kind = BLOCKS[block].by_name[field].kind
    names_one = kind.name == "policy" and isinstance(said, str) and re.fullmatch(r"fallback \S+", said)
    if said not in kind.choices and not names_one:
        words = kind.words.replace(" | ", ", ")
        raise UsageError(f"{field.replace('-', '_')} of {block} {name!r} is one of {words}, not {shorten(said)}")


def _refuse(said: Mapping[str, Any], settings: Mapping[str, Any], others: Sequence[str]) -> None:
    """Raise if the arguments of an agent are invalid; *others* are further backends that it was given."""
    _check(said)
    kind = said.get("type")
    ways = [way for way in ("model", "command") if said[way] and kind not in CODING]
    if kind and kind not in ways:
        ways.append(f"type={kind!r}")
    ways += others
    if len(ways) > 1:
        raise UsageError(f"an agent has {len(ways)} backends: {', '.join(ways)}; keep one of them")
    for name, value in settings.items():
        known = (*MODEL_SETTINGS, *_OF_THE_EXTENSION)
        if name not in known:
            meant = _OTHER_WORDS.get(name, name)
            hint = did_you_mean(meant, (*known, *said, *_FURTHER)) or f"known are {', '.join(known)}"
            raise UsageError(f"unknown setting {name!r} of an agent; {hint}")
        if name in MODEL_SETTINGS and not MODEL_SETTINGS[name].fits(value):
            raise UsageError(f"{name!r} of an agent is {MODEL_SETTINGS[name].wanted}, not {value!r}")


_FURTHER = ("type", "fallback", "outputs", "reads")
"""Arguments of `agent` besides those of `_Said`."""

_OTHER_WORDS = {
    **dict.fromkeys(("backend", "kind"), "type"),
    **dict.fromkeys(("retry", "retries"), "max_retries"),
    **dict.fromkeys(("timeout", "time_limit"), "timeout_seconds"),
    **dict.fromkeys(("system", "system_prompt", "instructions", "instruction"), "prompt"),
    **dict.fromkeys(("budget", "max_cost"), "cost"),
    **dict.fromkeys(("workdir", "working_directory", "folder"), "cwd"),
}
"""What the notation, or other systems, call arguments of `agent`."""

_OF_THE_EXTENSION = tuple(entry for entry in EXTENSION if entry not in ("command", "ask", "cwd", "env"))


def filling(slot: str, filler: Filler) -> Filling[Any]:
    """The agent that *filler* defines; *slot* names its place, for messages.

    Raises:
        UsageError: If it defines none.
    """
    match filler:
        case Filling():
            return filler
        case Topology():
            return Filling(MemberDefinition(node=Agent(name="", topology=filler)))
        case Path():
            from coterie.execution.runs.api import load

            return Filling(MemberDefinition(node=Agent(name="", topology=load(filler))))
        case str() if filler:
            return agent(model=filler)
        case _:
            wanted = "an agent(…), the name of a model, a Path, or a team"
            several = "; pass several agents one by one" if isinstance(filler, list | tuple) else ""
            raise UsageError(f"slot {slot!r} is filled by {wanted}, not by {shorten(filler)}{several}")


def shorten(value: Any) -> str:
    """*value* as Python writes it, cut after 60 characters."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _several(what: str, given: Any) -> Iterable[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"{what} is a list: {what}=[…], not {shorten(given)}")
    return given


def _read(read: Any) -> str:
    if isinstance(read, ArrowEnd):
        return read.flow_name
    if not isinstance(read, str):
        raise UsageError(f"reads lists agents and paths of files, not {shorten(read)}")
    return read


def _tool(tool: str | Callable[..., Any]) -> str:
    if isinstance(tool, str):
        return tool
    path = f"{module_of(tool)}:{getattr(tool, '__qualname__', '')}"
    if "<" in path or path.startswith((":", "__main__:")) or path.endswith(":"):
        raise UsageError(f"{tool!r} cannot be found by its name in a run: put it at the top level of a module")
    return path
