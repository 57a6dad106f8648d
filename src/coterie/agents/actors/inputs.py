"""What reads the input of a run: the parameters of its functions and programs, and what is shown all of it."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie.agents.actors.classes import importable
from coterie.base.diagnostics import LIKELY, did_you_mean
from coterie.base.user_code import contained
from coterie.errors import UsageError, error_line
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.team.topology.model import RUN_INPUT
from coterie.team.topology.typed.fits import misfit
from coterie.team.topology.typed.functions import PROMPT, QUESTION, TASK, Signature, is_context, signature_of, singular
from coterie.team.topology.typed.program import TypedProgram
from coterie.team.topology.typed.values import RESULT, converted, fields_of, lost


class InputParameter(Struct, frozen=True):
    """A parameter of a function or a program.

    Attributes:
        has_default: Whether it gets its default if the input does not have it.
        is_certain: Whether it gets what the input has, whatever the run does.
        is_item: Whether it reads each item of a list.
    """

    function: str
    name: str
    type: Any
    has_default: bool = False
    is_certain: bool = False
    is_item: bool = False


class InputReaders(Struct):
    """What reads the input of a run, at any depth.

    Attributes:
        plan: The plan of the run.
        by_name: The parameters that read each value of the input.
        are_all: Whether nothing else does; models, commands and people are shown every value, except by a program.
        are_known: False: code of a user reads it that does not say what, or that is not imported here.
    """

    plan: Plan
    by_name: dict[str, list[InputParameter]]
    are_all: bool = True
    are_known: bool = True

    @classmethod
    def of(cls, plan: Plan, *, imports: bool = False) -> "InputReaders":
        """Those of runs of *plan*; *imports*: import its functions, as its run does."""
        found = cls(plan, {})
        if imports:
            importable(plan.folder)
        found._read(plan, imports, is_shown=True)
        return found

    def _read(self, plan: Plan, imports: bool, is_shown: bool) -> None:
        match plan.coordination:
            case FlowPlan(maps=maps):
                for one in maps.values():
                    if one.agent == RUN_INPUT:
                        self.by_name.setdefault(one.field, [])
            case PatternPlan(type=path) if ":" in path:
                program, is_shown = _found(path, imports), False
                if isinstance(program, TypedProgram):
                    self._add(program.name, program.signature, of_prompt=list(program.signature.parameters)[:1])
                else:
                    self.are_known = False
            case PatternPlan():
                pass
            case coordination:
                self.are_known = self.are_known and getattr(coordination, "tag", "") == "loop"
        for agent in plan.agents.values():
            self._read_agent(plan, agent, imports, is_shown)

    def _read_agent(self, plan: Plan, agent: AgentPlan, imports: bool, is_shown: bool) -> None:
        path = str(agent.options.get("type", ""))
        if agent.child is not None:
            self._read(agent.child, imports, is_shown)
        elif ":" in path:
            function = _found(path, imports)
            if function is None:
                self.are_known = False
            else:
                signature = signature_of(function)
                is_once = plan is self.plan and plan.flow is not None and agent.name not in plan.flow.maps
                self._add(agent.name, signature, _answered(plan, agent, signature), is_once=is_once)
                self._add_items(plan, agent.name, signature)
        elif path or "ask" in agent.options:
            self.are_known = False  # a class gets all of it, in a message
        elif is_shown:
            self.are_all = False

    def _add(
        self,
        function: str,
        signature: Signature,
        answered: Collection[str] = (),
        of_prompt: Sequence[str] = (),
        *,
        is_once: bool = False,
    ) -> None:
        """Add the parameters of *function*.

        Args:
            answered: Those that agents give; the prompt may be one *of_prompt*.
            is_once: Whether it is a node of the flow of the run, and works on no items.
        """
        for name, type_ in signature.parameters.items():
            for read in {name, PROMPT} if name in (*of_prompt, TASK, QUESTION) else {name}:
                if not is_context(type_):
                    is_of_input = name not in answered
                    has_default = is_of_input and name in signature.optional
                    found = InputParameter(function, name, type_, has_default, is_of_input and is_once)
                    self.by_name.setdefault(read, []).append(found)

    def _add_items(self, plan: Plan, function: str, signature: Signature) -> None:
        """Add what it reads as an item of a list of the input."""
        one = plan.coordination.maps.get(function) if isinstance(plan.coordination, FlowPlan) else None
        if one is None or one.agent != RUN_INPUT:
            return
        for name in ("item", one.field if one.by is not None else singular(one.field)):
            if name in signature.parameters:
                type_ = signature.parameters[name]
                self.by_name[one.field].append(InputParameter(function, name, type_, is_item=one.by is None))


def _answered(plan: Plan, agent: AgentPlan, signature: Signature) -> set[str]:
    """The parameters that agents give to *agent*."""
    givers = [plan.agents[name] for name in agent.reads if name in plan.agents]
    names = [*agent.reads, *(output.name for one in givers for output in one.outputs)]
    for one in givers:
        if one.child is not None and not one.outputs:  # its outputs are those of its exit, which may have any name
            names += signature.parameters
    return {name.replace("-", "_") for name in names}


def _found(path: str, imports: bool) -> Any:
    """What is imported at `module:name`; None: nothing."""
    module, _, name = path.partition(":")
    if imports:
        with suppress(Exception), contained():  # the run says so
            import_module(module)
    return getattr(sys.modules.get(module), name, None)


def check_read(plan: Plan, given: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> None:
    """Check that something in runs of *plan* reads each value of the input *given*, and that it has the type.

    A value that nothing reads does no harm if no parameter gets its default instead.

    Args:
        before: The input that *given* changes, in a fork, which is to have an effect: its names are those that prompts
            show.

    Raises:
        UsageError: If nothing does, the name is likely to be that of a parameter, or a function of the flow would fail.
    """
    if given.keys() <= {PROMPT} or not (plan.has_functions or before is not None):
        return
    readers = InputReaders.of(plan) if plan.has_functions else InputReaders(plan, {})
    if not readers.are_known:
        return
    known = dict.fromkeys((*(before or ()), PROMPT, *readers.by_name))
    likely = {name: found for name, found in readers.by_name.items() if name not in given}
    is_free = before is None and not (
        readers.are_all and any(one.has_default for found in likely.values() for one in found)
    )
    for name in given:
        if name in known:
            continue
        hint = did_you_mean(name, likely, LIKELY) if is_free else did_you_mean(name, known)
        if hint or not is_free:
            raise UsageError(f"the run has no input {name!r}; {hint or 'it has ' + ', '.join(known)}")
    for name, value in given.items():
        for one in readers.by_name.get(name, ()):
            is_other = one.name != name and one.name in given  # such as `task`, which the prompt is without a value
            if one.is_certain and not is_other and (why := _why_unread(value, one)):
                raise UsageError(f"the input {name!r} for {one.function}() does not have its type: {why}")


def check_given(plan: Plan, values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check the input of a team that other code asks: see `check_read` and `check_kept`."""
    check_read(plan, given)
    check_kept(plan, values, given)


