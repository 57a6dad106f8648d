"""The connection to an agent that speaks ACP: requests, answers and notifications.

It imports the protocol's library, which takes half a second: load it late, in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from acp import RequestError
from acp.connection import Connection

from coterie.agents.backends.coding.acp_messages import AgentError
from coterie.agents.backends.coding.wire import WireProcess

OnMessage = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Answers a request or handles a notification of the agent; None: unknown method."""


class AgentConnection:
    """A connection to the agent in *process*.

    Attributes:
        ended: Set once the agent has ended or closed its output, and all its messages were handled.
    """

    def __init__(self, process: WireProcess, on_message: OnMessage, log: Callable[[str], None]) -> None:
        self._on_message, self._log = on_message, log
        self._lines = _Lines(process)
        self.ended = self._lines.ended
        self._connection = Connection(self._receive, self._lines)

    @property
    def repeats(self) -> bool:
        """Whether the agent has answered a request twice."""
        return self._lines.repeats

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the agent's answer.

        Raises:
            AgentError: If it answers with an error.
            ConnectionError: If its output ends first.
        """
        try:
            answer = await self._connection.send_request(method, dict(params))
        except RequestError as error:
            raise AgentError(method, error.code, str(error), error.data) from None
        return answer if isinstance(answer, dict) else {}

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        await self._connection.send_notification(method, dict(params))

    async def close(self) -> None:
        """Stop reading."""
        await self._connection.close()

    async def _receive(self, method: str, params: Any, is_notification: bool) -> Any:
        try:
            answer = await self._on_message(method, params if isinstance(params, dict) else {})
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # a message of an unexpected form
            self._log(f"the agent's `{method}` is not understood: {type(error).__name__}: {error}\n")
            if is_notification:
                return None
            raise RequestError.invalid_params({"details": str(error)}) from None
        if answer is None and not is_notification:
            raise RequestError.method_not_found(method)
        return answer


class _Lines:
    """The agent's process as a transport of the protocol's library."""

    def __init__(self, process: WireProcess) -> None:
        self._process = process
        self.ended = asyncio.Event()
        self._answered = set[int | str]()
        self.repeats = False
        """Whether the agent has answered a request twice."""

    async def send(self, message: dict[str, Any]) -> None:
        self._process.send(message)

    async def receive(self) -> dict[str, Any] | None:
        message = await self._process.receive()
        while message is not None and not _is_sound(message):
            message = await self._process.receive()
        if message is None:
            # the tasks for earlier messages were created before, so they begin before this wakes a waiter
            self.ended.set()
        elif "method" not in message and (id := message.get("id")) is not None:
            self.repeats |= id in self._answered
            self._answered.add(id)
        return message

    async def close(self) -> None:
        """Do nothing: the attempt ends the process."""


def _is_sound(message: dict[str, Any]) -> bool:
    """Whether the library can process *message*: it has a hashable id, and an error that is an object."""
    return (
        isinstance(message.get("id"), int | str | None)
        and isinstance(message.get("method"), str | None)
        and isinstance(message.get("error"), dict | None)
    )
