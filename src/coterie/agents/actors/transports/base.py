"""The contract of transports, through which a node reaches agents of other processes.

Every sent message is handled or reported; a message in flight when a process is killed may be both. Messages from one
sender to one recipient arrive in order and at most once.
"""

from asyncio import Future
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from coterie.agents.actors.message import Message
from coterie.errors import NoSuchAgent


class Endpoint(Protocol):
    """A node, as its transport sees it."""

    letters: Any
    """Its dead letters."""

    now: Any
    """Returns the time in Unix seconds."""

    @property
    def address(self) -> str:
        """The name of the node; replies are sent to it."""

    def names(self) -> list[str]:
        """The agents of this node."""

    def receive(self, message: Message) -> "Future[None] | None":
        """Put *message* into the mailbox of its recipient; if that is full, return a future for when it is there.

        Raises:
            ActorError: If the recipient is unknown, or has stopped; the future can also have this error.
        """

    def recall(self, message: Message) -> bool:
        """Remove a received message; False if its handler has begun."""

    def receive_reply(self, asked: str, answer: Message) -> None:
        """Pass a reply to the ask of the message *asked*; a late one is counted and dropped."""

    def fail(self, asked: str, error: Exception) -> None:
        """Fail the ask of the message *asked* with *error*, if it still waits."""

    def on_settled(self, callback: Callable[[Message], None]) -> None:
        """Call *callback* with each message that was handled or became a dead letter."""


class Transport:
    """Carries messages, by name, to agents of other processes. This base class knows no such agents."""

    _local: Endpoint | None = None

    async def start(self, node: Endpoint) -> None:
        """Begin to carry messages of *node*.

        Raises:
            CannotStart: If the other side cannot be reached in time.
        """
        self._local = node

    async def stop(self) -> None:
        """Stop; the sending node reports messages that are not in a mailbox of another node."""

    def names(self) -> Iterable[str]:
        """The known agents of other processes."""
        return ()

    def deliver(self, message: Message) -> "Future[None] | None":
        """Carry *message*; the future is done when it is in the recipient's mailbox.

        None for an ask, which waits for its reply, or fails through `Endpoint.fail`.

        Raises:
            ActorError: If the recipient is unknown, has stopped, or its worker was lost; the future can also have this
                error.
            PayloadRefused: If the payload cannot be written.
        """
        raise NoSuchAgent(message.recipient, self._local.names() if self._local is not None else ())

    def recall(self, message: Message) -> None:
        """Remove a delivered message if its handler has not begun, since its sender no longer waits."""

    def reply(self, address: str, message: Message) -> None:
        """Carry a reply to the node at *address*; return at once.

        Raises:
            PayloadRefused: If the payload cannot be written.
        """

    def announce(self, name: str) -> None:
        """Announce that the node now has an agent of that name."""

    def withdraw(self, name: str, reason: str) -> None:
        """Announce that the agent *name* has stopped; without a reason it moves, and messages await its next node."""


class Carrier(Protocol):
    """Carries packets between nodes: it may lose some while its connection is down, but keeps the order of the others.

    Attributes:
        limit: The largest packet, in bytes.
    """

    limit: int

    async def connect(self, address: str, receive: Callable[[bytes], None]) -> None:
        """Connect as the node *address*, and pass every packet for it to *receive*.

        Raises:
            CannotStart: If there is no server or broker.
        """

    async def publish(self, address: str, packet: bytes) -> None:
        """Send *packet* to the node *address*; empty: to all nodes of the system, including this one."""

    async def close(self) -> None:
        """Disconnect, after all published packets have been sent."""
