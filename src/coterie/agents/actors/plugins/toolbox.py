"""The tools of the agents of a system: Python functions that agents and models call by name."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from coterie.agents.backends.models.key import is_once
from coterie.agents.backends.models.threads import in_thread
from coterie.base.diagnostics import did_you_mean
from coterie.base.user_code import EndableCall, contained
from coterie.errors import PluginError, ToolFailed


class AgentTool:
    """A function that a model can call, described by its name, docstring and annotated arguments.

    Args:
        call: A function, `async` or not, or an object with `__call__`; one that is not `async` runs in a thread.
        name: The name of the tool; by default the attribute `name` of *call*, else the name of the function.

    Raises:
        PluginError: If its arguments cannot be described.
    """

    def __init__(self, call: Callable[..., Any], name: str = "") -> None:
        self.name = name or str(getattr(call, "name", "") or getattr(call, "__name__", type(call).__name__))
        described = call if inspect.isfunction(call) or inspect.ismethod(call) else call.__call__  # type: ignore[operator]
        self.description = inspect.getdoc(call) or inspect.getdoc(described) or ""
        self._call, self.is_once = call, is_once(call)
        self._is_async = inspect.iscoroutinefunction(described)
        try:
            self._arguments = _struct(self.name, described)
            self.schema: Mapping[str, Any] = _schema(self._arguments)
        except Exception as error:  # annotations may be anything
            reason = f"its arguments cannot be described: {type(error).__name__}: {error}"
            raise PluginError("tool", self.name, reason, "annotate each with a type that JSON has") from error

    async def __call__(self, **arguments: Any) -> Any:
        """Call it with *arguments*, which are checked and converted like JSON.

        Raises:
            ToolFailed: If they are invalid, or the function raises an exception.
        """
        try:
            fitting = msgspec.to_builtins(arguments)
            checked = msgspec.structs.asdict(msgspec.convert(fitting, self._arguments))
        except (msgspec.ValidationError, TypeError) as error:
            raise ToolFailed(self.name, f"invalid arguments: {error}") from error
        given = {name: checked[name] for name in arguments}
        try:
            with contained():
                if self._is_async:
                    return await EndableCall(self._call(**given))
                return await in_thread(functools.partial(self._call, **given), self.name)
        except Exception as error:  # the code of others
            raise ToolFailed(self.name, f"{type(error).__name__}: {error}") from error


class Toolbox:
    """The tools of a system by name; an agent's `self.tools`.

    Args:
        tools: Functions or objects with `__call__`, or tools.

    Raises:
        PluginError: If two have the same name.
    """

    def __init__(self, tools: Sequence[Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, AgentTool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Callable[..., Any], name: str = "") -> AgentTool:
        """Add *tool*, by default under its own name.

        Raises:
            PluginError: If the name is taken.
        """
        made = tool if isinstance(tool, AgentTool) else AgentTool(tool, name)
        if made.name in self._tools:
            raise PluginError("tool", made.name, "two tools have this name", "give one of them another `name`")
        self._tools[made.name] = made
        return made

    def get(self, name: str) -> AgentTool:
        """The tool *name*.

        Raises:
            ToolFailed: If there is none.
        """
        if name not in self._tools:
            hint = did_you_mean(name, self._tools) or f"the tools are: {', '.join(self._tools) or 'none'}"
            raise ToolFailed(name, f"no such tool; {hint}")
        return self._tools[name]

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Call the tool *name* and return its result.

        Raises:
            ToolFailed: If there is none, the arguments are invalid, or it raises an exception.
        """
        return await self.get(name)(**arguments)

    def __iter__(self) -> Iterator[AgentTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def _struct(name: str, call: Callable[..., Any]) -> type[Struct]:
    hints = typing.get_type_hints(call)
    fields: list[Any] = []
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{parameter} cannot be given by name")
        field = (parameter.name, hints.get(parameter.name, Any))
        if parameter.default is not parameter.empty:
            field = (*field, msgspec.field(default_factory=functools.partial(_same, parameter.default)))  # type: ignore[assignment]
        fields.append(field)
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _same(value: Any) -> Any:
    return value


def _schema(arguments: type[Struct]) -> Mapping[str, Any]:
    """The JSON schema of *arguments*, without a top-level reference, which providers do not accept."""
    (schema,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    own = dict(parts.pop(schema["$ref"].rpartition("/")[2]))
    own.pop("title", None)
    return own | ({"$defs": parts} if parts else {})
