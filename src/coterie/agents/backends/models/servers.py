"""MCP servers, started for an attempt and ended with it.

Imports pydantic-ai and FastMCP: load it late.
"""

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import anyio
from fastmcp.client.logging import LogMessage
from fastmcp.client.transports import ClientTransport, SSETransport, StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from msgspec import Struct
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import AbstractToolset
from typing_extensions import Unpack

from coterie.agents.backends.attempt import identity
from coterie.agents.backends.base import Event, Launched, OnEvent, Request
from coterie.agents.backends.coding.wire import WireProcess
from coterie.agents.backends.log_file import LogFile
from coterie.agents.backends.models.functions import Unusable, server_prefix
from coterie.agents.backends.needs import variables_of
from coterie.agents.backends.secrets import Secrets
from coterie.base import program_files
from coterie.team.options.values import VARIABLE

for _library in ("fastmcp", "mcp"):
    _logger = logging.getLogger(_library)
    _logger.handlers, _logger.propagate = [logging.NullHandler()], True  # FastMCP's own handler prints on the terminal

STARTING = 30.0
"""Seconds that a server may take to start."""
ENDING = 2.0
"""Seconds that a server has to end after its input was closed."""


class Server(Struct, frozen=True):
    """A declared server; a model sees its tools as `SERVER_TOOL`."""

    name: str
    said: Mapping[str, Any]

    @property
    def is_process(self) -> bool:
        """Whether it is started as a local process."""
        return bool(self.said.get("command")) and self.said.get("type", "stdio") == "stdio"

    def toolset(self, request: Request, log: LogFile, secrets: Secrets, on_event: OnEvent) -> AbstractToolset[None]:
        """Its tools; entering this context starts the server or connects to it, leaving it ends the server.

        Args:
            log: Receives the log messages of the server, and the standard error of a local process.
            on_event: Called with `Launched` for a local process.

        Raises:
            Unusable: If a variable that it needs is not set.
        """

        async def write(message: LogMessage) -> None:
            log.write(f"{message.level}: {message.data}\n")

        tools: AbstractToolset[None] = MCPToolset(
            self._transport(request, log, secrets, on_event),
            tool_error_behavior="failed",
            init_timeout=STARTING,
            id=self.name,
            log_handler=write,
        )
        only, never = self.said.get("only"), self.said.get("never", ())
        if only or never:
            tools = tools.filtered(
                lambda _, tool: _matches(tool.name, only or ("*",)) and not _matches(tool.name, never)
            )
        return tools.prefixed(server_prefix(self.name))

    def _transport(self, request: Request, log: LogFile, secrets: Secrets, on_event: OnEvent) -> ClientTransport:
        if self.is_process:
            cwd = os.path.join(request.cwd or os.curdir, request.agent.cwd)
            own = {name: self._filled(str(value)) for name, value in self.said.get("env", {}).items()}
            arguments = [self._filled(str(word)) for word in self.said.get("args", ())]
            if why := program_files.refusal([str(self.said["command"]), *arguments], Path(cwd), os.environ | own):
                raise Unusable(f"the MCP server {self.name!r} is not started: {why}")

            def heard(event: Event) -> None:
                (on_event if isinstance(event, Launched) else log.hear)(event)

            return ServerTransport(
                lambda: WireProcess.start(
                    [str(self.said["command"]), *arguments],
                    env={**get_default_environment(), **variables_of(request.agent), **own, **identity(request)},
                    cwd=Path(cwd),
                    marker=request.ref.marker,
                    secrets=secrets,
                    on_event=heard,
                )
            )
        headers = {name: self._filled(str(value)) for name, value in self.said.get("headers", {}).items()}
        url = self._filled(str(self.said["url"]))
        kind = SSETransport if self.said.get("type") == "sse" else StreamableHttpTransport
        return kind(url, headers=headers)

    def _filled(self, text: str) -> str:
        """Replace each `${NAME}` in *text*; this is done late, so that no plan and no journal contains the value."""

        def value(found: re.Match[str]) -> str:
            if found[1] not in os.environ:
                raise Unusable(f"the MCP server {self.name!r} needs the variable {found[1]}, which is not set")
            return os.environ[found[1]]

        return VARIABLE.sub(value, text)


class ServerTransport(ClientTransport):
    """A server that is a local process, started and ended as every program of an attempt.

    Args:
        start: Starts the process.
    """

    def __init__(self, start: Callable[[], Awaitable[WireProcess]]) -> None:
        self._start = start

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **settings: Unpack[SessionKwargs]
    ) -> AsyncGenerator[ClientSession, None]:
        """Start the server, and end it behind the block."""
        process = await self._start()
        to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_session = anyio.create_memory_object_stream[SessionMessage](0)

        async def receive() -> None:
            async with to_session:
                while (message := await process.receive()) is not None:
                    try:
                        await to_session.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
                    except ValueError as error:
                        await to_session.send(error)
                    except anyio.BrokenResourceError:  # the session is closed
                        return

        async def send() -> None:
            async for message in from_session:
                process.send(message.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(receive)
                group.start_soon(send)
                options = transport_options or TransportOptions()
                async with options.session_class(read, write, **settings) as session:
                    yield session
                group.cancel_scope.cancel()
        finally:
            for stream in (to_session, read, write, from_session):
                stream.close()
            process.close_input()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({process.child.exited}, timeout=ENDING)
                await process.end()


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
