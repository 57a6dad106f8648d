"""Responses of a gateway: JSON, errors, and server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Mapping, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from coterie.agents.actors.http.server import Send
from coterie.agents.actors.plain import written

SLOW_READER = 30.0
"""Seconds that a client may take to read one event."""
NOSNIFF = {"x-content-type-options": "nosniff"}
_RAW = ((b"x-content-type-options", b"nosniff"),)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with *value*.

    Raises:
        ValueError: If it cannot be written as JSON.
    """
    return _Json(written(value, "the reply"), status, headers)


def problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """A response about an error of the gateway itself."""
    return json_response({"error": text}, status, headers)


class _Json(Response):
    """A response with a JSON body. It avoids the general constructor, which takes as long as the rest of a request."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str] | None) -> None:
        self.status_code, self.body, self.background = status, body, None
        length = b"%d" % len(body)
        self.raw_headers = [(b"content-type", b"application/json"), (b"content-length", length), *_RAW]
        if headers:
            self.headers.update(headers)


class EventStream(StreamingResponse):
    """Server-sent events to a client that reads them."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", **NOSNIFF}
        super().__init__(events, 200, headers, "text/event-stream")

    async def stream_response(self, send: Send) -> None:
        """Send the events.

        Raises:
            ClientDisconnect: If the client has gone, or does not read.
        """

        async def within(message: MutableMapping[str, Any]) -> None:
            async with asyncio.timeout(SLOW_READER):
                await send(message)

        try:
            await super().stream_response(within)
        except TimeoutError:
            raise ClientDisconnect from None
