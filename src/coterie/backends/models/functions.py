"""Offer Python functions to a model as tools.

Imports pydantic-ai: load it late.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic_ai import ModelRetry, Tool, ToolFailed

from coterie.backends.models.threads import in_thread


class Unusable(Exception):
    """A function or a server that a file names cannot be used; the message says why."""


def tools_of(paths: Mapping[str, str], here: Path | None) -> list[Tool[None]]:
    """Make tools of the functions at *paths*, `module:function`, by the name that the model sees.

    They are imported from Python's path, then from *here*. Docstring and annotated arguments describe a function to
    the model. A function that is not `async` runs in a separate thread. An exception is returned to the model as an
    error of the tool.

    Raises:
        Unusable: If a function cannot be imported, or cannot be described to a model.
    """
    if here is not None and paths and str(here) not in sys.path:
        sys.path.append(str(here))  # at the end: a file beside a topology shadows no other module
    return [_tool(name, path) for name, path in paths.items()]


def _tool(name: str, path: str) -> Tool[None]:
    function = _imported(name, path)
    try:
        return Tool(_guarded(name, function), takes_ctx=False, name=name)
    except Exception as error:  # pydantic raises many kinds when it cannot describe an argument
        raise Unusable(f"the tool {name!r} ({path}) cannot be described to a model: {error}") from error


def _imported(name: str, path: str) -> Callable[..., Any]:
    module, _, inside = path.partition(":")
    try:
        found = attrgetter(inside)(import_module(module))
    except Exception as error:  # importing runs the user's code, which may raise anything
        raise Unusable(
            f"the tool {name!r} cannot be imported from {path!r}: {type(error).__name__}: {error}; it is searched for "
            "on Python's path, then in the topology's folder"
        ) from error
    if not callable(found):
        raise Unusable(f"the tool {name!r} is {path!r}, which is not a function")
    return found  # type: ignore[no-any-return]


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if inspect.iscoroutinefunction(function):
                return await function(*args, **kwargs)
            return await in_thread(functools.partial(function, *args, **kwargs), name)
        except (ModelRetry, ToolFailed):
            raise
        except Exception as error:  # an error in the user's code becomes the tool's answer
            raise ToolFailed(f"{type(error).__name__}: {error}") from error

    return call
