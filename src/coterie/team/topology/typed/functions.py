"""Functions as agents: their import paths, their parameters and their results."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import Struct

from coterie.errors import UsageError

PROMPT = "prompt"
"""The parameter that gets the current request: the question of a pattern, or the run's prompt."""
TASK = "task"
"""The parameter that gets the run's prompt, unless an agent, an output or an input has this name."""
QUESTION = "question"
"""Another word for `PROMPT`, unless an agent, an output or an input has this name."""


class Signature(Struct, frozen=True):
    """The types of a function.

    Attributes:
        parameters: The types of its parameters by name; *optional* has those with a default.
        result: The type of its return value.
    """

    parameters: Mapping[str, Any]
    optional: frozenset[str]
    result: Any


def is_context(type_: Any) -> bool:
    """Whether a parameter of *type_* gets the context of the turn, `coterie.Context`."""
    return bool(getattr(type_, "is_context_of_a_turn", False))


def module_of(function: Callable[..., Any]) -> str:
    """The name by which another process imports the module of *function*.

    The file that is run is the module of its name in this process as well: nothing in it is executed twice. It is
    `__main__` only where no other process could import it: a program that is typed in, or has the name of a library.
    """
    module, main = getattr(function, "__module__", None) or "", sys.modules["__main__"]
    if module != "__main__":
        return module
    spec, file = getattr(main, "__spec__", None), Path(getattr(main, "__file__", None) or "")
    name = spec.name if spec is not None else file.stem
    if spec is None and (file.suffix != ".py" or not name.isidentifier() or name in sys.stdlib_module_names):
        return module
    known = sys.modules.setdefault(name, main)
    return name if getattr(known, "__file__", None) == getattr(main, "__file__", None) else module


def path_of(function: Callable[..., Any]) -> str:
    """The path by which a resumed run finds *function*, or a class: `module:name`.

    Raises:
        UsageError: If it cannot be found by a path: a lambda, a closure, a method, or a function of a program that
            another process cannot import.
    """
    name = getattr(function, "__qualname__", repr(function))
    module = module_of(function)
    if not isinstance(function, FunctionType | type):
        raise UsageError(
            f"an agent is a function or `async def`, not {function!r}: write one that calls it, `def NAME(…)`; for a "
            "class write agent(NAME, CLASS)"
        )
    why = ""
    if function.__name__ == "<lambda>":
        why = "a lambda has no name: write `def`, or `async def`"
    elif "<locals>" in name:
        why = "it is defined inside another function: move it to the top level of its module"
    elif "." in name:
        why = "it is defined in a class: move it to the top level of its module"
    elif module == "__main__":
        file = Path(getattr(sys.modules["__main__"], "__file__", None) or "the program")
        why = (
            f"{file.name} itself defines it, which cannot be imported under its name: move it to a module, a file "
            f"agents.py for example, and import it from there, `from agents import {name}`"
        )
    elif getattr(sys.modules.get(module), name, None) is not function:
        why = f"{module}.{name} is something else: give the agent the function that the module has under that name"
    if why:
        raise UsageError(f"{name} cannot be an agent, since a resumed run must find it by module and name: {why}")
    return f"{module}:{name}"


def folder_of(function: Callable[..., Any]) -> str:
    """The folder from which the module of *function* is imported; empty if it is unknown."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    if file is None:
        return ""
    return str(Path(file).resolve().parents[module_of(function).count(".")])


def hints_of(annotated: Any) -> dict[str, Any]:
    """The types that *annotated* gives names: the parameters of a function, or the fields of a class.

    Raises:
        UsageError: If an annotation cannot be resolved.
    """
    try:
        return get_type_hints(annotated, include_extras=True)
    except Exception as error:  # an annotation is any expression
        what = annotated.__name__ if isinstance(annotated, type) else f"{annotated.__name__}()"
        hint = "; import it, and not only under `if TYPE_CHECKING:`" if isinstance(error, NameError) else ""
        raise UsageError(f"an annotation of {what} cannot be resolved: {type(error).__name__}: {error}{hint}") from None


def signature_of(function: Callable[..., Any]) -> Signature:
    """The types of the parameters and of the result of *function*.

    Raises:
        UsageError: If it is a generator, a parameter is not passed by name, or an annotation cannot be resolved.
    """
    name = function.__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{name}() yields, and the answer of an agent is what its function returns: return a list")
    hints = hints_of(function)
    parameters, optional = {}, set()
    for one in inspect.signature(function).parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            raise UsageError(
                f"{name}() has the parameter {one}: an agent's parameters are read by name; write {one.name}: TYPE"
            )
        parameters[one.name] = hints.get(one.name, Any)
        if one.default is not one.empty:
            optional.add(one.name)
    result = hints.get("return", Any if "return" not in hints else None)
    if get_origin(result) in (Awaitable, Coroutine):
        result = get_args(result)[-1]
    return Signature(parameters, frozenset(optional), result)


def singular(name: str) -> str:
    """The name of one of the *name*: `file` of `files`, `query` of `queries`, `box` of `boxes`."""
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name[:-2] if name.endswith(("sses", "xes", "ches", "shes")) else name.removesuffix("s")
