"""Another node, as a transport keeps it, and the messages on their way there."""

import asyncio
from collections import OrderedDict, deque
from typing import Any

from msgspec import Struct

from coterie.actors.message import Message
from coterie.actors.transports.channel import Channel

REMEMBERED = 10_000
"""How many names of agents that have stopped or were lost, and how many lost nodes, are kept."""


class Peer(Struct, eq=False):
    """Another node of the system.

    Attributes:
        process: The process name of a worker; empty: the supervisor.
        role: `supervisor` or `worker`.
        fingerprint: That of the plan it was started with; messages go only between equal ones.
        names: Its agents, as they are now.
        leased_until: When it was lost: the time of this node's event loop at which all its agents have ended.
    """

    address: str
    process: str
    role: str
    fingerprint: str
    names: set[str]
    leased_until: float = 0.0


class HandOver(Struct, eq=False):
    """A message on its way to a mailbox elsewhere, until it is known to be handled.

    Attributes:
        remote: The node that has the agent, once there is one.
        has_slot: Sent, and not known to be in the mailbox.
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
    """Another node, as the transport keeps it."""

    def __init__(self, address: str, channel: Channel) -> None:
        self.address, self.channel = address, channel
        self.peer: Peer | None = None
        self.names: set[str] = set()
        self.lanes: dict[str, Lane] = {}
        self.calls: dict[int, tuple[asyncio.Future[Any], str]] = {}
        self.taken: dict[str, None] = {}  # ids of messages that are in their mailboxes, until that is reported
        self.handled: list[str] = []
        self.heard_at = 0.0
        self.confirmed = 0  # the number of the last own heartbeat that it has confirmed
        self.silent = 0  # own heartbeats that came back since anything was heard


def trim(kept: OrderedDict[str, Any]) -> None:
    """Forget the oldest entry of those that are too many."""
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
