"""User classes: their dotted paths, and the constructor arguments of an instance."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pkgutil import iter_modules
from typing import Any

from coterie.base import agent_writes
from coterie.base.diagnostics import did_you_mean
from coterie.base.user_code import contained
from coterie.errors import CannotStart, ClassNotFound


def arguments(instance: object) -> dict[str, Any]:
    """The constructor arguments of *instance*, by name; empty if it does not keep them.

    Raises:
        TypeError: If some of them have no name.
    """
    args, kwargs = getattr(instance, "constructed_with", ((), {}))  # kept by AgentProcess
    bound = inspect.signature(type(instance).__init__).bind(instance, *args, **kwargs)
    given: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        match bound.signature.parameters[name].kind:
            case inspect.Parameter.VAR_KEYWORD:
                given |= value
            case inspect.Parameter.VAR_POSITIONAL:
                given |= _named(instance, () if given else value)
            case _:
                given[name] = value
    return given


def _named(instance: object, values: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments *values* of `*args`, with the names of the nearest base class that has no `*args`."""
    for init in (vars(base)["__init__"] for base in type(instance).__mro__ if values and "__init__" in vars(base)):
        signature = inspect.signature(init)
        if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in signature.parameters.values()):
            continue
        try:
            return dict(list(signature.bind_partial(instance, *values).arguments.items())[1:])
        except TypeError:
            break
    raise TypeError(f"{type(instance).__name__} was given arguments without names (*args): name them")


def importable(folder: str) -> None:
    """Make modules in *folder* and in the working directory importable, after all others.

    A file beside a topology never hides another module.
    """
    agent_writes.guard_imports()
    for each in (folder, os.getcwd()):
        if each and each not in sys.path:
            sys.path.append(each)


def class_path(cls: type) -> str:
    """The dotted path of *cls*."""
    return f"{cls.__module__}.{cls.__qualname__}"


def load_class(path: str) -> type:
    """Import the class at a dotted path.

    Raises:
        ClassNotFound: There is no such module or class, or its import failed.
    """
    found: type = _load(path, "class", lambda value: isinstance(value, type))
    return found


def load_function(path: str) -> Callable[..., Any]:
    """Import the function at `module:name`; see `load_class`."""
    found: Callable[..., Any] = _load(path.replace(":", "."), "function", inspect.isfunction)
    return found


def load_middleware(path: str) -> Any:
    """Import the middleware of a gateway at a dotted path; see `load_class`.

    Raises:
        CannotStart: If it is neither `async def`, nor an object with an async `__call__`, nor a wrapper of either.
    """
    found = _load(path, "function", callable)
    forms = (found, inspect.unwrap(found), type(found).__call__)
    if not any(inspect.iscoroutinefunction(form) for form in forms):
        raise CannotStart(f"the middleware {path!r} must have the form `async def middleware(request, next)`")
    return found


def _load(path: str, what: str, fits: Callable[[Any], bool]) -> Any:
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise ClassNotFound(path, "a name without a dot must be given in agent_classes", what)
    try:
        with contained():
            module = importlib.import_module(module_name)
    except Exception as error:  # user code runs here
        why = f"importing {module_name!r} failed: {type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == module_name:
            why = f"there is no module {module_name!r}"
            near = did_you_mean(module_name, [found.name for found in iter_modules()])
            why += f"; {near}" if near else ""
        raise ClassNotFound(path, why, what) from error
    found = getattr(module, name, None)
    if not fits(found):
        hint = did_you_mean(name, [key for key, value in vars(module).items() if fits(value)])
        why = f"module {module_name!r} has no {what} {name!r}" + (f"; {hint}" if hint else "")
        raise ClassNotFound(path, why, what)
    return found
