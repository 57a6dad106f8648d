"""The transport of a system that has one process only."""

from asyncio import Future
from collections.abc import Iterable

from coterie.actors.message import Message
from coterie.actors.transports.base import Endpoint
from coterie.errors import NoSuchAgent


class InProcessTransport:
    """The transport of a system in one process: every agent is in the node's registry, so nothing is carried."""

    def __init__(self) -> None:
        self._node: Endpoint | None = None

    async def start(self, node: Endpoint) -> None:
        """Remember the node, whose names are suggested for an unknown one."""
        self._node = node

    async def stop(self) -> None:
        """Do nothing: nothing is under way."""

    def names(self) -> Iterable[str]:
        """No agents live elsewhere."""
        return ()

    def deliver(self, message: Message) -> "Future[None] | None":
        """Raise `NoSuchAgent`: the node delivers to its own agents itself."""
        raise NoSuchAgent(message.recipient, self._node.names() if self._node else ())

    def recall(self, message: Message) -> None:
        """Do nothing: nothing is under way."""

    def reply(self, address: str, message: Message) -> None:
        """Do nothing: no other node asks."""

    def announce(self, name: str) -> None:
        """Do nothing: no other node needs the name."""

    def withdraw(self, name: str, reason: str) -> None:
        """Do nothing: no other node knows the name."""
