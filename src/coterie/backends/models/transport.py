"""Put a cassette between an HTTP client and the network.

Imports httpx2: load it late.
"""

from collections.abc import AsyncIterator

import httpx2

from coterie.backends.models.cassette import KEPT_HEADERS, Cassette, Recorded

_LAST_EVENTS = (b"data: [DONE]", b'"message_stop"')
"""The ends of a streamed answer, at which clients stop reading: nothing is missing after them."""


class CassetteTransport(httpx2.AsyncBaseTransport):
    """Answers requests from *cassette*; sends others, if they may go out, through *network* and records the answers."""

    def __init__(self, cassette: Cassette, network: httpx2.AsyncBaseTransport) -> None:
        self._cassette, self._network = cassette, network

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response to *request*.

        Raises:
            CassetteMiss: If it is not on the cassette and may not go out.
        """
        body = await request.aread()
        recorded = self._cassette.answer(request.method, request.url.path, body)
        if recorded is not None:
            return httpx2.Response(recorded.status, headers=dict(recorded.headers), stream=_ReplayedStream(recorded))
        request.headers["accept-encoding"] = "identity"  # so that the recording is readable
        response = await self._network.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_RecordedStream(self._cassette, request, body, response, response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._network.aclose()


class _ReplayedStream(httpx2.AsyncByteStream):
    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._recorded.pieces:
            yield piece.encode()


class _RecordedStream(httpx2.AsyncByteStream):
    """A response body on its way to the client; recorded once it is complete."""

    def __init__(
        self,
        cassette: Cassette,
        request: httpx2.Request,
        body: bytes,
        response: httpx2.Response,
        stream: httpx2.AsyncByteStream,
    ) -> None:
        self._cassette, self._request, self._body = cassette, request, body
        self._response, self._stream = response, stream
        self._received = bytearray()
        self._recorded = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._received += piece
            yield piece
        self._record()

    async def aclose(self) -> None:
        if any(last in self._received[-400:] for last in _LAST_EVENTS):
            self._record()
        await self._stream.aclose()

    def _record(self) -> None:
        if self._recorded:
            return
        self._recorded = True
        headers = {name: self._response.headers[name] for name in KEPT_HEADERS if name in self._response.headers}
        self._cassette.record(
            self._request.method,
            self._request.url.path,
            self._body,
            self._response.status_code,
            headers,
            bytes(self._received),
        )
