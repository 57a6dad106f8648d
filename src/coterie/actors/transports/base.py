"""What a node needs to reach agents of other processes.

The promise, for all transports: every message that is sent is handled or reported, never neither; one in flight when a
process is killed may be both. Messages of one sender to one recipient arrive in order and at most once.
"""

from asyncio import Future
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from coterie.actors.message import Message
from coterie.errors import NoSuchAgent


class Endpoint(Protocol):
    """A node as its transport sees it."""

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
        """Put *message* into the mailbox of its recipient; a future, done when it is there, if the mailbox is full.

        Raises:
            ActorError: The recipient is unknown, or has stopped; the future can have this error, too.
        """

    def recall(self, message: Message) -> bool:
        """Remove a message that was received; False if its handler has begun."""

    def receive_reply(self, asked: str, answer: Message) -> None:
        """Give a reply to the ask of the message *asked*; a late one is counted and dropped."""

    def fail(self, asked: str, error: Exception) -> None:
        """Give *error* to the ask of the message *asked*, if it still waits."""

    def on_settled(self, callback: Callable[[Message], None]) -> None:
        """Call *callback* with each message that was handled or became a dead letter."""


class Transport:
    """Carries messages to agents that are not in this process, by name. By default there are none."""

    _local: Endpoint | None = None

    async def start(self, node: Endpoint) -> None:
        """Begin to carry messages of *node*.

        Raises:
            CannotStart: The other side cannot be reached in time.
        """
        self._local = node

    async def stop(self) -> None:
        """Stop; messages that no mailbox of another node has are reported by the sending node."""

    def names(self) -> Iterable[str]:
        """The agents known to live elsewhere."""
        return ()

    def deliver(self, message: Message) -> "Future[None] | None":
        """Carry *message*; the future is done when the mailbox of the recipient has it.

        None for an ask: its reply is waited for, and a failure is given to it by `Endpoint.fail`.

        Raises:
            ActorError: The recipient is unknown, has stopped, or its worker was lost; the future can have this error,
                too.
            PayloadRefused: The payload cannot be written.
        """
        raise NoSuchAgent(message.recipient, self._local.names() if self._local is not None else ())

    def recall(self, message: Message) -> None:
        """Remove a message that was delivered if its handler has not begun: its sender waits no longer."""

    def reply(self, address: str, message: Message) -> None:
        """Carry a reply to the node at *address*; return at once.

        Raises:
            PayloadRefused: The payload cannot be written.
        """

    def announce(self, name: str) -> None:
        """The node has an agent of that name now."""

    def withdraw(self, name: str, reason: str) -> None:
        """The agent *name* of the node has stopped; without a reason, it moves: messages wait for its next node."""


class Carrier(Protocol):
    """Carries packets between nodes; may lose packets while its connection is down, keeps the order of the others.

    Attributes:
        limit: Bytes of the largest packet.
    """

    limit: int

    async def connect(self, address: str, receive: Callable[[bytes], None]) -> None:
        """Connect as the node *address*, and give every packet for it to *receive*.

        Raises:
            CannotStart: There is no server or broker.
        """

    async def publish(self, address: str, packet: bytes) -> None:
        """Send *packet* to the node *address*; empty: to all nodes of the system, this one included."""

    async def close(self) -> None:
        """Disconnect, after what was published has been sent."""
