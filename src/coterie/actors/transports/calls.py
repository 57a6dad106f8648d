"""Requests between nodes and their answers, beside the messages of agents."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from coterie.actors.transports import wire
from coterie.actors.transports.remote import Peer, RemoteNode
from coterie.errors import ActorError, AskTimedOut, error_line

Handler = Callable[[Peer, Any], Awaitable[Any]]


class NodeCalls:
    """The requests that a node has sent and not seen answered, and the handlers of those that it receives.

    Args:
        put: Sends the bytes of a frame to a node.
        limit: Bytes of the largest packet.
    """

    def __init__(self, put: Callable[[RemoteNode, bytes], None], limit: Callable[[], int]) -> None:
        self.handlers: dict[str, Handler] = {}
        self._put, self._limit = put, limit
        self._numbers = count(1)

    async def request(self, remote: RemoteNode, kind: str, payload: Any, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Send a request to *remote*, and return what its handler returns; see `PeerTransport.request`."""
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        frame = wire.encode(wire.CallFrame(number, kind, payload), kind, self._limit())
        remote.calls[number] = (future, kind)
        self._put(remote, frame)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise AskTimedOut(kind, timeout or 0.0) from None
        finally:
            remote.calls.pop(number, None)

    async def answer(self, remote: RemoteNode, frame: wire.CallFrame) -> bytes:
        """Handle a request; return the frame that answers it."""
        handler, peer = self.handlers.get(frame.kind), remote.peer
        try:
            if handler is None or peer is None:
                raise LookupError(f"no handler for requests {frame.kind!r}")
            reply = wire.CallReplyFrame(frame.number, await handler(peer, frame.payload))
            return wire.encode(reply, frame.kind, self._limit())
        except Exception as error:  # becomes an error of the requesting node
            why = str(error) if handler is None or peer is None else error_line(error)
            return wire.encode(wire.CallReplyFrame(frame.number, None, why), frame.kind, self._limit())


def take_answer(remote: RemoteNode, frame: wire.CallReplyFrame) -> None:
    """Give the answer of *remote* to the request that waits for it."""
    future, kind = remote.calls.get(frame.number, (None, ""))
    if future is None or future.done():
        return
    if frame.error:
        future.set_exception(ActorError(kind, frame.error))
    else:
        future.set_result(frame.payload)
