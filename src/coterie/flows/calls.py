"""Ask an agent in a program: `await writer(topic, notes=verdict.notes)`.

The arguments are values. A model is shown their text; a function gets them as its arguments, and a team as its input.
"""

import inspect
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from coterie.agents.actors.inputs import check_given
from coterie.errors import UsageError, error_line
from coterie.history.engines.patterns.program import AgentCall, stage
from coterie.history.journal.records import TurnFinished
from coterie.team.planning.plan import Wanted
from coterie.team.topology.model import Agent, AnyNode, Gate, Topology
from coterie.team.topology.typed.functions import PROMPT, Signature, is_context
from coterie.team.topology.typed.program import TypedProgram
from coterie.team.topology.typed.values import RESULT, as_outputs, attributes, lost, value_of

if TYPE_CHECKING:
    from coterie.execution.runs.outcome import RunResult

T_co = TypeVar("T_co", covariant=True)


class Callee(Generic[T_co]):
    """Base class of what a program can ask; `T_co` is the type of its answers."""

    definition: Any

    @overload
    def __call__(self: "Callee[RunResult]", *args: Any, **kwargs: Any) -> AgentCall[Any]: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> AgentCall[T_co]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> AgentCall[Any]:
        """Make a question of values; awaiting it gives the answer.

        Raises:
            UsageError: If no program makes a step, the program does not list it, or it is a team that does not read a
                value, or reads another one.
            TypeError: If a value is not JSON, or a function does not take such arguments.
        """
        return _call(self.definition, args, kwargs)


def _call(definition: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AgentCall[Any]:
    node = getattr(definition, "node", definition)
    name = node.name or "an agent without a name"
    here = stage(f"{name}(…)")
    if isinstance(node, Gate):
        raise UsageError(f"{name} is a gate, and answers no question: ask an agent, or an action")
    signature = _signature(definition, node)
    values = _values(name, signature, args, kwargs, is_free=here.rules.passes_untyped)
    shown = values.values() if signature is not None else [_plain(name, one) for one in args]
    text = "\n\n".join(map(_text, shown))
    if signature is None:
        named = "\n\n".join(f"# {key}\n\n{_text(value)}" for key, value in values.items())
        text = "\n\n".join(filter(None, (text, named)))
    given: dict[str, Any] | None = values if signature is not None else None
    if isinstance(node, Agent) and node.topology is not None and signature is None:
        given = _input(name, args, values)
        child = here.agents[name].child if name in here.agents else None
        if child is not None and not here.rules.passes_untyped:
            whole = args[0] if args else {}
            own = dict(whole) if isinstance(whole, Mapping) else attributes(whole)
            check_given(child, own | kwargs, given)
    if isinstance(values.get(PROMPT), str) and signature is not None:
        text = values[PROMPT]
    return AgentCall(name, text, wanted_of(node), given, partial(_read, definition))


def _signature(definition: Any, node: AnyNode) -> Signature | None:
    """The parameters of a function or a program that answers at *node*; None: it takes any values."""
    team = node.topology
    return team.signature if isinstance(team, TypedProgram) else getattr(definition, "signature", None)


def _values(
    name: str, signature: Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_free: bool
) -> dict[str, Any]:
    """The named values of a question, as JSON; where there are parameters, all, those without a type *is_free* too."""
    if signature is None:
        return {key: _plain(name, value, key) for key, value in kwargs.items()}
    kinds = inspect.Parameter
    parameters = [
        kinds(one, kinds.POSITIONAL_OR_KEYWORD, default=None if one in signature.optional else kinds.empty)
        for one, type_ in signature.parameters.items()
        if not is_context(type_)
    ]
    parameters.sort(key=lambda one: one.default is not kinds.empty)
    try:
        bound = inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as error:
        wanted = ", ".join(one.name for one in parameters)
        raise TypeError(f"{name}({wanted}): {error}") from None
    plain = {key: _plain(name, value, key) for key, value in bound.arguments.items()}
    for key, value in bound.arguments.items():
        type_ = signature.parameters[key]
        if plain[key] != value and not (is_free and type_ in (Any, object)):
            _check_kept(name, key, value, type_)
    return plain


def _check_kept(name: str, key: str, value: Any, type_: Any) -> None:
    """Check that *name* gets *value*, and not another one that its JSON is read as."""
    try:
        why = (at := lost(value, type_, whole=True)) and f"is {at}"
    except (TypeError, ValueError) as error:
        why = f"does not have its type: {error_line(error)}"
    if why:
        raise TypeError(f"the value {key!r} for {name} {why}")


def _input(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The input of a team: a text is its prompt, an object its values."""
    if len(args) > 1:
        raise TypeError(f"{name} is a team: ask it one text or object, and name other values, {name}(…, limit=3)")
    if not args:
        return named
    value = _plain(name, args[0])
    return {**(value if isinstance(value, dict) else {PROMPT: _text(value)}), **named}


def _plain(name: str, value: Any, key: str = "") -> Any:
    """*value* as JSON data, as it is now."""
    what = f"the value {key!r}" if key else f"a value {value!r:.60}"
    if isinstance(value, AgentCall):
        raise TypeError(f"{what} for {name} is a question to {value.agent}, not its answer: await it first")
    try:
        return as_outputs(value, whole=True)[RESULT]
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} for {name} is not JSON data: {error_line(error)}") from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def wanted_of(node: AnyNode) -> tuple[Wanted, ...]:
    """The outputs that *node* declares."""
    schemas: Mapping[str, str] = node.extension.get("schemas") or {}
    return tuple(
        Wanted(name=one.name, type=one.type, values=one.values, schema=json.loads(schemas.get(one.name, "{}")))
        for one in node.outputs
    )


def _read(definition: Any, record: TurnFinished) -> Any:
    """The answer in *record*, with its type."""
    from coterie.execution.runs.outcome import Values

    node, type_ = getattr(definition, "node", definition), getattr(definition, "result", None)
    if isinstance(node.topology, Topology) and type_ is None:
        return Values(record.outputs) if node.topology.pattern is not None else record.text
    if type_ is not None or getattr(definition, "signature", None) is not None:
        return value_of(type_, record.outputs, record.text)
    return Values(record.outputs) if node.outputs else record.text
