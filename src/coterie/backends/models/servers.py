"""MCP servers: started for an attempt, ended with it.

Imports pydantic-ai and FastMCP: load it late.
"""

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import IO, Any

from fastmcp.client.logging import LogMessage
from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai import BinaryContent, RunContext
from pydantic_ai.mcp import CallToolFunc, MCPToolset
from pydantic_ai.toolsets import AbstractToolset

from coterie.backends.attempt import identity, variables_of
from coterie.backends.base import Request
from coterie.backends.models.functions import Unusable
from coterie.backends.models.workfiles import RESULT
from coterie.options.values import VARIABLE

for _library in ("fastmcp", "mcp"):
    _logger = logging.getLogger(_library)
    _logger.handlers, _logger.propagate = [logging.NullHandler()], True  # FastMCP's own handler prints on the terminal

STARTING = 30.0
"""Seconds that a server may take to start."""


@dataclass(frozen=True, slots=True)
class Server:
    """A declared server; a model sees its tools as `SERVER_TOOL`."""

    name: str
    said: Mapping[str, Any]

    @property
    def is_process(self) -> bool:
        """Whether it is started here, as a process."""
        return bool(self.said.get("command")) and self.said.get("type", "stdio") == "stdio"

    def toolset(self, request: Request, log: IO[str]) -> AbstractToolset[None]:
        """Its tools; entering them starts the server or connects to it, leaving them ends it.

        Args:
            log: Receives the log messages of the server, and the standard error of one that is started here.

        Raises:
            Unusable: If a variable that it needs is not set.
        """

        async def write(message: LogMessage) -> None:
            log.write(f"{message.level}: {message.data}\n")
            log.flush()

        tools: AbstractToolset[None] = MCPToolset(
            self._transport(request, log),
            tool_error_behavior="failed",
            init_timeout=STARTING,
            id=self.name,
            log_handler=write,
            process_tool_call=_call,
        )
        only, never = self.said.get("only"), self.said.get("never", ())
        if only or never:
            tools = tools.filtered(
                lambda _, tool: _matches(tool.name, only or ("*",)) and not _matches(tool.name, never)
            )
        return tools.prefixed(re.sub(r"[^A-Za-z0-9_-]", "_", self.name))

    def _transport(self, request: Request, log: IO[str]) -> ClientTransport:
        if self.is_process:
            cwd = os.path.join(request.cwd or os.curdir, request.agent.cwd)
            own = {name: self._filled(str(value)) for name, value in self.said.get("env", {}).items()}
            arguments = [self._filled(str(word)) for word in self.said.get("args", ())]
            return StdioTransport(
                str(self.said["command"]),
                arguments,
                env={**variables_of(request.agent), **own, **identity(request)},
                cwd=cwd,
                keep_alive=False,
                log_file=log,  # type: ignore[arg-type]  # any file will do: the process only inherits it
            )
        headers = {name: self._filled(str(value)) for name, value in self.said.get("headers", {}).items()}
        url = self._filled(str(self.said["url"]))
        kind = SSETransport if self.said.get("type") == "sse" else StreamableHttpTransport
        return kind(url, headers=headers)

    def _filled(self, text: str) -> str:
        """*text* with each `${NAME}` replaced here, so that no plan and no journal contains the value."""

        def value(found: re.Match[str]) -> str:
            if found[1] not in os.environ:
                raise Unusable(f"the MCP server {self.name!r} needs the variable {found[1]}, which is not set")
            return os.environ[found[1]]

        return VARIABLE.sub(value, text)


async def _call(_: RunContext[Any], call: CallToolFunc, name: str, arguments: dict[str, Any]) -> Any:
    """Call the tool *name*; of a result that is too long for a prompt, return the beginning of its text."""
    result = await call(name, arguments)
    parts = result if isinstance(result, list) else [result]
    media = [one for one in parts if isinstance(one, BinaryContent)]
    texts = [one if isinstance(one, str) else json.dumps(one, default=str) for one in parts if one not in media]
    if (size := sum(map(len, texts))) <= RESULT:
        return result
    cut = f"{' '.join(texts)[:RESULT]}\n(these are {RESULT:,} of {size:,} characters: ask for less)"
    return [cut, *media]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