def check_kept(plan: Plan, values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check that functions in runs of *plan* get *values* themselves, and nothing else that their JSON is read as.

    Args:
        given: The JSON of the values.

    Raises:
        UsageError: If one would get another value, with its place.
    """
    changed = [name for name, value in values.items() if name in given and given[name] != value]
    if not changed or not plan.has_functions:
        return
    readers = InputReaders.of(plan, imports=True).by_name
    for name in changed:
        for reader in readers.get(name, ()):
            whole = [(repr(name), values[name])]
            for what, value in _items(name, values[name]) if reader.is_item else whole:
                if why := _why_lost(value, reader.type):
                    line = f"def {reader.function}({reader.name}: {_annotation(value)})"
                    hint = f": {line}" if why.startswith("is ") else ""  # else it declares a type
                    raise UsageError(f"the input {what} for {reader.function}() {why}{hint}")


def check_answers_kept(plan: Plan, values: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """Check that those who read *values*, answers by turn or by agent, get them, and nothing else that JSON makes.

    Args:
        answers: The JSON of the values.

    Raises:
        UsageError: If they would get another value of a function, with its place.
    """
    for turn, given in answers.items():
        agent = plan.agents.get(turn.rpartition("#")[0] or turn)
        path = "" if agent is None or agent.child is not None else str(agent.options.get("type", ""))
        if ":" not in path or isinstance(given, str) or (function := _found(path, imports=True)) is None:
            continue
        result = signature_of(function).result
        types = fields_of(result) or {RESULT: result}
        for name, value in values[turn].items():
            if name in given and given[name] != value and (why := _why_lost(value, types.get(name, Any))):
                raise UsageError(f"the output {name!r} of {turn} {why}")


def _why_unread(value: Any, parameter: InputParameter) -> str:
    try:
        converted(value, parameter.type)
    except ValueError as error:
        is_text = isinstance(value, str) and misfit(str, parameter.type)
        return error_line(error) + (f"; give it with --input {parameter.name}:=…" if is_text else "")
    except (TypeError, NameError, UsageError):
        return ""  # of a type that is not read from JSON: the turn fails
    return ""


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    return ((f"{name}[{n}]", one) for n, one in enumerate(value))


def _why_lost(value: Any, type_: Any) -> str:
    try:
        at = lost(value, type_, whole=True)
    except (TypeError, ValueError) as error:
        return f"does not have its type: {error_line(error)}"
    return at and f"is {at}"


def _annotation(value: Any) -> str:
    """The type of *value*, and of what it contains, as a user writes it."""
    kind = type(value)
    name = "Path" if isinstance(value, Path) else "None" if value is None else kind.__name__
    if isinstance(value, str | bytes) or not isinstance(value, Collection) or fields_of(kind) is not None:
        return name
    parts: list[Collection[Any]] = [value, list(value.values())] if isinstance(value, Mapping) else [value]
    inner = [" | ".join(sorted({_annotation(one) for one in part})) for part in parts]
    return f"{name}[{', '.join(inner)}{', ...' if isinstance(value, tuple) else ''}]" if all(inner) else name
