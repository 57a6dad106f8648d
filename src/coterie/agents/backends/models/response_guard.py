"""Limit the answers of servers, and repair invalid text in them, before the clients of providers read them.

Imports httpx2: load it late.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar

import httpx2

from coterie.agents.backends.models.malformed import Malformed, note_response

ERROR_MOST = 64 << 10
"""How many bytes of an error's body are read; the rest is dropped."""
LINE_MOST = 8 << 20
"""The longest line of an answer, in bytes."""
ANSWER_MOST = 64 << 20
"""The largest answer, in bytes."""
LONGEST = 3600.0
"""The longest time of an answer from its beginning to its end, in seconds."""

REPAIRED = "the provider sent text that is not valid Unicode: the invalid characters were replaced\n"
ON_NOTE: ContextVar[Callable[[str], object]] = ContextVar("coterie-on-note")
"""Called with a note about each line whose text was repaired."""

_ESCAPE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A surrogate in JSON's notation: a pair or a lone one. An even number of backslashes before it are text."""


async def guard_response(response: httpx2.Response) -> None:
    """Guard the body of *response*; a hook of the HTTP client."""
    await note_response(response)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    encoding = response.headers.pop("content-encoding", "identity")  # a few bytes may unpack to gigabytes
    if response.is_success:
        response.stream = _GuardedAnswer(response.stream, encoding)
    else:
        response.stream = _GuardedError(response.stream)


class _GuardedError(httpx2.AsyncByteStream):
    """The beginning of a body."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = ERROR_MOST
        async for piece in self._stream:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


class _GuardedAnswer(_GuardedError):
    """A body as complete lines of valid text.

    Raises:
        Malformed: If it is too long, or compressed although the request forbids that.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, encoding: str) -> None:
        super().__init__(stream)
        self._encoding = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding.strip().lower() not in ("", "identity"):
            raise Malformed(ValueError(f"the content encoding {self._encoding[:40]!r}, which the request forbids"))
        loop = asyncio.get_running_loop()
        until, left, begun = loop.time() + LONGEST, ANSWER_MOST, bytearray()
        async for piece in self._stream:
            left -= len(piece)
            lines, newline, rest = piece.rpartition(b"\n")
            if newline:
                yield _repaired(bytes(begun + lines + newline))
                begun.clear()
            begun += rest
            if len(begun) > LINE_MOST:
                raise Malformed(ValueError(f"a line of more than {LINE_MOST:,} bytes"))
            if left < 0:
                raise Malformed(ValueError(f"more than {ANSWER_MOST:,} bytes"))
            if loop.time() > until:
                raise Malformed(TimeoutError(f"no end after {LONGEST:g} s"))
        yield _repaired(bytes(begun))


def _repaired(data: bytes) -> bytes:
    """*data* with replacement characters for invalid text."""
    made = _ESCAPE.sub(lambda found: found[0] if found[2] else found[1] + rb"\ufffd", data)
    try:
        made.decode()
    except UnicodeDecodeError:
        made = made.decode("utf-8", "replace").encode()
    if made != data:
        ON_NOTE.get(str)(REPAIRED)
    return made
