"""The state of another node in a transport, and the messages in transit to it."""

import asyncio
from collections import OrderedDict, deque
from typing import Any

from msgspec import Struct

from coterie.agents.actors.message import Message
from coterie.agents.actors.transports.channel import Channel

REMEMBERED = 10_000
"""How many lost nodes, and names of stopped or lost agents, are kept."""


class Peer(Struct, eq=False):
    """Another node of the system.

    Attributes:
        process: The process name of a worker; empty: the supervisor.
        role: `supervisor` or `worker`.
        fingerprint: The fingerprint of its plan; messages are only exchanged between equal ones.
        names: Its present agents.
        leased_until: For a lost node, when all its agents have ended, by the time of this node's event loop.
    """

    address: str
    process: str
    role: str
    fingerprint: str
    names: set[str]
    leased_until: float = 0.0


class HandOver(Struct, eq=False):
    """A message in transit to a mailbox of another node, until it is known to be handled.

    Attributes:
        remote: The node of the agent, once there is one.
        has_slot: Whether it was sent but is not known to be in the mailbox.
    """

    message: Message
    frame: bytes
    taken: "asyncio.Future[None] | None"
    remote: "RemoteNode | None" = None
    has_slot: bool = False


class Lane:
    """The messages of this node to one agent."""

    __slots__ = ("open", "waiting")

    def __init__(self) -> None:
        self.open = 0
        self.waiting: deque[HandOver] = deque()


class RemoteNode:
    """The state of another node."""

    def __init__(self, address: str, channel: Channel) -> None:
        self.address, self.channel = address, channel
        self.peer: Peer | None = None
        self.names: set[str] = set()
        self.lanes: dict[str, Lane] = {}
        self.calls: dict[int, tuple[asyncio.Future[Any], str]] = {}
        self.taken: dict[str, None] = {}  # ids of messages in their mailboxes, until this is reported
        self.handled: list[str] = []
        self.heard_at = 0.0
        self.confirmed = 0  # the number of this node's last heartbeat that it has confirmed
        self.silent = 0  # this node's heartbeats that came back since the node was last heard


def trim(kept: OrderedDict[str, Any]) -> None:
    """Remove the oldest entry if there are too many."""
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
