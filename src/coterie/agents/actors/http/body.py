"""Read the body of a request within its limits, and as JSON."""

import asyncio
import re
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from coterie.agents.actors.http.responses import problem
from coterie.agents.actors.http.server import Receive, Send

ATTENTION = 1.0
"""Seconds after which an unanswered request is dropped if its client has gone."""
LINGER = 30.0
"""Seconds for reading and dropping the rest of a body before a response that does not need it."""
SILENCE = 5.0
"""Seconds without new data after which the rest of a body is no longer awaited."""
_CHARSET = re.compile(rb""";\s*charset\s*=\s*["']?([^\s;"']*)""")


class BodyTooLarge(Exception):
    """A body exceeds the limit."""


def may_have_body(version: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request over this version of HTTP can have a body; in HTTP/1 a header says so."""
    return b"content-length" in headers or b"transfer-encoding" in headers or not version.startswith("1")


class RequestBody:
    """The body of a request, as it arrives.

    Attributes:
        is_awaited: Whether reading has begun and is not complete.
    """

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, limit: int) -> None:
        self._scope, self._receive, self._left = scope, receive, limit
        self.is_awaited = self._is_read = False

    @property
    def is_complete(self) -> bool:
        """Whether it has been read, or there is none."""
        return self._is_read or not may_have_body(self._scope["http_version"], dict(self._scope["headers"]))

    async def receive(self) -> MutableMapping[str, Any]:
        """The next part.

        Raises:
            BodyTooLarge: It passes the limit.
        """
        self.is_awaited = not self._is_read
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise BodyTooLarge
        self._is_read |= message["type"] == "http.request" and not message.get("more_body", False)
        self.is_awaited = not self._is_read
        return message

    async def respond(self, response: Response, send: Send) -> None:
        """Read the rest of the body for a while, then send *response*; close the connection if the body did not end.

        A server that closes a connection on which the client still sends resets it, and the response can be lost.
        HTTP/2 ends a request without its connection.
        """
        if not self.is_complete and self._scope["http_version"].startswith("1") and not await self._drop():
            response.headers["connection"] = "close"
        await response(self._scope, self._receive, send)

    async def _drop(self) -> bool:
        """Read and drop the rest; return whether it was complete. A client that awaits `100 Continue` is not asked."""
        if any(name == b"expect" for name, _ in self._scope["headers"]):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                more = True
                while more:
                    async with asyncio.timeout(SILENCE):
                        message = await self._receive()
                    more = message.get("more_body", False)
                return bool(message["type"] == "http.request")
        return False

    async def disconnected(self) -> None:
        """Wait until the client has gone; the body must be complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class WhileClientWaits:
    """Cancels the work on a slow request when its client has gone.

    Raises:
        ClientDisconnect: It has.
    """

    def __init__(self, body: RequestBody) -> None:
        self._body = body
        self._watch: asyncio.Task[None] | None = None
        self._is_gone = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._loop = task, task.get_loop()
        self._timer = self._loop.call_later(ATTENTION, self._look)

    def _look(self) -> None:
        if self._body.is_complete:
            self._watch = self._loop.create_task(self._wait())
        else:
            self._timer = self._loop.call_later(ATTENTION, self._look)

    async def _wait(self) -> None:
        await self._body.disconnected()
        self._is_gone = self._task.cancel()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self._is_gone and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise ClientDisconnect from None


async def payload_of(request: Request, headers: Mapping[bytes, bytes], limit: int) -> dict[str, Any] | Response:
    """The JSON object in the body, empty without a body; or an error response."""
    if not may_have_body(request.scope["http_version"], headers):
        return {}
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise BodyTooLarge
    body = await request.body()
    if not body:
        return {}
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and not kind.endswith(b"+json"):
        return problem(415, "the body must be application/json")
    charset = _CHARSET.search(headers.get(b"content-type", b"").lower())
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity" or (charset is not None and charset[1] not in (b"utf-8", b"utf8", b"us-ascii")):
        return problem(415, "the body must be JSON in UTF-8, without a content encoding")
    try:
        payload = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return problem(422, f"the body is not JSON: {error}")
    return payload if isinstance(payload, dict) else problem(422, "the body must be a JSON object")
