"""Put a cassette between an HTTP client and the network.

Imports httpx2: load it late.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial

import httpx2

from coterie.agents.backends.models.cassette import Cassette, RecordedResponse

_LAST_EVENTS = (b"data: [DONE]", b'"message_stop"')
"""The ends of a streamed answer: clients stop reading there, and nothing is missing."""


class CassetteTransport(httpx2.AsyncBaseTransport):
    """Answers requests from *cassette*; sends others, if allowed, through *network* and records the answers."""

    def __init__(self, cassette: Cassette, network: httpx2.AsyncBaseTransport) -> None:
        self._cassette, self._network = cassette, network

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response to *request*.

        Raises:
            CassetteMiss: If it is not on the cassette and must not be sent.
        """
        body = await request.aread()
        recorded = self._cassette.answer(request.method, request.url.path, body)
        if recorded is not None:
            return httpx2.Response(recorded.status, headers=recorded.headers, stream=_ReplayedStream(recorded))
        request.headers["accept-encoding"] = "identity"  # so that the recording is readable
        response = await self._network.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        record = partial(
            self._cassette.record, request.method, request.url.path, body, response.status_code, response.headers
        )
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_RecordedStream(response.stream, record),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._network.aclose()


class _ReplayedStream(httpx2.AsyncByteStream):
    def __init__(self, recorded: RecordedResponse) -> None:
        self._recorded = recorded

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._recorded.body:
            yield piece.encode()


class _RecordedStream(httpx2.AsyncByteStream):
    """A response body for the client, which is passed to *record* once it is complete."""

    def __init__(self, stream: httpx2.AsyncByteStream, record: Callable[[bytes], None]) -> None:
        self._stream, self._record = stream, record
        self._received = bytearray()
        self._is_recorded = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._received += piece
            yield piece
        self._complete()

    async def aclose(self) -> None:
        if any(last in self._received[-400:] for last in _LAST_EVENTS):
            self._complete()
        await self._stream.aclose()

    def _complete(self) -> None:
        if not self._is_recorded:
            self._is_recorded = True
            self._record(bytes(self._received))
