"""Offer Python functions to a model as tools.

Imports pydantic-ai: load it late.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Hashable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic_ai import ModelRetry, Tool, ToolFailed

from coterie.agents.backends.models.threads import in_thread
from coterie.base import agent_writes
from coterie.base.user_code import EndableCall, contained


class Unusable(Exception):
    """A function or a server in a file cannot be used; the message says why."""


def tools_of(paths: Mapping[str, str], here: Path | None) -> list[Tool[None]]:
    """Make tools from the functions at *paths*, `module:function`, by the name that the model sees.

    The functions are imported from Python's path, then from *here*. Docstring and annotated arguments describe a
    function to the model. A function that is not `async` runs in a separate thread. An exception is returned to the
    model as an error of the tool.

    Raises:
        Unusable: If a function cannot be imported, or cannot be described to a model.
    """
    agent_writes.guard_imports()
    if here is not None and paths and str(here) not in sys.path:
        sys.path.append(str(here))  # at the end: a file beside a topology shadows no other module
    return [_tool(name, path) for name, path in paths.items()]


def server_prefix(name: str) -> str:
    """What precedes the tools of the MCP server *name*, with `_`, in the names that the model sees."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _tool(name: str, path: str) -> Tool[None]:
    function = _imported(name, path)
    try:
        return (_described if isinstance(function, Hashable) else _described.__wrapped__)(name, function)
    except Exception as error:  # pydantic raises various errors if it cannot describe an argument
        raise Unusable(f"the tool {name!r} ({path}) cannot be described to a model: {error}") from error


@functools.lru_cache(256)  # each attempt has the tools of its agent, and to describe one takes as long as to call it
def _described(name: str, function: Callable[..., Any]) -> Tool[None]:
    return Tool(_guarded(name, function), takes_ctx=False, name=name)


def _imported(name: str, path: str) -> Callable[..., Any]:
    module, _, inside = path.partition(":")
    try:
        with contained():
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
            with contained():
                if inspect.iscoroutinefunction(function):
                    return await EndableCall(function(*args, **kwargs))
                return await in_thread(functools.partial(function, *args, **kwargs), name)
        except (ModelRetry, ToolFailed):
            raise
        except Exception as error:  # an error in the user's code becomes the tool's answer
            raise ToolFailed(f"{type(error).__name__}: {error}") from error

    return call
