"""Offer the built-in tools to a model.

Imports pydantic-ai: load it late.
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
from pydantic_ai import Tool, ToolFailed

from coterie.agents.backends import wrapper
from coterie.agents.backends.base import OnEvent, Request
from coterie.agents.backends.models.programs import Programs
from coterie.agents.backends.models.rules import Refused
from coterie.agents.backends.models.threads import in_thread
from coterie.agents.backends.models.workfiles import WorkFiles
from coterie.agents.backends.secrets import Secrets
from coterie.agents.backends.team_files import own_python
from coterie.base import agent_writes
from coterie.team.planning.permissions import CHANGING, READING, Permissions


def built_in_tools(request: Request, secrets: Secrets, on_event: OnEvent, stack: AsyncExitStack) -> list[Tool[None]]:
    """The built-in tools in the agent's plan, and in a loop the command that its prompt names.

    A refusal or an error is returned to the model as an error of the tool.

    Args:
        stack: Unwound when the attempt is over.
    """
    options: Mapping[str, Any] = request.agent.options
    names = [*options.get("built_in_tools", ()), *([wrapper.NAME] if in_loop(request) else [])]
    if not names:
        return []
    permissions = msgspec.convert(options.get("permissions", {}), Permissions)
    runs = request.root.parent if request.root is not None else None
    cwd = (request.cwd or Path()).absolute() / request.agent.cwd
    kept = [*request.team, *own_python(cwd)]
    work = WorkFiles(cwd, permissions, runs, kept)
    stack.callback(setattr, work, "over", True)
    if request.folder is not None and {*names} & {*CHANGING}:
        team = dict.fromkeys(map(str, filter(os.path.lexists, kept)), agent_writes.ANY)
        stack.enter_context(agent_writes.noted(request.folder, [work.root], team))
    calls: dict[str, Callable[..., Any]] = {
        "Read": work.read,
        "Grep": work.grep,
        "Glob": work.glob,
        "Write": work.write,
        "Edit": work.edit,
    }
    if "Bash" in names or wrapper.NAME in names:
        programs = Programs(request, work.rules, secrets, on_event, stack)
        calls |= {"Bash": programs.bash, wrapper.NAME: programs.autoloops}
    return [
        Tool(_guarded(name, calls[name]), takes_ctx=False, name=name, sequential=name not in READING) for name in names
    ]


def in_loop(request: Request) -> bool:
    """Whether the attempt is an iteration or a review of a loop that is kept on disk."""
    return bool(request.env) and request.root is not None


def _guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    async def guarded(*args: Any, **kwargs: Any) -> str:
        try:
            result = functools.partial(call, *args, **kwargs)
            said: str = await (result() if inspect.iscoroutinefunction(call) else in_thread(result, name))
        except Refused as error:
            raise ToolFailed(str(error)) from error
        except OSError as error:
            raise ToolFailed(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from error
        except Exception as error:  # a bug of a tool: the model can do without that call
            raise ToolFailed(f"{type(error).__name__}: {error}") from error
        return said

    return guarded
